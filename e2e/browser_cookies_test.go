package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// frozen stops the clock and the dice of a page where those of Meta's vectors stood.
const frozen = `<script>Date.now=function(){return 1900000000000};Math.random=function(){return .5}</script>`

// cookieVector is a page load that Meta's own library for browsers was watched at.
type cookieVector struct {
	ID, Description string
	Input           struct {
		URL, Arg string
		Cookies  map[string]string
	}
	Output struct {
		Result map[string]string
		Jar    []struct{ Name, Domain string }
	}
}

// cookiesDiffer lists where the tag does otherwise, and why.
var cookiesDiffer = map[string]struct{ why, fbc string }{
	"browser-11": {why: "an id of other characters than Meta's makes no cookie"},
	"browser-17": {why: "the app is not asked: its answer is worth less than the bytes"},
}

func browserVectors(t *testing.T) []cookieVector {
	t.Helper()
	f, err := os.Open("testdata/browser_cookies.jsonl")
	require.NoError(t, err)
	defer f.Close()
	var list []cookieVector
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var v cookieVector
		require.NoError(t, json.Unmarshal(lines.Bytes(), &v))
		list = append(list, v)
	}
	require.NotEmpty(t, list)
	return list
}

// first4 is a cookie without Meta's appendix, which names the library that made it.
func first4(value string) string {
	parts := strings.Split(value, ".")
	return strings.Join(parts[:min(4, len(parts))], ".")
}

// cookieSite is a site on several names at once, all of them with the tag.
type cookieSite struct {
	*website
	port string
}

func newCookieSite(t *testing.T, fbp string) *cookieSite {
	t.Helper()
	s := &website{pages: map[string]string{}}
	s.page = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.page.Close)
	u, err := url.Parse(s.page.URL)
	require.NoError(t, err)
	var origins []string
	for _, host := range []string{"www.example.com", "example.com", "shop.example.co.uk", "example.co.uk"} {
		origins = append(origins, fmt.Sprintf("%q", "http://"+host+":"+u.Port()))
	}
	s.rig = newRig(t, setup{lines: fmt.Sprintf("    sources:\n      - {kind: website, name: web, site: shop, honeypot: nothing, origins: [%s], consent: {wait: send}, fbp: %s}\n",
		strings.Join(origins, ", "), fbp)})
	s.proxy = s.page
	gate, err := url.Parse(s.url())
	require.NoError(t, err)
	s.put("/", frozen+`<script async src="http://`+gateHost+":"+gate.Port()+`/t.js?site=shop"></script>`, "")
	return &cookieSite{s, u.Port()}
}

// here is an address of the site: that of a vector, with the test server's port.
func (s *cookieSite) here(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return strings.Replace(address, u.Scheme+"://"+u.Host, "http://"+u.Host+":"+s.port, 1)
}

// goTo opens an address of one of the site's names.
func (s *cookieSite) goTo(v *visitor, address string) {
	v.t.Helper()
	v.run(chromedp.Navigate(s.here(address)))
	v.until("window.capiloop && capiloop.loaded === true")
}

// have gives a visitor cookies of a domain.
func (v *visitor) have(domain string, cookies map[string]string) {
	v.t.Helper()
	for name, value := range cookies {
		_, err := chromedp.Call(v.ctx, network.SetCookie, network.SetCookieParams{Name: name, Value: value, Domain: "." + domain, Path: "/"})
		require.NoError(v.t, err)
	}
}

// _fbc and _fbp are made, kept and replaced as Meta's own library does, but for its
// appendix; what differs is listed.
func TestBrowserCookiesLikeMetasLibrary(t *testing.T) {
	t.Parallel()
	s := newCookieSite(t, "create")
	for _, c := range browserVectors(t) {
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			v := s.visit(t)
			domain := "example.com"
			if strings.Contains(c.Input.URL, "co.uk") {
				domain = "example.co.uk"
			}
			v.have(domain, c.Input.Cookies)
			s.goTo(v, c.Input.URL)
			if c.Input.Arg != "" { // the address that the page was told of later
				v.do("history.pushState({},'','" + s.here(c.Input.Arg) + "')")
			}
			other, differs := cookiesDiffer[c.ID]
			wantFBC := first4(c.Output.Result["_fbc"])
			if differs {
				require.NotEqual(t, wantFBC, other.fbc, "we do not differ: %s", other.why)
				wantFBC = other.fbc
			}
			v.until("/_fbp=/.test(document.cookie)")
			got := v.cookies()
			for name, want := range map[string]string{"_fbc": wantFBC, "_fbp": first4(c.Output.Result["_fbp"])} {
				if want == "" {
					require.NotContains(t, got, name)
					continue
				}
				require.Contains(t, got, name)
				require.Equal(t, want, first4(got[name].Value), name)
				require.Equal(t, "."+domain, got[name].Domain, "the registrable domain")
				if came := c.Input.Cookies[name]; first4(came) == want {
					require.Equal(t, came, got[name].Value, "an appendix that came is kept, and none is made")
				} else {
					require.Len(t, strings.Split(got[name].Value, "."), 4, "Meta's appendix is never forged")
				}
				require.Equal(t, network.CookieSameSiteLax, got[name].SameSite)
				require.InDelta(t, 90*86400, v.lasts(name), 120, "%s lives 90 days from now", name)
			}
		})
	}
}

// lasts is for how many seconds from now a cookie is kept.
func (v *visitor) lasts(name string) float64 {
	v.t.Helper()
	now := v.number("performance.timeOrigin+performance.now()") / 1000
	return float64(v.cookies()[name].Expires) - now
}

// Click ids that cannot be Meta's make no cookie, those that already are a cookie are not
// wrapped again, and values that are broken are not reported.
func TestBrowserClickIDs(t *testing.T) {
	t.Parallel()
	s := newCookieSite(t, "read")
	const at = "http://www.example.com/"
	for name, c := range map[string]struct {
		query  string
		have   string
		fbc    string // the cookie afterwards
		report string // what is reported of it; "=": the same
	}{
		"C091 a whole cookie as the click id":        {query: "?fbclid=fb.1.1750000000000.IwAR1aB_c-D", fbc: "fb.1.1750000000000.IwAR1aB_c-D", report: "="},
		"C100 the same, from a share":                {query: "?x=1&fbclid=fb.1.1750000000000.AbC", fbc: "fb.1.1750000000000.AbC", report: "="},
		"C092 an escaped blank":                      {query: "?fbclid=Ab%20Cd"},
		"C092 a blank":                               {query: "?fbclid=Ab+Cd"},
		"C092 a tag":                                 {query: "?fbclid=%3Cscript%3E"},
		"C092 a dot":                                 {query: "?fbclid=Ab.Cd"},
		"C094 four parts and whole milliseconds":     {query: "?fbclid=AbC", fbc: "fb.1.1900000000000.AbC", report: "="},
		"C096 a cookie without its last part":        {have: "fb.1.1750000000000.", fbc: "fb.1.1750000000000."},
		"C097 case is kept":                          {have: "fb.1.1750000000000.IwAR1aB_c-D", fbc: "fb.1.1750000000000.IwAR1aB_c-D", report: "="},
		"C099 the new click wins":                    {have: "fb.1.1749000000000.OLD", query: "?fbclid=NEW", fbc: "fb.1.1900000000000.NEW", report: "="},
		"C099 the same click keeps its time":         {have: "fb.1.1749000000000.SAME", query: "?fbclid=SAME", fbc: "fb.1.1749000000000.SAME", report: "="},
		"C099 case makes another click":              {have: "fb.1.1749000000000.Same", query: "?fbclid=SAME", fbc: "fb.1.1900000000000.SAME", report: "="},
		"C104 a word of a script":                    {query: "?fbclid=undefined"},
		"too long":                                   {query: "?fbclid=" + strings.Repeat("A", 501)},
		"as long as may be":                          {query: "?fbclid=" + strings.Repeat("A", 500), fbc: "fb.1.1900000000000." + strings.Repeat("A", 500), report: "="},
		"a fifth part in doubt goes on as it is":     {have: "fb.1.1750000000000.AbC.what", fbc: "fb.1.1750000000000.AbC.what", report: "="},
		"an appendix of Meta's library goes on":      {have: "fb.1.1750000000000.AbC.AQQCAQMC", fbc: "fb.1.1750000000000.AbC.AQQCAQMC", report: "="},
		"nonsense is not reported, and is left":      {have: "null", fbc: "null"},
		"of the query and the fragment, the query's": {query: "?fbclid=InTheQuery#fbclid=InTheFragment", fbc: "fb.1.1900000000000.InTheQuery", report: "="},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := s.visit(t)
			if c.have != "" {
				v.have("example.com", map[string]string{"_fbc": c.have})
			}
			s.goTo(v, at+c.query)
			v.do("window.posted=[];window.real=fetch;window.fetch=function(u,i){posted.push(i.body);return real.apply(this,arguments)};capiloop('track','Search')")
			v.until("posted.join().indexOf('Search')>0")
			report := v.texts("JSON.parse(posted.filter(function(p){return p.indexOf('Search')>0})[0]).events.map(function(e){return (e.user_data||{}).fbc||''})")[0]
			want := c.report
			if want == "=" {
				want = c.fbc
			}
			require.Equal(t, want, report)
			got := ""
			if cookie := v.cookies()["_fbc"]; cookie != nil {
				got = cookie.Value
			}
			require.Equal(t, c.fbc, got)
		})
	}
}

// C106: on example.co.uk itself, as below it, the cookie's domain is the registered one.
func TestBrowserTheRegisteredDomain(t *testing.T) {
	t.Parallel()
	s := newCookieSite(t, "read")
	for host, domain := range map[string]string{"example.co.uk": "example.co.uk", "shop.example.co.uk": "example.co.uk", "example.com": "example.com"} {
		v := s.visit(t)
		s.goTo(v, "http://"+host+"/?fbclid=AbC")
		v.until("/_fbc=/.test(document.cookie)")
		c := v.cookies()["_fbc"]
		require.Equal(t, "."+domain, c.Domain)
		require.Equal(t, fmt.Sprintf("fb.%d.1900000000000.AbC", strings.Count(domain, ".")), c.Value)
	}
}

// Where the gateway stands on the site's own domain, its answer sets the cookie, for
// longer than Safari lets a script; elsewhere it cannot and does not try.
func TestBrowserTheServerSetsTheCookie(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "consent: {wait: send}")
	s.put("/first", s.tagFrom(firstHost), "")
	s.put("/other", s.tagFrom(gateHost), "")
	for page, sets := range map[string]bool{"/first": true, "/other": false} {
		v := s.visit(t)
		set := make(chan string, 20)
		_, err := chromedp.Call(v.ctx, network.Enable, network.EnableParams{})
		require.NoError(t, err)
		require.NoError(t, chromedp.Listen(v.ctx, func(e any) {
			if e, ok := e.(*network.EventResponseReceivedExtraInfo); ok {
				if value, _ := e.Headers["Set-Cookie"].(string); strings.Contains(value, "_fbc") {
					set <- value
				}
			}
		}))
		v.open(page + "?fbclid=AbC")
		v.do("capiloop('track','Search')")
		v.until("Object.keys(localStorage).filter(function(k){return k.indexOf('_capiloop.e')==0}).length==0")
		v.quiet()
		require.Equal(t, sets, len(set) > 0, page)
		if sets {
			value := <-set
			require.Regexp(t, `^_fbc=fb\.1\.\d{13}\.AbC; `, value)
			require.Contains(t, value, "Domain=shop.test")
			require.Contains(t, value, "Max-Age=7776000")
		}
	}
}

// The click ids of other platforms are kept for theirs, and only with consent.
func TestBrowserClickIDsOfOthers(t *testing.T) {
	t.Parallel()
	s := newWebsite(t)
	s.put("/", s.tagFrom(gateHost), "")
	v := s.visit(t)
	v.open("/?gclid=Cj0K_Q-a.b&GBRAID=g1&ttclid=E.C.P.1&ScCid=s-1&li_fat_id=l&msclkid=m&twclid=t&epik=&utm_source=x")
	v.quiet()
	require.Empty(t, v.device())
	v.do("window.posted=[];window.real=fetch;window.fetch=function(u,i){posted.push(i.body);return real.apply(this,arguments)};capiloop('consent','grant')")
	require.Equal(t, []string{"_capiloop.c"}, v.device())
	v = v.tab(t)
	v.open("/") // the next page knows them
	v.do("window.posted=[];window.real=fetch;window.fetch=function(u,i){posted.push(i.body);return real.apply(this,arguments)};capiloop('consent','grant');capiloop('track','Search')")
	v.until("posted.join().indexOf('Search')>0")
	require.JSONEq(t, `{"gclid":"Cj0K_Q-a.b","gbraid":"g1","ttclid":"E.C.P.1","ScCid":"s-1","li_fat_id":"l","msclkid":"m","twclid":"t"}`,
		v.texts("[JSON.stringify(JSON.parse(posted.filter(function(p){return p.indexOf('Search')>0})[0]).events[0].clicks)]")[0])
	v.do("capiloop('consent','deny')")
	require.Empty(t, v.device())
	v.open("/")
	v.do("capiloop('consent','grant')")
	require.Empty(t, v.device(), "what was erased does not come back")
}
