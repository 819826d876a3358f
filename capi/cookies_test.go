package capi_test

import (
	"bufio"
	"encoding/json"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
)

// cookieVector is one run of Meta's parameter builder for Node, with what it gave.
type cookieVector struct {
	ID     string `json:"id"`
	NowMS  int64  `json:"now_ms"`
	Random float64
	Input  struct {
		Host    string            `json:"host"`
		Query   map[string]string `json:"query"`
		Cookies map[string]string `json:"cookies"`
		Referer string            `json:"referer"`
		XFF     string            `json:"xff"`
		Remote  string            `json:"remote"`
		Context *struct {
			URL     string            `json:"url"`
			Headers map[string]string `json:"headers"`
		} `json:"context"`
	} `json:"input"`
	Output struct {
		FBC     *string `json:"fbc"`
		FBP     *string `json:"fbp"`
		Address *string `json:"client_ip_address"`
		Set     []struct {
			Name   string  `json:"name"`
			Domain *string `json:"domain"`
		} `json:"set_cookies"`
	} `json:"output"`
}

// differs are the runs in which we do otherwise than Meta's library, each with why. "" of
// an outcome is none.
var differs = map[string]struct {
	why, domain, fbc, fbp, address string
	fields                         string // those in which we differ
}{
	"server-08": {why: "the public suffix list knows that eu.example.com was not registered", fields: "domain fbc fbp", domain: "example.com", fbc: "fb.1.1900000000000." + clickID, fbp: "fb.1.1900000000000.1073741823"},
	"server-11": {why: "browsers refuse cookies on co.uk", fields: "domain fbc fbp", domain: "example.co.uk", fbc: "fb.2.1900000000000." + clickID, fbp: "fb.2.1900000000000.1073741823"},
	"server-17": {why: "an address has no domain: no cookie is set, and without one the index is 1", fields: "domain fbc fbp", fbc: "fb.1.1900000000000." + clickID, fbp: "fb.1.1900000000000.1073741823"},
	"server-18": {why: "hosts are the same in any case", fields: "domain", domain: "example.com"},
	"server-19": {why: "without a host no cookie is set, and without one the index is 1", fields: "fbc fbp", fbc: "fb.1.1900000000000." + clickID, fbp: "fb.1.1900000000000.1073741823"},
	"server-32": {why: "an id with a dot makes a cookie that the next request would not read", fields: "fbc"},
	"server-36": {why: "a fifth segment in doubt: sent on unchanged, and the cookie is left alone", fields: "fbc", fbc: "fb.1.1700000000000.abc"},
	"server-54": {why: "the Pixel sees the same visitor by the plain IPv4 address", fields: "address", address: "168.212.226.204"},
	"server-57": {why: "an address with its port is still one", fields: "address", address: "168.212.226.204"},
}

const clickID = "IwAR2F4-dbP0l7Mn1IawQQGCINEz7PYXQvwjNwB_qa2ofrHyiLjcbCRxTDMgk"

func readCookieVectors(t *testing.T) []cookieVector {
	t.Helper()
	f, err := os.Open("testdata/cookies.jsonl")
	require.NoError(t, err)
	defer f.Close()
	var list []cookieVector
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v cookieVector
		require.NoError(t, json.Unmarshal(lines.Bytes(), &v))
		if c := v.Input.Context; c != nil {
			v.Input.Host, v.Input.Referer, v.Input.XFF = c.Headers["host"], c.Headers["referer"], c.Headers["x-forwarded-for"]
			u, err := url.Parse(c.URL)
			require.NoError(t, err)
			v.Input.Query = map[string]string{"fbclid": u.Query().Get("fbclid")}
			name, value, _ := strings.Cut(c.Headers["cookie"], "=")
			v.Input.Cookies = map[string]string{name: value}
		}
		list = append(list, v)
	}
	require.NotEmpty(t, list)
	return list
}

// The vectors count in their segments 1 to 4: the appendix is Meta's own, and is kept
// where it came, never made.
func TestCookiesLikeMetasParameterBuilder(t *testing.T) {
	t.Parallel()
	for _, v := range readCookieVectors(t) {
		t.Run(v.ID, func(t *testing.T) {
			t.Parallel()
			now := time.UnixMilli(v.NowMS)
			domain := capi.CookieDomain(v.Input.Host)
			click := v.Input.Query["fbclid"]
			if click == "" {
				click = capi.ClickID(v.Input.Referer)
			}
			fbc, newFBC := capi.NextFBC(v.Input.Cookies["_fbc"], click, domain, now)
			fbp, newFBP := capi.NextFBP(v.Input.Cookies["_fbp"], domain, now, 1<<31-1) // half of all numbers, as the vectors' 0.5
			request := v.Input.XFF
			if v.Input.Remote != "" { // nobody in between is trusted
				request = v.Input.Remote
			}
			address := capi.ClientAddress(v.Input.Cookies["_fbi"], request)

			other := differs[v.ID]
			want := func(field, meta, ours string) string {
				if strings.Contains(" "+other.fields+" ", " "+field+" ") {
					require.NotEqual(t, meta, ours, "we do not differ: %s", other.why)
					return ours
				}
				return meta
			}
			require.Equal(t, want("fbc", first4(v.Output.FBC), other.fbc), first4(new(fbc.String())))
			require.Equal(t, want("fbp", first4(v.Output.FBP), other.fbp), first4(new(fbp.String())))
			require.Equal(t, want("address", withoutNewAppendix(v.Output.Address, v.Input.Cookies["_fbi"]), other.address), address)
			for name, c := range map[string]capi.Cookie{"_fbc": fbc, "_fbp": fbp} {
				came, ok := capi.ParseCookie(v.Input.Cookies[name])
				if changed := map[string]bool{"_fbc": newFBC, "_fbp": newFBP}[name]; !changed {
					require.Equal(t, ok, c.ID != "")
					require.Equal(t, came.Appendix, c.Appendix, "what came is kept")
					if ok {
						require.Equal(t, v.Input.Cookies[name], c.String())
					}
					continue
				}
				require.Empty(t, c.Appendix, "Meta's appendix is never forged")
				require.Len(t, strings.Split(c.String(), "."), 4)
				require.NotEmpty(t, v.Output.Set)
				meta := ""
				if v.Output.Set[0].Domain != nil {
					meta = *v.Output.Set[0].Domain
				}
				require.Equal(t, want("domain", meta, other.domain), domain)
			}
		})
	}
}

func first4(s *string) string {
	if s == nil {
		return ""
	}
	parts := strings.SplitN(*s, ".", 5)
	return strings.Join(parts[:min(4, len(parts))], ".")
}

// withoutNewAppendix takes off the appendix that the library made itself.
func withoutNewAppendix(address *string, cookie string) string {
	if address == nil {
		return ""
	}
	if strings.HasPrefix(cookie, *address) {
		return *address
	}
	i := strings.LastIndexByte(*address, '.')
	return (*address)[:i]
}

func TestClickCookies(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1750000000000)
	for name, c := range map[string]struct{ value, click, want string }{
		"C091: a whole cookie is not wrapped again": {"", "fb.1.1750000000000.IwAR1aB_c-D", "fb.1.1750000000000.IwAR1aB_c-D"},
		"C092: a blank":                               {"", "Ab Cd", ""},
		"C092: markup":                                {"", "<script>", ""},
		"C092: a dot":                                 {"", "Ab.Cd", ""},
		"C092: an escaped blank, still escaped":       {"", "Ab%20Cd", ""},
		"C096: a cookie without its last part":        {"fb.1.1750000000000.", "", ""},
		"C097: the case of the id stays":              {"fb.1.1740000000000.IwAR1aB_c-D", "", "fb.1.1740000000000.IwAR1aB_c-D"},
		"C097: another case is another click":         {"fb.1.1740000000000.IwAR1aB_c-D", "iwar1ab_c-d", "fb.1.1750000000000.iwar1ab_c-d"},
		"C099: a new click replaces the old one":      {"fb.1.1749000000000.OLD", "NEW", "fb.1.1750000000000.NEW"},
		"C099: the same click keeps its time":         {"fb.1.1749000000000.SAME", "SAME", "fb.1.1749000000000.SAME"},
		"C100: the id of a cookie in the address":     {"", "fb.1.1750000000000.AbC", "fb.1.1750000000000.AbC"},
		"an id that is too long changes nothing":      {"fb.1.1749000000000.OLD", strings.Repeat("a", 501), "fb.1.1749000000000.OLD"},
		"an id of 500 letters":                        {"", strings.Repeat("a", 500), "fb.1.1750000000000." + strings.Repeat("a", 500)},
		"a bad id changes nothing":                    {"fb.1.1749000000000.OLD", "a b", "fb.1.1749000000000.OLD"},
		"a new click replaces one in doubt":           {"fb.1.1749000000000.OLD.helloabc", "NEW", "fb.1.1750000000000.NEW"},
		"a cookie that breaks a header is none":       {"fb.1.1749000000000.a;b", "", ""},
		"a cookie whose time is beyond all measure":   {"fb.1.99999999999999999999.a", "", ""},
		"the builder's appendix stays where it stood": {"fb.1.1749000000000.OLD.AQYCAQMB", "OLD", "fb.1.1749000000000.OLD.AQYCAQMB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, changed := capi.NextFBC(c.value, c.click, "example.com", now)
			require.Equal(t, c.want, got.String())
			require.Equal(t, changed, c.want != "" && c.want != c.value)
		})
	}
}

func TestClickCookieHasWholeMilliseconds(t *testing.T) { // C094
	t.Parallel()
	got, _ := capi.NextFBC("", "AbC", "example.com", time.Unix(1735689600, 123_456_789))
	require.Equal(t, "fb.1.1735689600123.AbC", got.String())
}

func TestClickCookieIsOneWhereNoneIsSet(t *testing.T) { // C098
	t.Parallel()
	got, _ := capi.NextFBC("", "AbC", "", time.UnixMilli(1))
	require.Equal(t, "fb.1.1.AbC", got.String())
}

func TestCookieDomain(t *testing.T) { // C106
	t.Parallel()
	for host, want := range map[string]string{
		"example.co.uk": "example.co.uk", "shop.example.co.uk:8443": "example.co.uk", "www.Example.com.": "example.com", "example.com": "example.com",
		"co.uk": "", "localhost": "", "": "", "203.0.113.7": "", "[2001:db8::1]:80": "", "user.github.io": "user.github.io", "a.b.user.github.io": "user.github.io",
		"..": "", "a..b": "",
	} {
		require.Equal(t, want, capi.CookieDomain(host), host)
	}
}

func TestClickID(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{
		"https://example.com/?fbclid=AbC&x=1": "AbC", "https://example.com/?x=1&fbclid=Ab%2DC#top": "Ab-C", "https://example.com/#fbclid=AbC": "AbC",
		"https://example.com/#/thanks?fbclid=AbC": "AbC", "https://example.com/?fbclid=": "", "https://example.com/?myfbclid=AbC": "", "": "", "fbclid=AbC": "",
		"https://example.com/?fbclid=%zz": "", "http://[bad": "",
	} {
		require.Equal(t, want, capi.ClickID(page), page)
	}
}

func TestClientAddress(t *testing.T) {
	t.Parallel()
	require.Equal(t, "203.0.113.7", capi.ClientAddress("", "::ffff:203.0.113.7"), "C110")
	for _, none := range []string{"unknown", "", "10.0.0.5", "127.0.0.1", "fd00::1", "fe80::1%eth0", "0.0.0.0", "100.64.1.1"} { // C112
		require.Empty(t, capi.ClientAddress("", none), none)
		require.Empty(t, capi.ClientAddress(none), none)
		require.Equal(t, "203.0.113.7", capi.ClientAddress(none, "203.0.113.7"))
	}
	require.Equal(t, "2a00::1", capi.ClientAddress("203.0.113.7", "2a00::1"))
	require.Equal(t, "2a00::1.AQYCAQMB", capi.ClientAddress("2a00::1.AQYCAQMB.AQYCAQMB.AQYCAQMB", "203.0.113.7"))
}

// Whatever is in a cookie, what comes out is a cookie that is read again, or none.
func FuzzCookies(f *testing.F) {
	f.Add("fb.1.1700000000000.AbC", "AbC", "www.example.com")
	f.Add("fb.1.1700000000000.AbC.AQYCAQMB", "fb.1.1.x", "[::1]:80")
	f.Add("", "a.b", "..")
	f.Fuzz(func(t *testing.T, value, click, host string) {
		now := time.UnixMilli(1750000000000)
		domain := capi.CookieDomain(host)
		c, changed := capi.NextFBC(value, click, domain, now)
		if s := c.String(); s != "" {
			again, ok := capi.ParseCookie(s)
			require.True(t, ok, s)
			require.Equal(t, c.ID, again.ID)
			require.Equal(t, c.Created.UnixMilli(), again.Created.UnixMilli())
			require.NotContains(t, s, ";")
			stays, more := capi.NextFBC(s, click, domain, now)
			require.False(t, more)
			require.Equal(t, s, stays.String())
		}
		require.False(t, changed && c.Appendix != "")
		p, _ := capi.NextFBP(value, domain, now, 7)
		_, ok := capi.ParseCookie(p.String())
		require.True(t, ok)
		_ = capi.ClickID(value)
		_ = capi.ClientAddress(value, click, host)
	})
}
