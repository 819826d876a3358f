package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// gtag is what Google has a page define.
const gtag = `<script>window.dataLayer=window.dataLayer||[];function gtag(){dataLayer.push(arguments)}</script>`

// before a visitor was asked, in Consent Mode's words.
const gtagDefault = `gtag('consent','default',{ad_storage:'denied',ad_user_data:'denied',analytics_storage:'denied',wait_for_update:500});`

// cmp stands in for a consent platform of the IAB's framework. say tells all listeners.
const cmp = `<script>(function(){var all=[],now={eventStatus:'cmpuishown',gdprApplies:true,purpose:{consents:{}}};
window.__tcfapi=function(command,version,answer){if(command==='addEventListener'){now.listenerId=all.push(answer);answer(now,true)}};
window.say=function(data){now=data;all.forEach(function(a){a(data,true)})}})();</script>`

// decisions are the events of a name as they lie in the database: what was known about
// consent, and what became of them.
func (s *website) decisions(t *testing.T, name string) []string {
	t.Helper()
	rows, err := s.look(t).QueryContext(t.Context(), "SELECT consent FROM events WHERE name = $1 ORDER BY id", name)
	require.NoError(t, err)
	defer rows.Close()
	var list []string
	for rows.Next() {
		var consent string
		require.NoError(t, rows.Scan(&consent))
		list = append(list, consent)
	}
	require.NoError(t, rows.Err())
	return list
}

// decided waits for an event of a name to be on disk and returns what was known about
// consent.
func (s *website) decided(t *testing.T, name string) string {
	t.Helper()
	s.eventually(t, 10e9, name+" on disk", func() bool { return len(s.decisions(t, name)) > 0 })
	list := s.decisions(t, name)
	require.Len(t, list, 1)
	return list[0]
}

// untouched wants nothing of the visitor to lie on the device, and the server to know of
// nobody.
func (v *visitor) untouched(names ...string) {
	v.t.Helper()
	v.quiet()
	require.Empty(v.t, v.cookies(), "no cookie before the decision")
	require.Empty(v.t, v.device(), "nothing in the browser's storage before the decision")
	for _, name := range names {
		require.Empty(v.t, v.s.server(name))
		require.Empty(v.t, v.s.decisions(v.t, name))
		require.Empty(v.t, v.pixelIDs(name))
	}
}

// Before the decision what happens waits in the page's memory; on a grant it flows, with
// its id and its time; when the visitor takes it back, all that was written is erased and
// nothing more is sent.
func TestBrowserConsentBeforeAfterAndWithdrawn(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "fbp: create")
	s.put("/", gtag+"<script>"+gtagDefault+"</script>"+s.tagFrom(gateHost), `<form id="f" action="/thanks" method="post" data-capiloop-event="Lead"></form>`)
	v := s.visit(t)
	v.open("/?fbclid=AbC&gclid=g-1")
	v.do("capiloop('identify',{em:'jane" + rawDomain + "'});capiloop('track','Search',{search_string:'shoes'},{eventID:'before'})")
	v.untouched("Search")
	require.Equal(t, 1, int(v.number("document.querySelectorAll('#f [name=event_id]').length")))
	require.Zero(t, v.number("document.querySelectorAll('#f [name=fbc],#f [name=fbp]').length"))

	v.do("gtag('consent','update',{ad_storage:'granted',ad_user_data:'granted'})")
	sent := s.told(t, "Search", 1)[0]
	require.Equal(t, "before", sent.EventID)
	require.Subset(t, sent.Keys, []string{"em", "fbc", "fbp", "client_ip_address", "client_user_agent"})
	require.Equal(t, "granted:gcm", s.decided(t, "Search"))
	require.Contains(t, v.cookies(), "_fbc")
	require.Contains(t, v.cookies(), "_fbp")
	require.Equal(t, 1, int(v.number("document.querySelectorAll('#f [name=fbc][value*=AbC]').length")))

	v.do("gtag('consent','update',{ad_user_data:'denied'})")
	v.do("capiloop('track','Contact',{content_name:'secret'},{eventID:'after'})")
	require.Equal(t, "denied:gcm", s.decided(t, "Contact"))
	v.quiet()
	require.Empty(t, s.server("Contact"))
	require.Empty(t, v.cookies())
	require.Empty(t, v.device())
	require.Zero(t, v.number("document.querySelectorAll('#f [name=fbc][value*=AbC]').length"))
	require.EqualValues(t, 1, s.book(t, "").by("skipped", "no_consent"))

	v.do("gtag('consent','update',{ad_user_data:'granted'});capiloop('track','Schedule')") // and agrees again
	s.told(t, "Schedule", 1)
}

// What waits when the visitor refuses is erased: the server is told that there was an
// event, and nothing of what it said.
func TestBrowserConsentRefused(t *testing.T) {
	t.Parallel()
	s := newWebsite(t)
	s.put("/", pixel+gtag+"<script>"+gtagDefault+"</script>"+s.tagFrom(gateHost), "")
	v := s.visit(t)
	v.open("/?fbclid=AbC&email=jane" + rawDomain)
	v.do("window.posted=[];window.real=fetch;window.fetch=function(u,i){posted.push(i.body);return real.apply(this,arguments)};" +
		"capiloop('track','Search',{search_string:'shoes'},{eventID:'held',em:'jane" + rawDomain + "'});gtag('consent','update',{ad_storage:'denied',ad_user_data:'denied'})")
	require.Equal(t, "denied:gcm", s.decided(t, "Search"))
	v.do("capiloop('track','Contact',{},{em:'jane" + rawDomain + "'})")
	require.Equal(t, "denied:gcm", s.decided(t, "Contact"))
	for _, body := range v.texts("posted") {
		var p struct {
			FBC, FBP  string
			Events    []map[string]any
			Sightings []any
		}
		require.NoError(t, json.Unmarshal([]byte(body), &p))
		require.Empty(t, p.FBC+p.FBP)
		require.Empty(t, p.Sightings)
		for _, e := range p.Events {
			delete(e, "event_name")
			delete(e, "event_id")
			delete(e, "at")
			require.Equal(t, map[string]any{"consent": map[string]any{"ads": "denied", "by": "gcm", "gpc": false}}, e, "name, id and time, nothing else")
		}
	}
	require.Empty(t, s.server("Search"))
	require.Empty(t, v.pixelIDs("Search"), "the Pixel is not told either")
	require.Empty(t, v.pixelIDs("Contact"))
	require.Empty(t, s.sightings(t))
	require.Empty(t, v.device())
}

// What else a source may want before the decision.
func TestBrowserConsentOtherThanHold(t *testing.T) {
	t.Parallel()
	page := func(s *website) { s.put("/shoes", pixel+s.tagFrom(gateHost), "") }
	const event = "capiloop('identify',{external_id:'u-1'});capiloop('track','Search',{search_string:'shoes'},{em:'jane" + rawDomain + "'})"
	t.Run("drop", func(t *testing.T) {
		t.Parallel()
		s := newWebsite(t, "consent: {wait: drop}")
		page(s)
		v := s.visit(t)
		v.open("/shoes?fbclid=AbC")
		v.do(event)
		v.quiet()
		v.do("capiloop('consent','grant');capiloop('track','Contact')")
		s.told(t, "Contact", 1)
		require.Empty(t, s.decisions(t, "Search"), "it is forgotten")
		require.Empty(t, v.pixelIDs("Search"))
	})
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		s := newWebsite(t, "consent: {wait: plain}")
		page(s)
		v := s.visit(t)
		v.open("/shoes?fbclid=AbC&email=jane" + rawDomain)
		v.do(event)
		sent := s.told(t, "Search", 1)[0]
		require.ElementsMatch(t, []string{"client_ip_address", "client_user_agent"}, sent.Keys)
		require.Contains(t, string(sent.Payload), `"event_source_url":"`+s.at("/shoes")+`"`)
		require.Equal(t, "undecided:plain", s.decided(t, "Search"))
		require.Empty(t, v.pixelIDs("Search"))
		require.Empty(t, v.device())
		require.NotContains(t, v.cookies(), "_fbc")
		require.Empty(t, s.sightings(t))
		v.do("capiloop('consent','grant')")
		v.quiet()
		s.told(t, "Search", 1) // and is not sent again
	})
	t.Run("send", func(t *testing.T) {
		t.Parallel()
		s := newWebsite(t, "consent: {wait: send}")
		page(s)
		v := s.visit(t)
		v.open("/shoes?fbclid=AbC")
		v.do(event)
		require.Subset(t, s.told(t, "Search", 1)[0].Keys, []string{"em", "external_id", "fbc"})
		require.Equal(t, "undecided:none", s.decided(t, "Search"))
		v.do("capiloop('consent','deny');capiloop('track','Contact')")
		require.Equal(t, "denied:site", s.decided(t, "Contact"))
		v.quiet()
		require.Empty(t, s.server("Contact"))
		require.Empty(t, v.device())
	})
}

// Consent Mode, whoever speaks it and in whatever order.
func TestBrowserConsentMode(t *testing.T) {
	t.Parallel()
	both := `ad_storage:'granted',ad_user_data:'granted'`
	s := newWebsite(t)
	for name, c := range map[string]struct{ head, later, want string }{
		"granted by default":                   {head: gtag + "<script>gtag('consent','default',{" + both + "})</script>", want: "granted:gcm"},
		"granted before the tag came":          {head: gtag + "<script>" + gtagDefault + "gtag('consent','update',{" + both + "})</script>", want: "granted:gcm"},
		"one of both":                          {head: gtag + "<script>" + gtagDefault + "gtag('consent','update',{ad_storage:'granted'})</script>", want: ""},
		"refused":                              {head: gtag + "<script>" + gtagDefault + "gtag('consent','update',{ad_storage:'granted',ad_user_data:'denied'})</script>", want: "denied:gcm"},
		"denied by default is no answer":       {head: gtag + "<script>" + gtagDefault + "</script>", want: ""},
		"a default for some regions":           {head: gtag + "<script>gtag('consent','default',{ad_storage:'denied',ad_user_data:'denied',region:['DE']});gtag('consent','default',{" + both + "})</script>", want: ""},
		"the data layer is made after the tag": {later: "window.dataLayer=[];(function(){dataLayer.push(arguments)})('consent','update',{" + both + "})", want: "granted:gcm"},
		"Tag Manager has replaced push": {
			head:  gtag + "<script>(function(){var p=dataLayer.push;dataLayer.push=function(){return p.apply(dataLayer,arguments)}})()</script>",
			later: "gtag('consent','update',{" + both + "})", want: "granted:gcm",
		},
		"a template of Tag Manager": {
			head:  "<script>window.google_tag_data={ics:{entries:{ad_storage:{default:false},ad_user_data:{default:false}},addListener:function(k,f){this.f=f}}}</script>",
			later: "var i=google_tag_data.ics;i.entries.ad_storage.update=i.entries.ad_user_data.update=true;i.f()", want: "granted:gcm",
		},
		"a template, and nobody tells": {
			later: "window.google_tag_data={ics:{entries:{ad_storage:{default:false,update:true},ad_user_data:{default:false,update:false}}}}", want: "denied:gcm",
		},
		"nothing on the page": {want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := "/" + strings.ReplaceAll(name, " ", "-")
			s.put(path, c.head+s.tagFrom(gateHost), "")
			v := s.visit(t)
			v.open(path)
			event := "E" + strings.ReplaceAll(strings.ReplaceAll(name, " ", ""), ",", "")
			v.do("capiloop('track','" + event + "');" + c.later)
			if c.want == "" {
				v.untouched(event)
				return
			}
			require.Equal(t, c.want, s.decided(t, event))
		})
	}
}

// The IAB's framework, alone and beside Consent Mode.
func TestBrowserConsentOfTCF(t *testing.T) {
	t.Parallel()
	s := newWebsite(t)
	say := func(status, purposes, more string) string {
		return fmt.Sprintf("say({eventStatus:'%s',gdprApplies:true,purpose:{consents:{%s}}%s})", status, purposes, more)
	}
	const all, done = "1:true,3:true,4:true,7:true", "useractioncomplete"
	for name, c := range map[string]struct{ head, later, want string }{
		"granted":                        {later: say(done, all, ""), want: "granted:tcf"},
		"granted on an earlier visit":    {later: say("tcloaded", all, ""), want: "granted:tcf"},
		"the banner is open":             {later: say("cmpuishown", all, ""), want: ""},
		"no storage":                     {later: say(done, "1:false,3:true,4:true,7:true", ""), want: "denied:tcf"},
		"no profile":                     {later: say(done, "1:true,4:true,7:true", ""), want: "denied:tcf"},
		"no personal ads":                {later: say(done, "1:true,3:true,4:false,7:true", ""), want: "denied:tcf"},
		"no measurement":                 {later: say(done, "1:true,3:true,4:true", ""), want: "denied:tcf"},
		"Meta among Googles additional":  {later: say(done, all, ",addtlConsent:'2~43.89.2572~dv.70'"), want: "granted:tcf"},
		"Meta only disclosed":            {later: say(done, all, ",addtlConsent:'2~43.2572~dv.70.89'"), want: "denied:tcf"},
		"another number that holds 89":   {later: say(done, all, ",addtlConsent:'1~189.894'"), want: "denied:tcf"},
		"the law does not apply":         {later: "say({eventStatus:'tcloaded',gdprApplies:false})", want: "granted:tcf"},
		"does not apply, Google refused": {head: gtag + "<script>" + gtagDefault + "</script>", later: "say({eventStatus:'tcloaded',gdprApplies:false});gtag('consent','update',{ad_storage:'denied'})", want: "denied:gcm"},
		"does not apply, Google waits":   {head: gtag + "<script>" + gtagDefault + "</script>", later: "say({eventStatus:'tcloaded',gdprApplies:false})", want: ""},
		"Google granted, TCF refused":    {head: gtag, later: "gtag('consent','update',{ad_storage:'granted',ad_user_data:'granted'});" + say(done, "", ""), want: "denied:tcf"},
		"Google granted, TCF waits":      {head: gtag, later: "gtag('consent','update',{ad_storage:'granted',ad_user_data:'granted'})", want: ""},
		"Google refused, TCF granted":    {head: gtag, later: "gtag('consent','update',{ad_storage:'denied'});" + say(done, all, ""), want: "denied:gcm"},
		"the site's own word":            {later: say(done, "", "") + ";capiloop('consent','grant')", want: "granted:site"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := "/" + strings.NewReplacer(" ", "-", "'", "").Replace(name)
			s.put(path, c.head+cmp+s.tagFrom(gateHost), "")
			v := s.visit(t)
			v.open(path)
			v.until("window.say&&performance.getEntriesByType('resource').some(function(e){return /t-tcf/.test(e.name)})")
			event := "E" + strings.NewReplacer(" ", "", "'", "", ",", "").Replace(name)
			if strings.Contains(c.want, "site") {
				event += "Own"
			}
			v.do(c.later)
			v.do("capiloop('track','" + event + "')")
			if c.want == "" {
				v.untouched(event)
				return
			}
			require.Equal(t, c.want, s.decided(t, event))
		})
	}
}

// A platform that comes after the tag is found, and one that is not there costs no file.
func TestBrowserTCFIsLoadedWhereItIs(t *testing.T) {
	t.Parallel()
	s := newWebsite(t)
	s.put("/", s.tagFrom(gateHost), "")
	v := s.visit(t)
	v.open("/")
	v.do("capiloop('track','Search')")
	v.untouched("Search")
	const asked = "performance.getEntriesByType('resource').filter(function(e){return /t-tcf/.test(e.name)}).length"
	require.Zero(t, v.number(asked))
	inner := strings.TrimSuffix(strings.TrimPrefix(cmp, "<script>"), "</script>")
	v.do(inner + "say({eventStatus:'tcloaded',gdprApplies:true,purpose:{consents:{1:true,3:true,4:true,7:true}}})")
	require.Equal(t, "granted:tcf", s.decided(t, "Search"))
	require.Equal(t, 1, int(v.number(asked)))
}

// limited is what Meta was asked of limited data use: "" for nothing.
func limited(t *testing.T, payload []byte) string {
	t.Helper()
	var p struct {
		Options []string `json:"data_processing_options"`
		Country int      `json:"data_processing_options_country"`
		State   int      `json:"data_processing_options_state"`
	}
	require.NoError(t, json.Unmarshal(payload, &p))
	if p.Options == nil {
		return ""
	}
	return fmt.Sprint(p.Options, p.Country, p.State)
}

// Global Privacy Control limits the use of data, here and at the Pixel, unless the visitor
// has since told the site itself that it may; it is no refusal, and a refusal is no limit.
func TestBrowserGlobalPrivacyControl(t *testing.T) {
	t.Parallel()
	const gpc = `<script>Object.defineProperty(navigator,'globalPrivacyControl',{value:true})</script>`
	s := newWebsite(t, "consent: {wait: send}")
	s.put("/", gpc+pixel+gtag+s.tagFrom(gateHost), "")
	v := s.visit(t)
	v.open("/")
	v.do("capiloop('track','Search')")
	require.Equal(t, "[LDU] 0 0", limited(t, s.told(t, "Search", 1)[0].Payload))
	require.Equal(t, "undecided:none+gpc", s.decided(t, "Search"))
	v.until("window.pixelCalls&&pixelCalls.some(function(c){return c[1]=='Search'})")
	require.Equal(t, []string{`["dataProcessingOptions",["LDU"],0,0]`}, v.texts("pixelCalls.filter(function(c){return c[0]=='dataProcessingOptions'}).map(function(c){return JSON.stringify(c)})"))

	own := s.visit(t)
	own.open("/")
	own.do("capiloop('consent','grant');capiloop('track','Contact')")
	require.Empty(t, limited(t, s.told(t, "Contact", 1)[0].Payload))
	require.Equal(t, "granted:site+gpc", s.decided(t, "Contact"))

	refused := s.visit(t)
	refused.open("/")
	refused.do("gtag('consent','update',{ad_storage:'denied'});capiloop('track','Schedule')")
	require.Equal(t, "denied:gcm+gpc", s.decided(t, "Schedule"))
	refused.quiet()
	require.Empty(t, s.server("Schedule"))
}

// Limited data use as the page asks for it: of the tag, or of the Pixel, whether the tag
// is there to see it or finds it in what the Pixel has sent before.
func TestBrowserLimitedDataUse(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "consent: {wait: send}")
	s.slow = make(chan struct{})
	s.put("/tag", pixel+s.tagFrom(gateHost), "")
	s.put("/pixel", strings.Replace(pixel, "fbq('init'", "fbq('dataProcessingOptions',['LDU'],1,1000);fbq('init'", 1)+s.tagFrom(gateHost), "")
	s.put("/late", `<script>var real=performance.getEntriesByType.bind(performance);
		performance.getEntriesByType=function(kind){return kind!='resource'?real(kind):[{startTime:5,name:'https://www.facebook.com/tr/?id=`+pixelID+`&ev=PageView&dpo=LDU&dpoco=1&dpost=1002'}]};</script>`+
		pixel+`<script>var tag=setInterval(function(){if(window.fbq.callMethod){clearInterval(tag);var s=document.createElement('script');s.src='`+s.gate(gateHost)+`/t.js?site=shop';document.head.appendChild(s)}},5)</script>`, "")

	v := s.visit(t)
	v.run(chromedp.Evaluate[chromedp.Void]("location.href='" + s.at("/pixel") + "'")) // loaded only once the library is
	v.until("window.capiloop&&capiloop.loaded")
	close(s.slow)
	v.do("capiloop('track','Schedule')")
	require.Equal(t, "[LDU] 1 1000", limited(t, s.told(t, "Schedule", 1)[0].Payload))
	v.until("fbq.callMethod")
	v.do("fbq('dataProcessingOptions',[]);capiloop('track','Donate')")
	require.Empty(t, limited(t, s.told(t, "Donate", 1)[0].Payload))

	v = s.visit(t)
	v.open("/late")
	v.do("capiloop('track','Subscribe')")
	require.Equal(t, "[LDU] 1 1002", limited(t, s.told(t, "Subscribe", 1)[0].Payload))

	v = s.visit(t)
	v.open("/tag")
	v.do("capiloop('track','Search');capiloop('ldu',1,1005);capiloop('track','Contact')")
	require.Empty(t, limited(t, s.told(t, "Search", 1)[0].Payload))
	require.Equal(t, "[LDU] 1 1005", limited(t, s.told(t, "Contact", 1)[0].Payload))
	v.until("window.pixelCalls&&pixelCalls.some(function(c){return c[1]=='Contact'})")
	require.Equal(t, []string{"init", "track", "dataProcessingOptions", "track"}, v.texts("pixelCalls.map(function(c){return c[0]})"))
}
