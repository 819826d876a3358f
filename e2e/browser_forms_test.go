package e2e_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// A form on one origin, the gateway on another: what the Pixel, the form's own server and
// Meta hear has one id.
func TestBrowserAFormHasOneID(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "consent: {wait: send}")
	s.put("/signup", pixel+s.tagFrom(gateHost), `<form action="/thanks" method="post" data-capiloop-event="Lead" data-capiloop-match data-capiloop-content-name="trial">
		<input id="mail" type="email" name="email" required><input type="tel" name="phone" value="+77015556677"><button id="send">Send</button></form>`)
	s.put("/thanks", "", "<p id=thanks>Thank you</p>")
	v := s.visit(t)
	v.open("/signup?fbclid=IwAR2F4-dbP0l7Mn1IawQQ")
	v.until("document.querySelector('[name=event_id]') && document.querySelector('[name=event_id]').value")

	v.run(chromedp.Click("#send")) // the browser refuses: no e-mail yet
	v.quiet()
	require.Empty(t, s.server("Lead"), "a click is no successful submit")

	v.run(chromedp.SendKeys("#mail", "jane"+rawDomain), chromedp.Click("#send"), chromedp.WaitVisible("#thanks"))
	sent := s.told(t, "Lead", 1)[0]
	require.Equal(t, []string{sent.EventID}, s.posted("event_id"))
	require.Regexp(t, `^[0-9a-f-]{36}$`, sent.EventID)
	require.Contains(t, string(sent.Payload), `"content_name":"trial"`)
	require.Subset(t, sent.Keys, []string{"em", "ph", "client_ip_address", "client_user_agent", "fbc"})
	s.eventually(t, 10e9, "the Pixel's copy", func() bool { return s.graph.Times(pixelID, "Lead", sent.EventID) == 2 })
	kept := 0
	for _, e := range s.graph.Kept(pixelID) {
		if e.EventName == "Lead" {
			kept++
		}
	}
	require.Equal(t, 1, kept, "Meta counts one")
}

// Forms that the page sends by itself count when the request that carries their id has
// succeeded, however it is sent.
func TestBrowserAFormSentByScriptCountsWhenItWasTaken(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "consent: {wait: send}")
	s.put("/signup", pixel+s.tagFrom(gateHost), `<form id="f" action="/thanks" method="post" data-capiloop-event="Lead"><input name="status" id="status"><button id="send">Send</button></form>
		<script>
		var way='fetch';
		document.getElementById('f').addEventListener('submit',function(e){
			e.preventDefault();
			var data=new FormData(e.target);
			window.sent=false;
			var done=function(){window.sent=true};
			if(way==='fetch')fetch('/thanks',{method:'POST',body:data}).then(done);
			else if(way==='json')fetch('/thanks',{method:'POST',headers:{'Content-Type':'application/json'},body:JSON.stringify(Object.fromEntries(data))}).then(done);
			else{var x=new XMLHttpRequest();x.open('POST','/thanks');x.onload=done;x.send(new URLSearchParams(data))}
		});
		</script>`)
	v := s.visit(t)
	v.open("/signup")
	submit := func(way, status string) {
		v.do("way='" + way + "';document.getElementById('status').value='" + status + "'")
		v.run(chromedp.Click("#send"))
		v.until("window.sent")
	}
	id := func() string { return v.texts("[document.querySelector('[name=event_id]').value]")[0] }

	v.until("document.querySelector('[name=event_id]')")
	first := id()
	submit("fetch", "500")
	v.quiet()
	require.Empty(t, s.server("Lead"), "the site has not taken it")
	require.Equal(t, first, id(), "the same form is sent again")

	submit("fetch", "200")
	require.Equal(t, first, s.told(t, "Lead", 1)[0].EventID)
	require.NotEqual(t, first, id(), "filled in again it is another lead")

	for n, way := range []string{"json", "xhr"} {
		next := id()
		submit(way, "200")
		require.Equal(t, next, s.told(t, "Lead", n+2)[n+1].EventID, way)
	}
	require.Len(t, v.pixelIDs("Lead"), 3)
	require.Positive(t, v.number("+(''+window.fetch).indexOf('native code')"), "the page's own fetch is back")
}

// What a form builder says of its own counts before any guess; and a page may say it.
func TestBrowserAFormThatSpeaksForItself(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "consent: {wait: send}")
	s.put("/signup", s.tagFrom(gateHost), `
		<div class="wpcf7"><form id="cf7" class="wpcf7-form" action="/thanks" method="post" data-capiloop-event="Lead"><button id="one">Send</button></form></div>
		<form id="own" action="/thanks" method="post" data-capiloop-event="Schedule"><button id="two">Send</button></form>
		<form id="script" action="/thanks" method="post" data-capiloop-event="Contact"></form>
		<script>
		document.addEventListener('submit',function(e){e.preventDefault();fetch('/thanks',{method:'POST',body:new FormData(e.target)})});
		document.getElementById('own').addEventListener('submit',function(e){e.stopPropagation();e.preventDefault()});
		</script>`)
	s.put("/thanks", "", "<p id=thanks>Thank you</p>")
	v := s.visit(t)
	v.open("/signup")
	v.until("document.querySelectorAll('[name=event_id]').length==3")

	v.run(chromedp.Click("#one"))
	v.quiet()
	require.Empty(t, s.server("Lead"), "Contact Form 7 answers 200 whatever it thinks of the form")
	v.do("document.querySelector('.wpcf7').dispatchEvent(new CustomEvent('wpcf7mailsent',{bubbles:true}))")
	s.told(t, "Lead", 1)

	v.run(chromedp.Click("#two"))
	v.quiet()
	require.Empty(t, s.server("Schedule"))
	v.do("capiloop('submitted',document.getElementById('own'))")
	s.told(t, "Schedule", 1)

	v.do("document.getElementById('script').submit()") // no event tells of it
	s.told(t, "Contact", 1)
}

// Buttons and links count by the click; a button inside of a form counts with its form.
func TestBrowserAClickIsAnEventWhereItSaysSo(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "consent: {wait: send}")
	s.put("/", pixel+s.tagFrom(gateHost), `<a id="call" href="#" data-capiloop-event="Contact" data-capiloop-value="5" data-capiloop-currency="EUR"><b id="inside">Call us</b></a>
		<form id="f" method="post" action="/thanks"><input id="name" name="name" required><button id="trial" data-capiloop-event="StartTrial">Try</button><button id="other">Other</button></form>`)
	s.put("/thanks", "", "<p id=thanks>Thank you</p>")
	v := s.visit(t)
	v.open("/")
	v.run(chromedp.DoubleClick("#inside"))
	sent := s.told(t, "Contact", 1)[0]
	require.Equal(t, "EUR", sent.Currency)
	require.Equal(t, []string{sent.EventID}, v.pixelIDs("Contact"))
	v.run(chromedp.Click("#trial"))
	v.quiet()
	require.Empty(t, s.server("StartTrial"), "the form is not filled in")
	v.run(chromedp.SendKeys("#name", "Jane"), chromedp.Click("#trial"), chromedp.WaitVisible("#thanks"))
	s.told(t, "StartTrial", 1)
	v.open("/")
	v.run(chromedp.SendKeys("#name", "Jane"), chromedp.Click("#other"), chromedp.WaitVisible("#thanks"))
	v.quiet()
	s.told(t, "StartTrial", 1)
}

// A form that a script brings later has its id, too, and one whose page has its own field
// uses that.
func TestBrowserFormsThatComeLater(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "consent: {wait: send}")
	s.put("/", s.tagFrom(gateHost), `<div id="root"></div>`)
	s.put("/thanks", "", "<p id=thanks>Thank you</p>")
	v := s.visit(t)
	v.open("/")
	v.do(`document.getElementById('root').innerHTML='<form id="late" method="post" action="/thanks"><input type="hidden" name="event_id" value="from-the-shop"><button id="send">Send</button></form>'`)
	v.do(`document.getElementById('late').setAttribute('data-capiloop-event','Lead')`) // by another script still
	v.run(chromedp.Click("#send"), chromedp.WaitVisible("#thanks"))
	require.Equal(t, "from-the-shop", s.told(t, "Lead", 1)[0].EventID)
	require.Equal(t, []string{"from-the-shop"}, s.posted("event_id"))
}
