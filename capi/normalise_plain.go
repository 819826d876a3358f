package capi

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// plainValue is the rule of the keys that are sent as they are (page "Customer
// information parameters": do not hash).
func (f *facts) plainValue(key Key, raw string) (text, code string) {
	raw = trimmed(raw)
	if raw == "" {
		return "", ""
	}
	if isPlaceholder(raw) {
		return "", ProblemPlaceholder
	}
	text = raw
	switch key {
	case KeyClientIPAddress:
		text, code = clientAddress(raw)
	case KeyFBC:
		text, code = f.clickCookie(raw)
	case KeyFBP:
		text, code = browserCookie(raw)
	case KeyLeadID:
		text, code = leadID(raw)
	case KeyFBLoginID:
		text, code = decimalID(raw)
	case KeyMADID:
		text, code = advertisingID(raw)
	default:
		if len(raw) == hashLength && isHex(raw) && key != KeyClientUserAgent && key != KeyCTWAClid && key != KeyAnonID {
			code = ProblemNotHashed
		}
	}
	if code != "" {
		return "", code
	}
	return text, ""
}

// clientAddress finds the visitor's public address in an address, an address with
// port, or the lists of X-Forwarded-For and Forwarded. An appendix of Meta's parameter
// builder stays. Page "Customer information parameters": a valid IPv4 or IPv6 address.
func clientAddress(raw string) (address, code string) {
	code = ProblemInvalidIP
	for part := range strings.SplitSeq(raw, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		if ip, ok := publicAddress(part); ok {
			return ip, ""
		}
	}
	return "", code
}

func publicAddress(s string) (string, bool) {
	if strings.HasPrefix(strings.ToLower(s), "for=") {
		s, _, _ = strings.Cut(s[4:], ";")
		s = strings.Trim(s, `"`)
	}
	appendix := ""
	if i := strings.LastIndexByte(s, '.'); i > 0 && isAppendix(s[i:]) && !isDigits(s[i+1:]) {
		s, appendix = s[:i], s[i:]
	}
	ip, err := netip.ParseAddr(strings.Trim(s, "[]"))
	if err != nil {
		withPort, err := netip.ParseAddrPort(s)
		if err != nil {
			return "", false
		}
		ip = withPort.Addr()
	}
	ip = ip.Unmap()
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.Zone() != "" || sharedAddresses.Contains(ip) {
		return "", false
	}
	return ip.String() + appendix, true
}

// sharedAddresses are those of carrier-grade NAT (RFC 6598), never seen in public.
var sharedAddresses = netip.MustParsePrefix("100.64.0.0/10")

// clickCookie is the rule of fbc (page "fbp and fbc"): fb.{index}.{milliseconds}.
// {fbclid}, passed on with its case. A bare click id, or an address with one, gets the
// time of the event, as the page asks of servers that kept no cookie.
func (f *facts) clickCookie(raw string) (cookie, code string) {
	s := strings.TrimPrefix(raw, "_fbc=")
	if isHex(s) && (len(s) == hashLength || len(s) == 32) {
		return "", ProblemNotHashed
	}
	if cookie, id, ok := cookieParts(s); ok {
		if id == "" || isPlaceholder(id) {
			return "", ProblemInvalidClickID
		}
		return cookie, ""
	}
	id := s
	if _, query, ok := strings.Cut(s, "fbclid="); ok {
		id, _, _ = strings.Cut(query, "&")
		id, _, _ = strings.Cut(id, "#")
		if text, err := url.QueryUnescape(id); err == nil {
			id = text
		}
	}
	if len(id) < 10 || isPlaceholder(id) || len(s) > 2 && strings.EqualFold(s[:3], "fb.") || !isFbclid(id) {
		return "", ProblemInvalidClickID
	}
	when := f.when
	if when.IsZero() {
		when = f.today()
	}
	return "fb.1." + strconv.FormatInt(when.UnixMilli(), 10) + "." + id, ""
}

func isFbclid(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isASCIIAlnum(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// browserCookie is the rule of fbp (page "fbp and fbc"): fb.{index}.{milliseconds}.
// {number}, with or without the appendix of the parameter builder.
func browserCookie(raw string) (cookie, code string) {
	s := strings.TrimPrefix(raw, "_fbp=")
	if isHex(s) && (len(s) == hashLength || len(s) == 32) {
		return "", ProblemNotHashed
	}
	cookie, id, ok := cookieParts(s)
	number := id
	if i := strings.IndexByte(id, '.'); i > 0 && isAppendix(id[i:]) {
		number = id[:i]
	}
	if !ok || !isDigits(number) {
		return "", ProblemInvalidClickID
	}
	return cookie, ""
}

// cookieParts finds what stands after the third dot in a cookie of Meta's. Ten digits of
// time are seconds; the page wants milliseconds, and so the cookie comes back with them.
func cookieParts(s string) (cookie, id string, ok bool) {
	name, rest, ok1 := strings.Cut(s, ".")
	index, rest, ok2 := strings.Cut(rest, ".")
	created, id, ok3 := strings.Cut(rest, ".")
	if !ok1 || !ok2 || !ok3 || !strings.EqualFold(name, "fb") || !isDigits(index) || !isDigits(created) ||
		strings.ContainsAny(id, " \t\r\n;") {
		return "", "", false
	}
	switch {
	case len(created) == 13 && name == "fb":
		return s, id, true
	case len(created) == 10:
		created += "000"
	case len(created) != 13:
		return "", "", false
	}
	return "fb." + index + "." + created + "." + id, id, true
}

// leadID is the rule of lead_id: 15 to 17 digits (page "Conversion Leads: payload
// specification"), which the export of lead ads writes after l:. Digits lost by a
// spreadsheet cannot come back, and Meta refuses the batch for a wrong id.
func leadID(raw string) (id, code string) {
	s := plainText(raw)
	s = strings.TrimPrefix(strings.TrimPrefix(s, "'"), "l:")
	s = strings.NewReplacer(",", "", " ", "", "'", "").Replace(s)
	if !isDigits(s) || len(s) < 15 || len(s) > 17 {
		return "", ProblemInvalidLeadID
	}
	return s, ""
}

func decimalID(raw string) (id, code string) {
	s := strings.TrimPrefix(plainText(raw), "'")
	if !isDigits(s) || len(s) > 20 {
		return "", ProblemInvalidID
	}
	return s, ""
}

// advertisingID is the rule of madid: the UUID of Android or iOS in lower case. Zeros
// mean that the person has refused.
func advertisingID(raw string) (id, code string) {
	s := strings.ToLower(strings.Trim(raw, "{} "))
	if len(s) == hashLength && isHex(s) {
		return "", ProblemNotHashed
	}
	digits := strings.ReplaceAll(s, "-", "")
	if len(digits) != 32 || !isHex(digits) {
		return "", ProblemInvalidID
	}
	if isOneDigit(digits) && digits[0] == '0' {
		return "", ProblemPlaceholder
	}
	return digits[:8] + "-" + digits[8:12] + "-" + digits[12:16] + "-" + digits[16:20] + "-" + digits[20:], ""
}
