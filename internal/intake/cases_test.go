package intake_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/ledger"
)

// caseEvent is a website event of POST /v1/events with this in user_data.
func caseEvent(id, userData string) string {
	return fmt.Sprintf(`{"event_name":"Lead","event_time":%d,"event_id":%q,"action_source":"website","event_source_url":"https://www.example.com/","user_data":{%s}}`,
		now-100, id, userData)
}

// What browsers and plug-ins put into match keys, and what of it leaves.
func TestWhatOfTheMatchKeysLeaves(t *testing.T) {
	t.Parallel()
	const agent = `"client_user_agent":"Mozilla/5.0"`
	hash := []any{capi.HashText("jane@example.com")}
	for name, c := range map[string]struct {
		userData string
		want     map[string]any
	}{
		"C096: fbc without its last part":    {`"em":"jane@example.com","fbc":"fb.1.1750000000000."`, map[string]any{"em": hash}},
		"C097: the case of fbc stays":        {`"fbc":"fb.1.1750000000000.IwAR1aB_c-D"`, map[string]any{"fbc": "fb.1.1750000000000.IwAR1aB_c-D"}},
		"C104: words for nothing":            {`"em":"jane@example.com","fbp":"undefined","fbc":"null","client_user_agent":"undefined"`, map[string]any{"em": hash}},
		"C107: names of another's own":       {`"click_id":"","browser_id":null,"fbc":"","em":"jane@example.com"`, map[string]any{"em": hash}},
		"C107: also where they hold a value": {`"click_id":"AbC","browser_id":"x","em":"jane@example.com"`, map[string]any{"em": hash}},
		"C110: IPv4 in IPv6":                 {agent + `,"client_ip_address":"::ffff:203.0.113.7"`, map[string]any{"client_user_agent": "Mozilla/5.0", "client_ip_address": "203.0.113.7"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			require.Equal(t, "waiting", d.post(t, caseEvent("1", c.userData)).at("events", 0, "state"))
			require.Equal(t, c.want, user(d.payloads(t)["1"]))
		})
	}
	for _, address := range []string{"unknown", "", "10.0.0.5", "127.0.0.1", "fd00::1", "fe80::1%eth0", "0.0.0.0", "100.64.1.1"} {
		t.Run("C112: "+address, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			d.post(t, caseEvent("1", fmt.Sprintf(`"em":"jane@example.com","client_ip_address":%q`, address)))
			require.Equal(t, map[string]any{"em": hash}, user(d.payloads(t)["1"]))
		})
	}
	t.Run("C104: nothing is left that says who", func(t *testing.T) {
		t.Parallel()
		a := open(t).post(t, caseEvent("1", `"fbp":"undefined","fbc":"null","client_user_agent":"undefined"`))
		require.Equal(t, http.StatusUnprocessableEntity, a.Code)
		require.Equal(t, capi.ProblemNoMatchKey, a.at("error", "code"))
	})
}

func TestAddressesThatAreNone(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"example.com/page", "/thanks", "about:blank", "javascript:alert(1)"} {
		for _, source := range []string{"website", "system_generated"} {
			t.Run("C118: "+address+" "+source, func(t *testing.T) {
				t.Parallel()
				d := open(t)
				body := strings.NewReplacer("https://www.example.com/", address, `"website"`, `"`+source+`"`).Replace(caseEvent("1", `"em":"jane@example.com"`))
				a := d.post(t, body)
				require.Equal(t, "waiting", a.at("events", 0, "state"))
				require.Contains(t, a.codes("events", 0, "warnings"), capi.ProblemBadSourceURL)
				require.NotContains(t, d.payloads(t)["1"], "event_source_url")
			})
		}
		t.Run("C118: the tag knows its page: "+address, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			event := strings.Replace(tagged("Lead", "1"), "https://shop.example.com/p?utm_source=x", address, 1)
			require.Equal(t, http.StatusNoContent, d.report(said("shop-hold", granted, event)).Code)
			require.Equal(t, origin+"/", d.payloads(t)["1"]["event_source_url"])
			require.Equal(t, http.StatusNoContent, d.report(said("shop-hold", granted, strings.Replace(event, `"1"`, `"2"`, 1)), "Referer", origin+"/thanks?email=a").Code)
			require.Equal(t, origin+"/thanks", d.payloads(t)["2"]["event_source_url"])
		})
	}
	t.Run("C105: a broken referrer", func(t *testing.T) {
		t.Parallel()
		d := open(t)
		event := tagged("Lead", "1", `,"referrer_url":"http://[bad"`)
		require.Equal(t, http.StatusNoContent, d.report(said("shop-hold", granted, event), "Referer", "android-app://com.example/").Code)
		require.Equal(t, "Lead", d.payloads(t)["1"]["event_name"])
	})
}

// C103: an event without the cookie gets no _fbp made up.
func TestNoBrowserIsMadeUp(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, id := range []string{"1", "2"} {
		require.Equal(t, http.StatusNoContent, d.report(said("shop-send", granted, tagged("Lead", id))).Code)
		d.post(t, caseEvent("api-"+id, `"em":"jane@example.com"`))
	}
	for id, p := range d.payloads(t) {
		require.NotContains(t, user(p), "fbp", id)
	}
}

// C223: what waits of a person who takes the consent back does not leave.
func TestConsentIsTakenBackWhileTheTagsEventsWait(t *testing.T) {
	t.Parallel()
	d := open(t)
	require.Equal(t, http.StatusNoContent, d.report(said("shop-hold", granted, tagged("Lead", "hers", `,"user_data":{"external_id":"u-1"}`), tagged("Lead", "his", `,"user_data":{"external_id":"u-2"}`))).Code)
	a := d.send(t, "/v1/consent", `{"external_id":"u-1","granted":false}`)
	require.Equal(t, http.StatusOK, a.Code, a.Body.String())
	require.Equal(t, http.StatusNoContent, d.report(said("shop-hold", granted, tagged("Lead", "later", `,"user_data":{"external_id":"u-1"}`))).Code)
	for _, v := range d.views(t) {
		gone := v.EventID != "his"
		require.Equal(t, gone, v.State() == ledger.Skipped, v.EventID)
		if gone {
			require.Equal(t, ledger.NoConsent, v.Deliveries[0].Reason)
			require.Nil(t, v.Deliveries[0].Payload)
		}
		require.Equal(t, "granted:tcf", v.Consent, "what was known when it happened stays")
	}
	d.book(t)
}

// What a caller of the API says about consent stays with the event, too.
func TestACallersWordOnConsentIsKept(t *testing.T) {
	t.Parallel()
	d := open(t)
	require.Equal(t, http.StatusAccepted, d.post(t, `{"data":[`+lead("none")+`],"consent":null}`).Code)
	require.Equal(t, http.StatusAccepted, d.post(t, `{"data":[`+lead("yes")+`],"consent":true}`).Code)
	require.Equal(t, http.StatusAccepted, d.post(t, `{"data":[`+lead("no")+`],"consent":{"ad_user_data":"denied"}}`).Code)
	require.Equal(t, http.StatusOK, d.graph(t, `{"data":[`+lead("graph")+`],"consent":"granted"}`).Code)
	want := map[string]string{"none": "", "yes": "granted:caller", "no": "denied:caller", "graph": "granted:caller"}
	for _, v := range d.views(t) {
		require.Equal(t, want[v.EventID], v.Consent, v.EventID)
	}
}
