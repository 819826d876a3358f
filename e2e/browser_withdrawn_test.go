package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// hold lets what the tag reports reach the gateway, but the answers only once the
// channel is closed.
func (s *website) hold(t *testing.T) chan struct{} {
	t.Helper()
	gate := make(chan struct{})
	behind, err := url.Parse(s.proxy.URL)
	require.NoError(t, err)
	s.proxy = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(behind)
			r.Out.Host = r.In.Host
		},
		ModifyResponse: func(r *http.Response) error {
			if r.Request.Method == http.MethodPost {
				select {
				case <-gate:
				case <-r.Request.Context().Done():
				}
			}
			return nil
		},
	})
	t.Cleanup(s.proxy.Close)
	return gate
}

// said are the reports of the tag, from the n-th on.
func (s *website) said(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.reports[n:])
}

// all is everything that lies in the browser's storage, whoever put it there.
func (v *visitor) all() string {
	v.t.Helper()
	return v.texts("[JSON.stringify([localStorage,sessionStorage])]")[0]
}

const nothing = "[{},{}]"

// What waits for the decision has the time at which it happened, not that of the grant,
// and until then no request leaves the page.
func TestBrowserWhatWaitedHasItsOwnTime(t *testing.T) {
	t.Parallel()
	s := newWebsite(t)
	s.put("/", pixel+s.tagFrom(gateHost), "")
	v := s.visit(t)
	v.open("/?fbclid=AbC")
	v.do("var real=Date.now;Date.now=function(){return real()-36e5};capiloop('track','Search',{},{eventID:'early'});Date.now=real")
	v.quiet()
	require.Empty(t, s.said(0))
	require.Equal(t, nothing, v.all())
	require.NotContains(t, v.cookies(), "_fbc")
	require.Empty(t, v.pixelIDs("Search"))

	v.do("capiloop('consent','grant')")
	sent := s.told(t, "Search", 1)[0]
	require.Equal(t, "early", sent.EventID)
	require.InDelta(t, s.clock.Now().Add(-time.Hour).Unix(), sent.EventTime, 60)
	require.Contains(t, sent.Keys, "fbc")
	require.Equal(t, []string{"granted:site"}, s.decisions(t, "Search"))
	require.Equal(t, []string{"early"}, v.pixelIDs("Search"))
}

// The click that brought the visitor counts, though the page has changed its address
// several times before the decision.
func TestBrowserTheClickOfAnEarlierAddress(t *testing.T) {
	t.Parallel()
	s := newWebsite(t)
	s.put("/", s.tagFrom(gateHost), "")
	v := s.visit(t)
	v.open("/?fbclid=AbC&gclid=g-1")
	v.do("history.pushState({},'','/two');history.pushState({},'','/three')")
	v.quiet()
	require.Empty(t, v.cookies())
	v.do("window.asked=Date.now();capiloop('consent','grant')")
	require.Contains(t, v.cookies(), "_fbc")
	require.Regexp(t, `^fb\.1\.\d{13}\.AbC$`, v.cookies()["_fbc"].Value)
	require.Less(t, v.number("+document.cookie.split('.')[2]"), v.number("asked")-500, "the time of the click, not of the decision")
	v.do("capiloop('track','Search')")
	require.Contains(t, string(s.told(t, "Search", 1)[0].Payload), ".AbC")

	// Once kept it is no longer the page's: what another tab has brought since stays.
	v.do("document.cookie='_fbc=fb.1.'+Date.now()+'.Newer; path=/; domain=.shop.test';history.pushState({},'','/four')")
	require.Contains(t, v.cookies()["_fbc"].Value, ".Newer")

	other := s.visit(t)
	other.open("/?fbclid=AbC")
	other.do("history.pushState({},'','/two');capiloop('consent','deny');history.pushState({},'','/three');capiloop('consent','grant')")
	require.NotContains(t, other.cookies(), "_fbc", "what was erased does not come back")
	again := s.visit(t)
	again.open("/?fbclid=AbC")
	again.do("capiloop('consent','deny');capiloop('consent','grant')")
	require.Contains(t, again.cookies(), "_fbc", "on the page of the click the visitor may still agree")
}

// The gateway's answer to what was sent with consent sets the cookie. If the visitor
// refuses in between, it does not stay.
func TestBrowserAnAnswerAfterTheRefusal(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "fbp: create")
	gate := s.hold(t)
	s.put("/", s.tagFrom(firstHost), "")
	v := s.visit(t)
	v.open("/?fbclid=AbC")
	v.do("capiloop('consent','grant')")
	s.eventually(t, 10e9, "the report with the cookies", func() bool { return s.reported(`"granted"`) > 0 })
	require.Contains(t, v.cookies(), "_fbc")
	v.do("capiloop('consent','deny')")
	require.Empty(t, v.cookies())
	v.do("capiloop('track','Contact')") // is sent once the answer is there
	close(gate)
	s.eventually(t, 10e9, "the next report", func() bool { return s.reported("Contact") > 0 })
	v.quiet()
	require.Empty(t, v.cookies(), "set by the answer to what was sent before")
	require.Equal(t, nothing, v.all())
}

// What waits for the line to come back when the visitor takes the consent back is erased
// on the device, in other tabs too; the server hears that there was something, and nobody's.
func TestBrowserWithdrawnWhileTheGatewayIsAway(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "fbp: create")
	s.put("/", stub+"<script>capiloop('consent','grant')</script>"+s.tagFrom(firstHost), "")
	s.put("/refused", stub+"<script>capiloop('consent','deny')</script>"+s.tagFrom(firstHost), "")
	v := s.visit(t)
	v.open("/?fbclid=AbC&gclid=g-1")
	tab := v.tab(t)
	tab.open("/")
	v.do("capiloop('track','Contact')")
	s.told(t, "Contact", 1)
	require.Contains(t, v.cookies(), "_fbc")

	s.answers(cut)
	v.do("capiloop('identify',{external_id:'u-1'});capiloop('track','Lead',{content_name:'secret'},{em:'jane" + rawDomain + "',eventID:'l-1'});capiloop('track','Search')")
	tab.do("capiloop('track','Schedule')")
	v.quiet()
	require.Equal(t, 3, v.kept())

	v.do("capiloop('consent','deny')")
	require.Equal(t, nothing, v.all())
	require.Empty(t, v.cookies())
	n := len(s.said(0))
	s.answers(0)
	v.do("dispatchEvent(new Event('online'))")
	tab.do("dispatchEvent(new Event('online'))")
	s.eventually(t, 10e9, "both in the book", func() bool { return s.book(t, "").by("skipped", "no_consent") == 2 })
	v.quiet()
	for _, name := range []string{"Lead", "Search", "Schedule"} {
		require.Empty(t, s.server(name))
	}
	require.Equal(t, []string{"denied:site"}, s.decisions(t, "Lead"))
	require.Empty(t, s.decisions(t, "Schedule"), "the other tab has nothing left to send")
	for _, report := range s.said(n) {
		for _, text := range []string{"jane", "u-1", "AbC", "g-1", "secret", "fb.1.", "event_source_url"} {
			require.NotContains(t, report, text)
		}
	}
	v.open("/refused")
	v.do("capiloop('track','Donate')")
	s.eventually(t, 10e9, "the refusal in the book", func() bool { return slices.Equal(s.decisions(t, "Donate"), []string{"denied:site"}) })
	require.Equal(t, nothing, v.all())
	require.Empty(t, v.cookies())
}

// The site's own word counts from the first event on, also from the stub, and against
// whatever else is on the page.
func TestBrowserTheWordInTheStub(t *testing.T) {
	t.Parallel()
	google := `<script>window.dataLayer=[];(function(){dataLayer.push(arguments)})('consent','default',{ad_storage:'ANSWER',ad_user_data:'ANSWER'})</script>`
	for name, c := range map[string]struct{ google, word, want string }{
		"agreed, Google waits":   {"denied", "grant", "granted:site"},
		"refused, Google agreed": {"granted", "deny", "denied:site"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newWebsite(t)
			s.put("/", strings.ReplaceAll(google, "ANSWER", c.google)+pixel+stub+"<script>capiloop('track','Search');capiloop('consent','"+c.word+"')</script>"+s.tagFrom(gateHost), "")
			v := s.visit(t)
			v.open("/?fbclid=AbC")
			s.eventually(t, 10e9, "the event on disk", func() bool { return len(s.decisions(t, "Search")) > 0 })
			v.quiet()
			require.Equal(t, []string{c.want}, s.decisions(t, "Search"))
			agreed := c.word == "grant"
			require.Equal(t, agreed, len(s.server("Search")) == 1)
			require.Equal(t, agreed, len(v.pixelIDs("Search")) == 1)
			require.Equal(t, agreed, v.cookies()["_fbc"] != nil)
			if !agreed {
				require.Equal(t, nothing, v.all())
			}
		})
	}
}

// An e-mail and a phone typed into a form are read where the form says so, are never
// written down in the browser, not even while they wait, and are hashed for Meta.
func TestBrowserWhatIsTypedIsNotWrittenDown(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "consent: {wait: send}")
	form := func(id, more string) string {
		return `<form id="` + id + `" onsubmit="return false" data-capiloop-event="` + id + `"` + more + `><input type="email" name="email"><input type="tel" name="phone"></form>`
	}
	s.put("/", pixel+s.tagFrom(firstHost), form("Lead", " data-capiloop-match")+form("Contact", ""))
	v := s.visit(t)
	v.open("/")
	s.answers(cut)
	for _, id := range []string{"Lead", "Contact"} {
		v.run(chromedp.SendKeys("#"+id+" [type=email]", " Jane"+rawDomain), chromedp.SendKeys("#"+id+" [type=tel]", "+7 701 555-66-77"))
		v.do("capiloop('submitted',document.getElementById('" + id + "'))")
	}
	s.eventually(t, 10e9, "an attempt", func() bool { return s.reported("Contact") > 0 })
	require.Equal(t, 2, v.kept())
	email, phone := "jane"+rawDomain, "77015556677"
	private := []string{"jane", "555-66-77", phone, hashOf(email), hashOf(phone)}
	jar, err := json.Marshal(v.cookies())
	require.NoError(t, err)
	for _, text := range private {
		require.NotContains(t, strings.ToLower(v.all()), text)
		require.NotContains(t, strings.ToLower(string(jar)), text)
	}

	s.answers(0)
	v.do("dispatchEvent(new Event('online'))")
	lead := string(s.told(t, "Lead", 1)[0].Payload)
	require.Contains(t, lead, hashOf(email))
	require.Contains(t, lead, hashOf(phone))
	require.NotContains(t, strings.ToLower(lead), "jane")
	asked := s.told(t, "Contact", 1)[0]
	require.NotContains(t, asked.Keys, "em")
	require.NotContains(t, asked.Keys, "ph")
	v.until(`!Object.keys(localStorage).some(function(k){return k.indexOf("_capiloop.e.")===0})`)
	for _, text := range private {
		require.NotContains(t, strings.ToLower(v.all()), text)
		require.NotContains(t, v.texts("[JSON.stringify(pixelCalls).toLowerCase()]")[0], text, "the Pixel is not told")
	}
}

// Whoever has refused and agreed again before the tag was there has agreed: what an earlier
// visit has left is not erased on the way through the history.
func TestBrowserTheLastAnswerCounts(t *testing.T) {
	t.Parallel()
	s := newWebsite(t)
	answer := func(word string) string {
		return "gtag('consent','update',{ad_storage:'" + word + "',ad_user_data:'" + word + "'});"
	}
	for path, answers := range map[string]string{"/agreed": answer("denied") + answer("granted"), "/refused": answer("granted") + answer("denied")} {
		s.put(path, "<script>window.dataLayer=[];function gtag(){dataLayer.push(arguments)}"+answers+"</script>"+s.tagFrom(gateHost), "")
	}
	v := s.visit(t)
	v.open("/agreed?fbclid=AbC&gclid=g-1")
	require.Contains(t, v.cookies(), "_fbc")
	kept := v.cookies()["_fbc"].Value
	v.open("/agreed")
	require.Contains(t, v.cookies(), "_fbc")
	require.Equal(t, kept, v.cookies()["_fbc"].Value)
	require.Contains(t, v.all(), "g-1")
	v.open("/refused")
	v.do("capiloop('track','Search')")
	s.eventually(t, 10e9, "the refusal in the book", func() bool { return slices.Equal(s.decisions(t, "Search"), []string{"denied:gcm"}) })
	require.Equal(t, nothing, v.all())
	require.Empty(t, v.cookies())
}

// A consent platform that comes only after Google's answer has its say, too.
func TestBrowserAPlatformThatComesLate(t *testing.T) {
	t.Parallel()
	s := newWebsite(t)
	s.put("/", `<script>window.dataLayer=[];(function(){dataLayer.push(arguments)})('consent','default',{ad_storage:'granted',ad_user_data:'granted'})</script>`+s.tagFrom(gateHost), "")
	v := s.visit(t)
	v.open("/?fbclid=AbC")
	v.do("capiloop('track','Search')")
	s.told(t, "Search", 1)
	v.quiet() // longer than the tag looks for one
	v.do("window.__tcfapi=function(command,version,answer){answer({eventStatus:'useractioncomplete',gdprApplies:true,purpose:{consents:{1:true}}},true)}")
	v.until("!/_fbc=/.test(document.cookie)")
	v.do("capiloop('track','Contact')")
	s.eventually(t, 10e9, "the refusal in the book", func() bool { return slices.Equal(s.decisions(t, "Contact"), []string{"denied:tcf"}) })
	require.Empty(t, s.server("Contact"))
	require.Equal(t, nothing, v.all())
}

// Who tells the site that it may, after the browser has asked for limits, is not limited
// from then on: neither here nor at the Pixel.
func TestBrowserTheLimitEndsWithTheSitesOwnWord(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "consent: {wait: send}")
	s.put("/", `<script>Object.defineProperty(navigator,'globalPrivacyControl',{value:true})</script>`+pixel+s.tagFrom(gateHost), "")
	v := s.visit(t)
	v.open("/")
	v.until("window.pixelCalls")
	v.do("capiloop('track','Search');capiloop('track','Search')")
	for _, sent := range s.told(t, "Search", 2) {
		require.Contains(t, string(sent.Payload), `"LDU"`)
	}
	v.do("capiloop('consent','grant');capiloop('track','Contact');capiloop('track','Contact')")
	for _, sent := range s.told(t, "Contact", 2) {
		require.NotContains(t, string(sent.Payload), `"LDU"`)
	}
	const calls = "pixelCalls.map(function(c){return c[0]=='dataProcessingOptions'?JSON.stringify(c.slice(1)):c[1]}).slice(1)"
	require.Equal(t, []string{`[["LDU"],0,0]`, "Search", "Search", "[[]]", "Contact", "Contact"}, v.texts(calls))

	// What the page itself says to the Pixel stays as the page says it.
	v.do("fbq('dataProcessingOptions',['LDU'],1,1000);capiloop('track','Schedule');fbq('dataProcessingOptions',[]);capiloop('track','Donate')")
	require.Contains(t, string(s.told(t, "Schedule", 1)[0].Payload), `"data_processing_options_state":1000`)
	require.NotContains(t, string(s.told(t, "Donate", 1)[0].Payload), `"LDU"`)
	require.Equal(t, []string{`[["LDU"],1,1000]`, "Schedule", "[[]]", "Donate"}, v.texts(calls+".slice(6)"))
}

// A value that is no cookie of Meta's once it is decoded is neither reported nor written.
func TestBrowserACookieThatHidesAnother(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "consent: {wait: send}")
	s.put("/", `<script>document.cookie='_fbc=fb.1.1750000000000.AbC%3Bpath%3D%2Fx; path=/; domain=.shop.test'</script>`+s.tagFrom(gateHost), "")
	v := s.visit(t)
	v.open("/")
	v.do("capiloop('track','Search')")
	require.NotContains(t, s.told(t, "Search", 1)[0].Keys, "fbc")
	require.Equal(t, "fb.1.1750000000000.AbC%3Bpath%3D%2Fx", v.cookies()["_fbc"].Value)
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
