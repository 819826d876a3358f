package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// cut is the answer of a proxy whose line is dead: none.
const cut = -1

// stub is what a page has in its head to call the tag before the tag is there.
const stub = `<script>window.capiloop=window.capiloop||function(){(capiloop.q=capiloop.q||[]).push(arguments)};</script>`

// before remembers what the tag posts, and answers it itself where the gateway is to be
// away.
func (s *website) before(gateway http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/t" || r.Method != http.MethodPost {
			gateway.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler) // the browser has let go of it
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.mu.Lock()
		s.reports = append(s.reports, string(body))
		answer := s.answer
		s.mu.Unlock()
		switch answer {
		case 0:
			gateway.ServeHTTP(w, r)
		case cut:
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
			w.Header().Set("Access-Control-Allow-Credentials", "true")
			w.WriteHeader(answer)
		}
	})
}

// answers sets what the proxy says to the tag's reports.
func (s *website) answers(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = status
}

// visitorIP is the address that the proxy tells.
func (s *website) visitorIP() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.address == "" {
		return visitorIP
	}
	return s.address
}

// reported counts the reports in which a text stands.
func (s *website) reported(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.reports {
		if strings.Contains(r, text) {
			n++
		}
	}
	return n
}

// everywhere are the events of a name that Meta got, of browsers and servers, by id.
func (s *website) everywhere(name string) map[string]int {
	list := map[string]int{}
	for _, e := range s.graph.Received() {
		if e.EventName == name {
			list[e.EventID]++
		}
	}
	return list
}

// kept counts the events that lie on the device.
func (v *visitor) kept() int {
	v.t.Helper()
	return int(v.number(`Object.keys(localStorage).filter(function(k){return k.indexOf("_capiloop.e.")===0}).length`))
}

// line cuts or mends the browser's connection, and tells it so.
func (v *visitor) line(cut bool) {
	v.t.Helper()
	_, err := chromedp.Call(v.ctx, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
		MatchedNetworkConditions: []*network.Conditions{{Offline: cut, DownloadThroughput: -1, UploadThroughput: -1}},
	})
	require.NoError(v.t, err)
	_, err = chromedp.Call(v.ctx, network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: cut, DownloadThroughput: -1, UploadThroughput: -1})
	require.NoError(v.t, err)
	v.until(fmt.Sprintf("navigator.onLine===%t", !cut))
}

// close closes the tab, as its cross does.
func (v *visitor) close() {
	v.t.Helper()
	_, err := chromedp.Call(v.ctx, page.Close, cdp.Empty{})
	require.NoError(v.t, err)
}

func gesture(p *runtime.EvaluateParams) {
	is := true
	p.UserGesture = &is
}

// Off line, what happens lies on the device; on line again, it arrives, once.
func TestBrowserOfflineThenOnline(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "consent: {wait: send}")
	s.put("/", s.tagFrom(gateHost), "")
	v := s.visit(t)
	v.open("/")
	v.line(true)
	v.do(`capiloop('track','Purchase',{order_id:'A-1',value:10,currency:'EUR'});capiloop('track','Lead',{},{em:'jane` + rawDomain + `'});capiloop('track','ViewContent')`)
	v.quiet()
	require.Equal(t, 3, v.kept())
	require.Empty(t, s.server("Purchase"))
	require.NotContains(t, v.texts("Object.values(localStorage)"), "jane", "a person's data is never written down")

	v.line(false)
	require.Equal(t, "A-1", s.told(t, "Purchase", 1)[0].EventID)
	require.Contains(t, s.told(t, "Lead", 1)[0].Keys, "em", "the page that is still there knows it")
	s.told(t, "ViewContent", 1)
	v.until(`!Object.keys(localStorage).some(function(k){return k.indexOf("_capiloop.e.")===0})`)
}

// What a page could not send before it was closed, the next page of the site sends.
func TestBrowserOfflineAndClosed(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "consent: {wait: send}")
	s.put("/", s.tagFrom(gateHost), "")
	s.put("/later", s.tagFrom(gateHost), "")
	v := s.visit(t)
	next := v.tab(t)
	next.run(chromedp.Navigate("about:blank"))
	v.open("/")
	s.answers(cut)
	v.do(`capiloop('track','Purchase',{order_id:'A-1',value:10,currency:'EUR'});capiloop('track','Lead')`)
	v.quiet()
	v.close()
	next.quiet()
	s.answers(0)
	require.Empty(t, s.server("Purchase"))

	next.open("/later")
	sent := s.told(t, "Purchase", 1)[0]
	require.Contains(t, string(sent.Payload), `"event_source_url":"`+s.at("/")+`"`, "of the page where it happened")
	s.told(t, "Lead", 1)
	next.until(`!Object.keys(localStorage).some(function(k){return k.indexOf("_capiloop.e.")===0})`)
}

// A gateway that is not well gets the same events again, under the same ids, until it
// takes them. What it refuses for good it never gets again.
func TestBrowserTheGatewayIsUnwell(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "consent: {wait: send}")
	s.put("/", s.tagFrom(gateHost), "")
	v := s.visit(t)
	v.open("/")
	s.answers(http.StatusServiceUnavailable)
	v.do(`capiloop('track','Lead',{},{eventID:'unwell'})`)
	s.eventually(t, 10e9, "a second attempt", func() bool { return s.reported("unwell") >= 2 })
	require.Equal(t, 1, v.kept())
	s.answers(0)
	require.Equal(t, "unwell", s.told(t, "Lead", 1)[0].EventID)
	v.until(`!Object.keys(localStorage).some(function(k){return k.indexOf("_capiloop.e.")===0})`)

	s.answers(http.StatusBadRequest)
	v.do(`capiloop('track','Lead',{},{eventID:'refused'})`)
	s.eventually(t, 10e9, "the attempt", func() bool { return s.reported("refused") == 1 })
	v.until(`!Object.keys(localStorage).some(function(k){return k.indexOf("_capiloop.e.")===0})`)
	s.answers(0)
	v.open("/")
	v.do(`dispatchEvent(new Event('online'));capiloop('track','Contact')`)
	s.told(t, "Contact", 1)
	require.Equal(t, 1, s.reported("refused"))
}

// What could not be sent while the page was hidden is sent when the gateway is well
// again, without another event, page or sign from the network.
func TestBrowserHiddenWhileTheGatewayIsUnwell(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "consent: {wait: plain}") // nothing on the device: only this page has it
	s.put("/", s.tagFrom(gateHost), "")
	v := s.visit(t)
	v.open("/")
	s.answers(http.StatusServiceUnavailable)
	v.do(`Object.defineProperty(document,'visibilityState',{configurable:true,get:function(){return 'hidden'}});
		capiloop('track','Lead');document.dispatchEvent(new Event('visibilitychange'))`)
	s.eventually(t, 10e9, "the attempt", func() bool { return s.reported("Lead") >= 1 })
	s.answers(0)
	s.told(t, "Lead", 1)
	require.Empty(t, v.device())
}

// Two tabs of one visitor: each event is one at Meta, and none is lost with its tab.
func TestBrowserTwoTabs(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "consent: {wait: send}")
	s.put("/", s.tagFrom(firstHost), "")
	one := s.visit(t)
	two := one.tab(t)
	one.open("/")
	two.open("/")
	for i := range 5 {
		one.do(fmt.Sprintf("capiloop('track','Search',{},{eventID:'one-%d'})", i))
		two.do(fmt.Sprintf("capiloop('track','Search',{},{eventID:'two-%d'})", i))
	}
	s.told(t, "Search", 10)

	s.answers(cut)
	one.do(`capiloop('track','Lead',{},{eventID:'of-one'})`)
	two.do(`capiloop('track','Lead',{},{eventID:'of-two'})`)
	one.quiet()
	one.close()
	two.quiet()
	require.Equal(t, 2, two.kept())
	s.answers(0)
	two.open("/") // takes over both
	s.told(t, "Lead", 2)
	two.until(`!Object.keys(localStorage).some(function(k){return k.indexOf("_capiloop.e.")===0})`)
	two.quiet()
	require.Equal(t, map[string]int{"of-one": 1, "of-two": 1}, s.everywhere("Lead"))
	require.Len(t, s.everywhere("Search"), 10)
	s.told(t, "Search", 10)
}

// A purchase is not lost by leaving the page in the same moment.
func TestBrowserAPurchaseOutlivesItsPage(t *testing.T) {
	t.Parallel()
	buy := `capiloop('track','Purchase',{order_id:'A-1',value:10,currency:'EUR'},{em:'jane` + rawDomain + `'});`
	flood := `for(var i=0;i<300;i++)capiloop('track','ViewContent',{content_ids:['p'+i]});`
	for name, leave := range map[string]string{
		"to another page":                   buy + `location.href='/next'`,
		"to another page after many events": flood + buy + `location.href='/next'`,
		"to another site":                   buy + `location.href='http://elsewhere.test:1/'`,
		"the page closes itself":            buy + `window.close()`,
		"the tab is closed":                 "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newWebsite(t, "consent: {wait: send}")
			s.put("/", s.tagFrom(firstHost), "")
			s.put("/next", "", "") // nobody there to help
			v := s.visit(t)
			other := v.tab(t)
			other.run(chromedp.Navigate("about:blank"))
			v.open("/")
			if leave == "" {
				v.do(buy)
				v.close()
			} else {
				// The page may be gone before it can answer.
				_, _ = chromedp.Run(v.ctx, chromedp.Evaluate[chromedp.Void](leave, gesture))
			}
			sent := s.told(t, "Purchase", 1)[0]
			require.Equal(t, "A-1", sent.EventID)
			require.Contains(t, sent.Keys, "em")
			other.quiet()
			s.told(t, "Purchase", 1)
		})
	}
}

// The thank-you page seen again is no second purchase; another order is one.
func TestBrowserTheThankYouPageAgain(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]string{"with the order's id": `order_id:'A-%d',`, "without": `value:%d,`, "of a page kept in memory": `order_id:'A-%d',`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newWebsite(t, "consent: {wait: send}")
			if name != "of a page kept in memory" {
				s.headers = http.Header{"Cache-Control": {"no-store"}} // back and forward load it anew
			}
			thanks := func(n int) {
				data := fmt.Sprintf(order, n)
				if !strings.Contains(data, "value") {
					data += "value:1000,"
				}
				s.put("/thanks", pixel+stub+`<script>capiloop('track','Purchase',{`+data+`currency:'EUR'})</script>`+s.tagFrom(gateHost), "")
			}
			for _, path := range []string{"/", "/after"} {
				s.put(path, s.tagFrom(gateHost), "")
			}
			thanks(1001)
			v := s.visit(t)
			v.open("/")
			v.open("/thanks")
			s.told(t, "Purchase", 1)
			again := func(how, step, path string) {
				t.Helper()
				v.do(step)
				v.until("location.pathname=='" + path + "' && document.readyState=='complete' && window.capiloop && capiloop.loaded === true")
				v.quiet()
				require.Len(t, s.server("Purchase"), 1, how)
				require.Len(t, s.everywhere("Purchase"), 1, how)
			}
			again("reloaded", "location.reload()", "/thanks")
			again("back", "history.back()", "/")
			again("forward", "history.forward()", "/thanks")
			again("on", "location.href='/after'", "/after")
			again("back to it", "history.back()", "/thanks")
			tab := v.tab(t)
			tab.open("/thanks")
			tab.quiet()
			require.Len(t, s.server("Purchase"), 1, "in a second tab")
			for _, n := range s.everywhere("Purchase") {
				require.Equal(t, 2, n, "the Pixel's and the server's")
			}
			thanks(1002)
			tab.open("/thanks")
			s.told(t, "Purchase", 2)
			s.eventually(t, 10e9, "the Pixel's copies", func() bool {
				total := 0
				for _, n := range s.everywhere("Purchase") {
					total += n
				}
				return total == 4
			})
		})
	}
}

// Where an ad blocker keeps the Pixel out, the server's copy goes, and it is known that
// the Pixel was blocked.
func TestBrowserTheAdBlocker(t *testing.T) {
	t.Parallel()
	stubOnly := `<script>var n=window.fbq=function(){n.callMethod?n.callMethod.apply(n,arguments):n.queue.push(arguments)};n.queue=[];fbq('init','` + pixelID + `')</script>`
	for name, c := range map[string]struct {
		head string
		seen bool
	}{
		"the library cannot be loaded": {pixel, true},
		"the stub alone":               {stubOnly, true},
		"no Pixel at all":              {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newWebsite(t, "consent: {wait: send}")
			s.blocked = true
			s.put("/", c.head+s.tagFrom(gateHost), "")
			v := s.visit(t)
			v.open("/")
			v.do(`capiloop('track','Purchase',{order_id:'A-1',value:10,currency:'EUR'})`)
			s.told(t, "Purchase", 1)
			if !c.seen {
				v.quiet()
				require.Empty(t, s.sightings(t))
				return
			}
			require.Empty(t, s.sightings(t), "the Pixel may still come")
			s.eventually(t, 10e9, "a sighting", func() bool { return len(s.sightings(t)) > 0 })
			require.Equal(t, []sighting{{"Purchase", "A-1", datasetA, "/", true, true}}, s.sightings(t))
		})
	}
}
