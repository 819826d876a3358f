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
