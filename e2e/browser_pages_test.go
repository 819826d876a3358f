package e2e_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// Calls made before the script is there wait in the stub's queue.
func TestBrowserCallsBeforeTheScript(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "consent: {wait: send}")
	s.put("/", pixel+`<script>window.capiloop=window.capiloop||function(){(capiloop.q=capiloop.q||[]).push(arguments)};
		capiloop('track','ViewContent',{content_ids:['A'],value:12.5,currency:'EUR'});
		capiloop('track','Purchase',{order_id:'A-1001',value:49.9,currency:'EUR'},{em:'jane`+rawDomain+`'});
		capiloop('track','Brochure',{},{eventID:'b-1'})</script>`+s.tagFrom(gateHost), "")
	v := s.visit(t)
	v.open("/")
	view := s.told(t, "ViewContent", 1)[0]
	require.Contains(t, string(view.Payload), `"content_ids":["A"]`)
	order := s.told(t, "Purchase", 1)[0]
	require.Equal(t, "A-1001", order.EventID, "the order's own number")
	require.Contains(t, order.Keys, "em")
	require.Equal(t, "b-1", s.told(t, "Brochure", 1)[0].EventID)
	v.until("window.pixelCalls&&pixelCalls.length>=4")
	require.Equal(t, []string{"A-1001"}, v.pixelIDs("Purchase"))
	require.Equal(t, []string{"trackCustom"}, v.texts("pixelCalls.filter(function(c){return c[1]=='Brochure'}).map(function(c){return c[0]})"))
}

// In a page that changes its address without loading, each address is a page, once.
func TestBrowserAPageOfOneDocument(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "consent: {wait: send}, pageview: true")
	s.put("/", pixel+s.tagFrom(gateHost), "")
	v := s.visit(t)
	v.open("/")
	s.told(t, "PageView", 1)
	v.do("history.pushState({},'','/two?x=1')")
	s.told(t, "PageView", 2)
	v.do("history.replaceState({},'','/two?x=2')") // the same page in other words
	v.quiet()
	s.told(t, "PageView", 2)
	v.do("history.back()")
	last := s.told(t, "PageView", 3)[2]
	require.Contains(t, string(last.Payload), `"event_source_url":"`+s.at("/")+`"`)
	v.do("history.pushState({},'','#section')") // a place in the page
	v.quiet()
	s.told(t, "PageView", 3)
	require.Len(t, v.pixelIDs("PageView"), 3)
	ids := map[string]bool{}
	for _, e := range s.server("PageView") {
		require.Equal(t, 2, s.graph.Times(pixelID, "PageView", e.EventID), "the Pixel's and the server's")
		ids[e.EventID] = true
	}
	require.Len(t, ids, 3)
}

// What the site itself, or Tag Manager, has the Pixel report is seen with its id and name
// and goes its way unchanged, whoever comes first.
func TestBrowserThePixelsOwnEventsAreSeen(t *testing.T) {
	t.Parallel()
	own := `fbq('track','Lead',{value:1},{eventID:'row-17'});fbq('trackCustom','Brochure');fbq('trackSingle','` + datasetB + `','Contact',{},{eventID:'c-1'});`
	heads := map[string]func(s *website) string{
		"the tag comes between stub and library": func(s *website) string {
			return "<script>" + pixelSnippet + own + "</script>" + s.tagFrom(gateHost)
		},
		"the Pixel comes after the tag": func(s *website) string {
			return s.tagFrom(gateHost) + `<script>var wait=setInterval(function(){if(window.capiloop&&capiloop.loaded){clearInterval(wait);` + pixelSnippet + own + `}},5)</script>`
		},
	}
	for name, head := range heads {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newWebsite(t, "consent: {wait: send}")
			s.slow = make(chan struct{})
			s.put("/shop/signup", head(s), "")
			v := s.visit(t)
			v.run(chromedp.Evaluate[chromedp.Void]("location.href='" + s.at("/shop/signup?email=jane"+rawDomain) + "'"))
			v.until("window.fbq&&window.capiloop&&capiloop.loaded")
			close(s.slow)
			v.until("window.pixelCalls&&pixelCalls.length>=4")
			v.do("fbq('track','AddToCart',{},{eventID:'late'})")
			s.eventually(t, 10e9, "sightings on disk", func() bool { return len(s.sightings(t)) >= 4 })
			v.quiet()
			page := "/shop/signup"
			require.ElementsMatch(t, []sighting{
				{"Lead", "row-17", datasetA, page, false, false},
				{"Brochure", "", datasetA, page, false, false},
				{"Contact", "c-1", datasetB, page, false, false},
				{"AddToCart", "late", datasetA, page, false, false},
			}, s.sightings(t), "each call, once")
			require.Equal(t, []string{"init", "track", "trackCustom", "trackSingle", "track"}, v.texts("pixelCalls.map(function(c){return c[0]})"))
			require.Empty(t, s.server("Lead"), "what is seen is not sent")
		})
	}
}

// What the Pixel has reported before the tag was there is found among the page's requests.
func TestBrowserThePixelWasFaster(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "consent: {wait: send}")
	s.put("/", `<script>var real=performance.getEntriesByType.bind(performance);
		performance.getEntriesByType=function(kind){return kind!='resource'?real(kind):[{startTime:5,name:'https://www.facebook.com/tr/?id=`+pixelID+`&ev=PageView&dl=x&eid=ob3_plugin-1'},
			{startTime:6,name:'https://www.facebook.com/tr?ev=Sign%20up&id=`+pixelID+`'},{startTime:7,name:'https://www.shop.test/tr?ev=Lead'}]};</script>`+
		pixel+`<script>var tag=setInterval(function(){if(window.fbq.callMethod){clearInterval(tag);var s=document.createElement('script');s.src='`+s.gate(gateHost)+`/t.js?site=shop';document.head.appendChild(s)}},5)</script>`, "")
	v := s.visit(t)
	v.open("/")
	s.eventually(t, 10e9, "sightings on disk", func() bool { return len(s.sightings(t)) >= 2 })
	require.ElementsMatch(t, []sighting{{"PageView", "ob3_plugin-1", datasetA, "/", false, false}, {"Sign up", "", datasetA, "/", false, false}}, s.sightings(t))
	v.do("fbq('track','Lead',{},{eventID:'later'})")
	s.eventually(t, 10e9, "sightings on disk", func() bool { return len(s.sightings(t)) >= 3 })
	require.Contains(t, s.sightings(t), sighting{"Lead", "later", datasetA, "/", false, false})
}

// The tag's own calls of the Pixel are seen as such.
func TestBrowserTheTagsOwnCallsAreSeen(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "consent: {wait: send}")
	s.slow = make(chan struct{}) // a tag that comes after the library does not know which Pixel it is
	s.put("/", pixel+s.tagFrom(gateHost), `<button id="b" data-capiloop-event="Contact">Call</button>`)
	v := s.visit(t)
	v.run(chromedp.Evaluate[chromedp.Void]("location.href='" + s.at("/") + "'")) // not loaded before the library is
	v.until("window.capiloop && capiloop.loaded === true")
	close(s.slow)
	v.run(chromedp.Click("#b"))
	sent := s.told(t, "Contact", 1)[0]
	s.eventually(t, 10e9, "sightings on disk", func() bool { return len(s.sightings(t)) >= 1 })
	require.Equal(t, []sighting{{"Contact", sent.EventID, datasetA, "/", true, false}}, s.sightings(t))
}
