package capi

import (
	"encoding/base64"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"
)

// CookieAge is how long _fbc and _fbp live, counted from when they were last set. Page
// "ClickID and the fbp and fbc parameters".
const CookieAge = 90 * 24 * time.Hour

// maxClickID is as long as the click ids are that Meta's own browser library takes.
const maxClickID = 500

// Cookie is what stands in one of the Pixel's cookies, _fbc or _fbp:
// fb.{index}.{milliseconds}.{id}, maybe with an appendix by which Meta's parameter
// builder marks what it made or saw. The zero value is no cookie.
type Cookie struct {
	Index   int       // number of dots in the domain that it is set on
	Created time.Time // when the click id or the number was first kept
	ID      string    // the click id (its case counts), or the browser's number
	// Appendix is Meta's own; it comes and goes with the value and is never made by
	// others, for it names the library that made the value.
	Appendix string
	// Doubtful tells that there is a fifth segment which is no appendix that is known.
	// Such a value is sent on as it is, and its cookie is left alone.
	Doubtful bool
}

// ParseCookie reads the value of _fbc or _fbp. Not ok: it is none, and counts as absent.
func ParseCookie(value string) (c Cookie, ok bool) {
	parts := strings.Split(value, ".")
	if len(parts) < 4 || len(parts) > 5 || parts[0] != "fb" || !isDigits(parts[1]) || !isDigits(parts[2]) || parts[3] == "" {
		return Cookie{}, false
	}
	index, err := strconv.Atoi(parts[1])
	ms, err2 := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || err2 != nil || strings.ContainsAny(value, " \t\r\n;,\"\\") {
		return Cookie{}, false
	}
	c = Cookie{Index: index, Created: time.UnixMilli(ms), ID: parts[3]}
	if len(parts) == 5 {
		c.Appendix, c.Doubtful = parts[4], !isBuilderAppendix(parts[4])
	}
	return c, true
}

// String writes the cookie's value; "" is no cookie.
func (c Cookie) String() string {
	if c.ID == "" {
		return ""
	}
	s := "fb." + strconv.Itoa(c.Index) + "." + strconv.FormatInt(c.Created.UnixMilli(), 10) + "." + c.ID
	if c.Appendix != "" {
		s += "." + c.Appendix
	}
	return s
}

// isBuilderAppendix knows the endings of Meta's parameter builder: two letters that stand
// for a language, or 6 bytes in base64: a one, the language, the kind and three numbers
// of the version.
func isBuilderAppendix(s string) bool {
	if len(s) == 2 {
		return slices.Contains([]string{"AQ", "Ag", "Aw", "BA", "BQ", "Bg"}, s)
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	return err == nil && len(b) == 6 && b[0] == 1 && b[1] >= 1 && b[1] <= 6
}

// NextFBC says what the cookie _fbc should hold when a page was opened: value is what it
// holds, clickID the fbclid of the page's address (ClickID finds it), domain what the
// cookie is set on (CookieDomain; "": it is not set). The same id keeps its time, another
// one replaces it, and an id that cannot be one of Meta's changes nothing. changed tells
// that the cookie must be set.
func NextFBC(value, clickID, domain string, now time.Time) (c Cookie, changed bool) {
	c, ok := ParseCookie(value)
	clickID = bareClickID(clickID)
	if clickID == "" || ok && c.ID == clickID {
		return c, false
	}
	return Cookie{Index: cookieIndex(domain), Created: now.Truncate(time.Millisecond), ID: clickID}, true
}

// NextFBP says what the cookie _fbp should hold: value is what it holds, and stays if it
// is one; else number, a random one, makes a new browser. Make one only where it will be
// set, for a browser with a new number at each request is nobody.
func NextFBP(value, domain string, now time.Time, number uint32) (c Cookie, changed bool) {
	if c, ok := ParseCookie(value); ok {
		return c, false
	}
	return Cookie{Index: cookieIndex(domain), Created: now.Truncate(time.Millisecond), ID: strconv.FormatUint(uint64(number>>1), 10)}, true
}

// bareClickID returns the click id of what stands in fbclid: the id itself, or that of a
// whole cookie that was put there. What has other characters than Meta's ids, or too
// many, is none.
func bareClickID(s string) string {
	if c, ok := ParseCookie(s); ok {
		s = c.ID
	}
	if len(s) > maxClickID {
		return ""
	}
	for i := range len(s) {
		if c := s[i]; !isASCIIAlnum(c) && c != '-' && c != '_' {
			return ""
		}
	}
	return s
}

// ClickID returns Meta's click id of a page's address, "" if there is none: its
// parameter fbclid, of the query or of the fragment, unescaped.
func ClickID(page string) string {
	before, fragment, _ := strings.Cut(page, "#")
	_, query, _ := strings.Cut(before, "?")
	if _, params, ok := strings.Cut(fragment, "?"); ok {
		fragment = params
	}
	for _, part := range []string{query, fragment} {
		for pair := range strings.SplitSeq(part, "&") {
			raw, ok := strings.CutPrefix(pair, "fbclid=")
			if !ok || raw == "" {
				continue
			}
			if id, err := url.QueryUnescape(raw); err == nil {
				return id
			}
		}
	}
	return ""
}

// CookieDomain returns the domain on which a cookie is seen by all hosts of a site: the
// one that somebody registered, by the public suffix list. "" is for addresses, names
// without a dot and suffixes: their cookies belong to the host alone.
func CookieDomain(host string) string {
	host = strings.TrimSuffix(strings.ToLower(hostname(host)), ".")
	if _, err := netip.ParseAddr(host); err == nil {
		return ""
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil {
		return ""
	}
	return domain
}

// hostname takes the port off, and the brackets of an IPv6 address.
func hostname(host string) string {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, _, _ = strings.Cut(inner, "]")
		return inner
	}
	host, _, _ = strings.Cut(host, ":")
	return host
}

// cookieIndex is the number of dots in a cookie's domain; 1 where none is set.
func cookieIndex(domain string) int {
	if domain == "" {
		return 1
	}
	return strings.Count(domain, ".")
}

// ClientAddress chooses the visitor's address: IPv6 before IPv4, and of each kind what
// the cookie _fbi says before what the request came from. Only public addresses count;
// "" is none. An appendix of Meta's stays, once.
func ClientAddress(fbi string, request ...string) string {
	candidates := append([]string{onceAppended(fbi)}, request...)
	found := ""
	for _, raw := range candidates {
		address, ok := publicAddress(strings.TrimSpace(raw))
		if ok && strings.Contains(address, ":") {
			return address
		}
		if ok && found == "" {
			found = address
		}
	}
	return found
}

// onceAppended takes off the repeats of an appendix, which Meta's browser library adds
// once for each domain that refused the cookie.
func onceAppended(fbi string) string {
	for {
		rest, last, ok := cutLast(fbi)
		if !ok || !isBuilderAppendix(last) {
			return fbi
		}
		if _, before, ok := cutLast(rest); !ok || before != last {
			return fbi
		}
		fbi = rest
	}
}

func cutLast(s string) (before, last string, ok bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}
