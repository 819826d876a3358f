package intake_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/intake"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

const (
	browserAgent = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1"
	granted      = `{"ads":"granted","by":"tcf"}`
)

// slack is how long a door may have stood before it is asked: its clock goes on.
const slack = time.Minute

// said puts a report together: of the site, with the decision, of these events.
func said(site, consent string, events ...string) string {
	return fmt.Sprintf(`{"v":1,"site":%q,"sent":%d,"consent":%s,"events":[%s]}`, site, int64(now)*1000, consent, strings.Join(events, ","))
}

// tagged is an event of the tag; more members may follow.
func tagged(name, id string, more ...string) string {
	return fmt.Sprintf(`{"event_name":%q,"event_id":%q,"at":%d,"event_source_url":"https://shop.example.com/p?utm_source=x"%s}`, name, id, int64(now)*1000-2000, strings.Join(more, ""))
}

// report sends a body to /t as the script in a page of the shop does.
func (d *door) report(body string, headers ...string) answer {
	headers = append([]string{"Content-Type", "text/plain;charset=UTF-8", "Origin", origin, "User-Agent", browserAgent}, headers...)
	return d.call(http.MethodPost, "/t", strings.NewReader(body), headers...)
}

// payloads are what the events of workspace one send, by event id.
func (d *door) payloads(t *testing.T) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for _, v := range d.views(t) {
		var p map[string]any
		if raw := v.Deliveries[0].Payload; raw != nil {
			require.NoError(t, json.Unmarshal(raw, &p))
		}
		all[v.EventID] = p
	}
	return all
}

func user(p map[string]any) map[string]any {
	u, _ := p["user_data"].(map[string]any)
	return u
}

func TestAnEventOfTheTagReachesTheBook(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *intake.Config) { c.TrustedProxies = prefixes("192.0.2.0/24") })
	a := d.report(said("shop-hold", granted, tagged("Purchase", "order-1",
		`,"referrer_url":"https://l.example.org/?email=jane%40example.com&x=1","custom_data":{"value":49.9,"currency":"EUR","order_id":"1"}`,
		`,"user_data":{"em":" Jane@Example.com ","ph":"+1 202 555 0143","external_id":"u-1","fbc":"fb.1.1759270000000.AbC","fbp":"fb.1.1759270000000.123"}`)),
		"X-Forwarded-For", "2a00:1450:4009:81d::200e")
	require.Equal(t, http.StatusNoContent, a.Code, a.Body.String())
	require.Empty(t, a.Body.String())
	require.Equal(t, origin, a.Header().Get("Access-Control-Allow-Origin"))

	views := d.views(t)
	require.Len(t, views, 1)
	v := views[0]
	require.Equal(t, "web", v.Source)
	require.Equal(t, "granted:tcf", v.Consent)
	require.Equal(t, ledger.Waiting, v.State())
	p := d.payloads(t)["order-1"]
	require.InDelta(t, float64(now-2), p["event_time"], slack.Seconds())
	require.Equal(t, "website", p["action_source"])
	require.Equal(t, "https://shop.example.com/p?utm_source=x", p["event_source_url"])
	require.Equal(t, "https://l.example.org/?x=1", p["referrer_url"])
	u := user(p)
	require.Equal(t, []any{capi.HashText("jane@example.com")}, u["em"])
	require.Equal(t, []any{capi.HashText("12025550143")}, u["ph"])
	require.Equal(t, []any{capi.HashText("u-1")}, u["external_id"])
	require.Equal(t, "2a00:1450:4009:81d::200e", u["client_ip_address"])
	require.Equal(t, browserAgent, u["client_user_agent"])
	require.Equal(t, "fb.1.1759270000000.AbC", u["fbc"])
	require.Equal(t, "fb.1.1759270000000.123", u["fbp"])
	require.NotContains(t, d.log.String(), "ane@")

	require.Equal(t, http.StatusNoContent, d.report(said("shop-hold", granted, tagged("Purchase", "order-1"))).Code)
	require.EqualValues(t, 1, d.book(t).Received, "a repeat is one event")
}

func TestTheTagsOriginsAreTheSources(t *testing.T) {
	t.Parallel()
	d := open(t)
	body := said("shop-hold", granted, tagged("PageView", "1"))
	for name, c := range map[string]struct {
		headers []string
		code    int
		reason  string
	}{
		"listed":                                {[]string{"Origin", origin}, 204, ""},
		"another":                               {[]string{"Origin", "https://evil.example.net"}, 403, "origin_not_allowed"},
		"null":                                  {[]string{"Origin", "null"}, 403, "origin_not_allowed"},
		"another site's":                        {[]string{"Origin", "https://two.example.net"}, 403, "origin_not_allowed"},
		"none, by referer":                      {[]string{"Referer", origin + "/form"}, 204, ""},
		"none, by another referer":              {[]string{"Referer", "https://evil.example.net/?" + origin}, 403, "origin_not_allowed"},
		"none, a broken referer":                {[]string{"Referer", "http://[bad"}, 403, "no_origin"},
		"neither: server lets in builders only": {nil, 403, "no_origin"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := d.call(http.MethodPost, "/t", strings.NewReader(body), append([]string{"User-Agent", browserAgent}, c.headers...)...)
			require.Equal(t, c.code, a.Code, a.Body.String())
			require.Equal(t, "Origin", a.Header().Get("Vary"))
			if c.reason != "" {
				require.NoError(t, json.Unmarshal(a.Body.Bytes(), &a.parsed))
				require.Equal(t, c.reason, a.at("error", "code"))
				require.Empty(t, a.Header().Get("Access-Control-Allow-Origin"))
			}
		})
	}
}

func TestTheTagsPreflight(t *testing.T) {
	t.Parallel()
	d := open(t)
	a := d.call(http.MethodOptions, "https://gate.example.net/t", nil, "Origin", origin, "Access-Control-Request-Method", "POST")
	require.Equal(t, http.StatusNoContent, a.Code)
	require.Equal(t, origin, a.Header().Get("Access-Control-Allow-Origin"))
	require.Equal(t, "POST", a.Header().Get("Access-Control-Allow-Methods"))
	require.Equal(t, "Content-Type", a.Header().Get("Access-Control-Allow-Headers"))
	require.NotEmpty(t, a.Header().Get("Access-Control-Max-Age"))
	require.Empty(t, a.Header().Get("Access-Control-Allow-Credentials"), "the page is not of our domain")
	require.Equal(t, http.StatusForbidden, d.call(http.MethodOptions, "/t", nil, "Origin", "https://evil.example.net").Code)
	require.Equal(t, http.StatusForbidden, d.call(http.MethodOptions, "/t", nil).Code)
	require.Equal(t, http.StatusMethodNotAllowed, d.call(http.MethodGet, "/t", nil).Code)

	a = d.call(http.MethodOptions, "https://signals.example.com/t", nil, "Origin", origin)
	require.Equal(t, "true", a.Header().Get("Access-Control-Allow-Credentials"))
}

func TestAReportThatCannotBeReadIsToldWhere(t *testing.T) {
	t.Parallel()
	d := open(t)
	for name, c := range map[string]struct {
		body, kind string
		code       int
		reason     string
		place      string
	}{
		"no JSON":            {"{\"v\":1,\n\"site\":'x'}", "text/plain", 400, "invalid_json", "line 2, column 8"},
		"empty":              {"", "text/plain", 400, "empty_body", ""},
		"a list":             {"[]", "text/plain", 422, capi.ProblemWrongType, ""},
		"another version":    {`{"v":2,"site":"shop-hold"}`, "text/plain", 422, "unknown_version", ""},
		"a wrong type":       {`{"v":1,"site":["x"]}`, "application/json", 422, capi.ProblemWrongType, ""},
		"no such site":       {`{"v":1,"site":"nobody"}`, "", 404, "no_such_site", ""},
		"a form":             {"a=b", "application/x-www-form-urlencoded", 415, "unsupported_media_type", ""},
		"too large":          {`{"v":1,"x":"` + strings.Repeat("a", 256<<10) + `"}`, "text/plain", 413, "too_large", ""},
		"too many":           {said("shop-hold", granted, strings.TrimSuffix(strings.Repeat("{},", 201), ",")), "text/plain", 413, "too_many_items", ""},
		"not in UTF-8":       {"{\"v\":1,\"site\":\"\xff\"}", "text/plain", 400, "not_utf8", "column 16"},
		"an event is a text": {`{"v":1,"site":"shop-hold","events":"x"}`, "text/plain", 422, capi.ProblemWrongType, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := d.report(c.body, "Content-Type", c.kind)
			require.Equal(t, c.code, a.Code, a.Body.String())
			require.NoError(t, json.Unmarshal(a.Body.Bytes(), &a.parsed))
			require.Equal(t, c.reason, a.at("error", "code"))
			require.Contains(t, a.at("error", "message"), c.place)
			require.Equal(t, origin, a.Header().Get("Access-Control-Allow-Origin"), "the page may read why")
		})
	}
}

// One event that cannot be taken stops no other; it is counted, and logged by its code.
func TestABadEventOfTheTagStopsNoOther(t *testing.T) {
	t.Parallel()
	d := open(t)
	a := d.report(said("shop-hold", granted, tagged("ViewContent", "good-1"), `"text"`, `{"event_name":7}`,
		tagged("Purchase", "no-value", `,"user_data":{"em":"jane@example.com"}`), tagged("Lead", "bad-data", `,"custom_data":[1]`), strings.Replace(tagged("Lead", "nul"), "Lead", `\u0000`, 1), tagged("Lead", "good-2")))
	require.Equal(t, http.StatusNoContent, a.Code)
	b := d.book(t)
	require.EqualValues(t, 2, b.Received)
	require.EqualValues(t, 5, b.Beside[ledger.Rejected])
	require.Contains(t, d.log.String(), "events of the tag were not taken")
	require.NotContains(t, d.log.String(), "jane")
}

func TestTheServerDecidesOnConsentAgain(t *testing.T) { // C222
	t.Parallel()
	type row struct {
		site, consent, header string
		state                 ledger.State
		reason                ledger.Reason
		kept                  string
	}
	for name, c := range map[string]row{
		"granted":                          {"shop-hold", granted, "", ledger.Waiting, "", "granted:tcf"},
		"denied":                           {"shop-hold", `{"ads":"denied","by":"gcm"}`, "", ledger.Skipped, ledger.NoConsent, "denied:gcm"},
		"nothing said":                     {"shop-hold", `{"ads":"","by":"none"}`, "", ledger.Skipped, ledger.NoConsent, "undecided:none"},
		"plain where the site holds":       {"shop-hold", `{"ads":"","by":"plain"}`, "", ledger.Skipped, ledger.NoConsent, "undecided:plain"},
		"plain where the site says so":     {"shop-plain", `{"ads":"","by":"plain"}`, "", ledger.Waiting, "", "undecided:plain"},
		"none where the site sends plain":  {"shop-plain", `{"ads":"","by":"none"}`, "", ledger.Skipped, ledger.NoConsent, "undecided:none"},
		"none where the site says so":      {"shop-send", `{"ads":"","by":"none"}`, "", ledger.Waiting, "", "undecided:none"},
		"denied where the site sends":      {"shop-send", `{"ads":"denied","by":"site"}`, "", ledger.Skipped, ledger.NoConsent, "denied:site"},
		"a word that nobody knows":         {"shop-send", `{"ads":"yes","by":"me"}`, "", ledger.Skipped, ledger.NoConsent, ""},
		"denied with Global Privacy":       {"shop-hold", `{"ads":"denied","by":"tcf"}`, "1", ledger.Skipped, ledger.NoConsent, "denied:tcf+gpc"},
		"granted with Global Privacy":      {"shop-hold", `{"ads":"granted","by":"site"}`, "1", ledger.Waiting, "", "granted:site+gpc"},
		"another value of Sec-GPC is none": {"shop-hold", granted, "true", ledger.Waiting, "", "granted:tcf"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			require.Equal(t, http.StatusNoContent, d.report(said(c.site, c.consent, tagged("Lead", "1", `,"user_data":{"em":"jane@example.com"}`)), "Sec-GPC", c.header).Code)
			v := d.views(t)[0]
			require.Equal(t, c.kept, v.Consent)
			require.Equal(t, c.state, v.State())
			if c.state == ledger.Skipped {
				require.Equal(t, c.reason, v.Deliveries[0].Reason)
				require.Nil(t, v.Deliveries[0].Payload)
				require.Zero(t, v.Came)
			}
			d.book(t)
		})
	}
}

// A decision may change between an event and its report: that of the event holds.
func TestAnEventHasItsOwnDecision(t *testing.T) {
	t.Parallel()
	d := open(t)
	require.Equal(t, http.StatusNoContent, d.report(said("shop-hold", `{"ads":"denied","by":"site"}`,
		tagged("Lead", "before", `,"consent":{"ads":"granted","by":"site"}`), tagged("Lead", "after"))).Code)
	for _, v := range d.views(t) {
		require.Equal(t, v.EventID == "before", v.State() == ledger.Waiting)
	}
}

// What comes with a refusal is one line in the book: also a purchase without its value.
func TestARefusalNeedsNothingButANameAndAnID(t *testing.T) {
	t.Parallel()
	d := open(t)
	require.Equal(t, http.StatusNoContent, d.report(said("shop-hold", `{"ads":"denied","by":"tcf"}`,
		fmt.Sprintf(`{"event_name":"Purchase","event_id":"order-1","at":%d}`, int64(now)*1000))).Code)
	b := d.book(t)
	require.EqualValues(t, 1, b.Received)
	require.Zero(t, b.Beside[ledger.Rejected])
	require.Equal(t, ledger.NoConsent, d.views(t)[0].Deliveries[0].Reason)
	// Who agrees later is heard: the id is free.
	require.Equal(t, http.StatusNoContent, d.report(said("shop-hold", granted, tagged("Purchase", "order-1", `,"custom_data":{"value":1,"currency":"EUR"}`))).Code)
	require.Equal(t, ledger.Waiting, d.views(t)[0].State())
}

func TestConsentThatTheWorkspaceRequires(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.one.ConsentRequired = true
	require.Equal(t, http.StatusNoContent, d.report(said("shop-send", `{"ads":"","by":"none"}`, tagged("Lead", "none"))).Code)
	require.Equal(t, http.StatusNoContent, d.report(said("shop-plain", `{"ads":"","by":"plain"}`, tagged("Lead", "plain"))).Code)
	require.Equal(t, http.StatusNoContent, d.report(said("shop-send", granted, tagged("Lead", "granted"))).Code)
	for _, v := range d.views(t) {
		require.Equal(t, v.EventID == "granted", v.State() == ledger.Waiting, v.EventID)
	}
}

func TestAPlainEventHasNothingThatIdentifies(t *testing.T) {
	t.Parallel()
	d := open(t)
	require.Equal(t, http.StatusNoContent, d.report(said("shop-plain", `{"ads":"","by":"plain"}`, tagged("Lead", "1",
		`,"referrer_url":"https://x.example.org/","custom_data":{"content_name":"Roof"},"user_data":{"em":"jane@example.com","external_id":"u-1","fbp":"fb.1.1759270000000.1","fbc":"fb.1.1759270000000.AbC"}`)),
		"Cookie", "_fbi=2a00::1").Code)
	p := d.payloads(t)["1"]
	require.Equal(t, "https://shop.example.com/p", p["event_source_url"])
	require.NotContains(t, p, "referrer_url")
	require.Equal(t, map[string]any{"client_ip_address": "192.0.2.1", "client_user_agent": browserAgent}, user(p))
	require.Equal(t, map[string]any{"content_name": "Roof"}, p["custom_data"])
}

func TestLimitedDataUse(t *testing.T) { // C220
	t.Parallel()
	for name, c := range map[string]struct {
		consent, more, header string
		want                  []any // country, state; nil: no limit
	}{
		"nothing asked for":               {granted, "", "", nil},
		"the page asks":                   {granted, `,"ldu":{"country":1,"state":1000}`, "", []any{1.0, 1000.0}},
		"zeros stay":                      {granted, `,"ldu":{"country":0,"state":0}`, "", []any{0.0, 0.0}},
		"the browser asks by its header":  {granted, "", "1", []any{0.0, 0.0}},
		"the browser asks by its script":  {`{"ads":"granted","by":"gcm","gpc":true}`, "", "", []any{0.0, 0.0}},
		"the page knows the state":        {`{"ads":"granted","by":"gcm","gpc":true}`, `,"ldu":{"country":1,"state":1001}`, "1", []any{1.0, 1001.0}},
		"a later word to the site counts": {`{"ads":"granted","by":"site","gpc":true}`, "", "1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			require.Equal(t, http.StatusNoContent, d.report(said("shop-hold", c.consent, tagged("Lead", "1", c.more)), "Sec-GPC", c.header).Code)
			p := d.payloads(t)["1"]
			if c.want == nil {
				require.NotContains(t, p, "data_processing_options")
				return
			}
			require.Equal(t, []any{"LDU"}, p["data_processing_options"])
			require.Equal(t, c.want, []any{p["data_processing_options_country"], p["data_processing_options_state"]})
			require.NotEmpty(t, user(p)["client_ip_address"])
		})
	}
	// A refusal under European law is no limit, but the end.
	d := open(t)
	require.Equal(t, http.StatusNoContent, d.report(said("shop-hold", `{"ads":"denied","by":"tcf","gpc":true}`, tagged("Lead", "1", `,"ldu":{"country":1,"state":1000}`)), "Sec-GPC", "1").Code)
	require.Nil(t, d.payloads(t)["1"])
}

func TestTheTagsClockIsSetRight(t *testing.T) {
	t.Parallel()
	d := open(t)
	at := func(ms int64) string { return fmt.Sprintf(`{"event_name":"Lead","event_id":"%d","at":%d}`, ms, ms) }
	for _, offset := range []int64{0, 3_600_000, -86_400_000 * 365 * 30} { // right, an hour ahead, long ago
		sent := int64(now)*1000 + offset
		body := fmt.Sprintf(`{"v":1,"site":"shop-hold","sent":%d,"consent":%s,"events":[%s,%s,%s]}`, sent, granted, at(sent-5000), at(sent-90_000_000), at(sent+60_000))
		require.Equal(t, http.StatusNoContent, d.report(body).Code)
		all := d.payloads(t)
		for ms, want := range map[int64]int{sent - 5000: now - 5, sent - 90_000_000: now - 90_000, sent + 60_000: now} { // the last: set back in between
			require.InDelta(t, float64(want), all[strconv.FormatInt(ms, 10)]["event_time"], slack.Seconds())
		}
	}
}

func TestAnEventThatWaitedTooLongExpires(t *testing.T) {
	t.Parallel()
	d := open(t)
	old := int64(now)*1000 - 8*86_400_000
	require.Equal(t, http.StatusNoContent, d.report(said("shop-hold", granted,
		fmt.Sprintf(`{"event_name":"Lead","event_id":"old","at":%d,"user_data":{"em":"jane@example.com"}}`, old),
		`{"event_name":"Lead","event_id":"mad","at":-5e300}`, `{"event_name":"Lead","event_id":"none"}`, `{"event_name":"Lead","event_id":"first","at":1}`)).Code)
	for _, v := range d.views(t) {
		expired := v.EventID == "old" || v.EventID == "first"
		require.Equal(t, expired, v.State() == ledger.Failed, v.EventID)
		if expired {
			require.Equal(t, ledger.Expired, v.Deliveries[0].Reason)
			require.Nil(t, v.Deliveries[0].Payload)
		}
	}
	require.EqualValues(t, 4, d.book(t).Received)
}

func TestCrawlersAreFilteredEverywhere(t *testing.T) { // C116
	t.Parallel()
	d := open(t)
	require.Equal(t, http.StatusNoContent, d.report(said("shop-hold", granted, tagged("PageView", "tag")), "User-Agent", "facebookexternalhit/1.1").Code)
	api := strings.Replace(lead("api"), "Mozilla/5.0", "meta-externalagent/1.1", 1)
	require.Equal(t, "skipped", d.post(t, api).at("events", 0, "state"))
	require.Equal(t, http.StatusOK, d.graph(t, `{"data":[`+strings.Replace(lead("graph"), "Mozilla/5.0", "Googlebot/2.1", 1)+`]}`).Code)
	views := d.views(t)
	require.Len(t, views, 3)
	for _, v := range views {
		require.Equal(t, ledger.Crawler, v.Deliveries[0].Reason, v.EventID)
		require.Nil(t, v.Deliveries[0].Payload)
	}
	offline := strings.Replace(strings.Replace(lead("shop"), "Mozilla/5.0", "Googlebot/2.1", 1), `"website"`, `"system_generated"`, 1)
	require.Equal(t, "waiting", d.post(t, offline).at("events", 0, "state"), "only a look at a page is a crawler's")
	app := strings.Replace(lead("app"), "Mozilla/5.0", "Mozilla/5.0 (iPhone) AppleWebKit/605.1.15 Mobile/15E148 [FBAN/FBIOS;FBAV/1]", 1)
	require.Equal(t, "waiting", d.post(t, app).at("events", 0, "state"), "a browser inside of an app is a person's")
	d.book(t)
}

// C100, C098, C094, C092, C091: a server that keeps no cookie makes fbc of the address.
func TestTheClickIDOfTheAddress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ query, want string }{
		"C098: index 1":                        {"fbclid=AbCdefghijk", fmt.Sprintf("fb.1.%d.AbCdefghijk", int64(now)*1000-2000)},
		"C091, C100: a whole cookie is opened": {"fbclid=fb.1.1750000000000.AbCdefghijk", fmt.Sprintf("fb.1.%d.AbCdefghijk", int64(now)*1000-2000)},
		"C092: a blank":                        {"fbclid=Ab%20Cd", ""},
		"C092: markup":                         {"fbclid=%3Cscript%3E", ""},
		"C092: a dot":                          {"fbclid=Ab.Cd", ""},
		"none":                                 {"x=1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			event := strings.Replace(tagged("Lead", "1"), "utm_source=x", c.query, 1)
			require.Equal(t, http.StatusNoContent, d.report(said("shop-hold", granted, event)).Code)
			p := d.payloads(t)["1"]
			require.NotNil(t, p, "the event goes in any case")
			if c.want == "" {
				require.NotContains(t, user(p), "fbc")
				return
			}
			require.Regexp(t, `^fb\.1\.\d{13}\.AbCdefghijk$`, user(p)["fbc"])
			require.InDelta(t, int64(now)*1000-2000, millisOf(t, user(p)["fbc"].(string)), float64(slack.Milliseconds()))
		})
	}
}

func millisOf(t *testing.T, cookie string) int64 {
	t.Helper()
	c, ok := capi.ParseCookie(cookie)
	require.True(t, ok)
	return c.Created.UnixMilli()
}

func TestCookiesAreSetWherePageAndServerShareTheirDomain(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *intake.Config) { c.TrustedProxies = prefixes("192.0.2.0/24") })
	const fbc, fbp = "fb.1.1759270000000.AbC.AQYCAQMB", "fb.1.1759270000000.123"
	report := func(site, consent, more, target string, headers ...string) []string {
		body := strings.Replace(said(site, consent, strings.Replace(tagged("Lead", strconv.FormatInt(time.Now().UnixNano(), 10)), "utm_source=x", "fbclid=NewClick", 1)), `"consent"`, more+`"consent"`, 1)
		a := d.call(http.MethodPost, target, strings.NewReader(body), append([]string{"Origin", origin, "User-Agent", browserAgent}, headers...)...)
		require.Equal(t, http.StatusNoContent, a.Code, a.Body.String())
		return a.Header().Values("Set-Cookie")
	}
	const ours = "https://signals.example.com/t"
	attributes := "; Path=/; Domain=example.com; Max-Age=7776000; Secure; SameSite=Lax"
	require.Equal(t, []string{"_fbc=" + fbc + attributes}, report("shop-hold", granted, `"fbc":"`+fbc+`","fbp":"`+fbp+`",`, ours), "an appendix stays")
	require.Equal(t, []string{"_fbc=" + fbc + attributes}, report("shop-hold", granted, "", ours, "Cookie", "_fbc="+fbc+"; _fbp="+fbp))
	made := report("shop-hold", granted, "", ours)
	require.Len(t, made, 1)
	require.Regexp(t, `^_fbc=fb\.1\.\d{13}\.NewClick; Path=/; Domain=example\.com; Max-Age=7776000; Secure; SameSite=Lax$`, made[0])
	require.Equal(t, []string{"_fbc=" + fbc + attributes, "_fbp=" + fbp + attributes}, report("shop-send", granted, `"fbc":"`+fbc+`","fbp":"`+fbp+`",`, ours))
	two := report("shop-send", `{"ads":"","by":"none"}`, `"fbc":"`+fbc+`",`, ours)
	require.Len(t, two, 2)
	require.Regexp(t, `^_fbp=fb\.1\.\d{13}\.\d+; Path=/`, two[1], "C103: a new _fbp is set, and no event had it")
	for _, p := range d.payloads(t) {
		require.NotContains(t, user(p), "fbp")
	}
	require.Len(t, report("shop-hold", granted, `"fbc":"`+fbc+`",`, "https://gate.example.net/t", "X-Forwarded-Host", "signals.example.com"), 1, "a trusted proxy tells the name")

	require.Empty(t, report("shop-hold", granted, `"fbc":"`+fbc+`",`, "https://gate.example.net/t"), "another domain")
	require.Empty(t, report("shop-hold", `{"ads":"denied","by":"tcf"}`, `"fbc":"`+fbc+`",`, ours))
	require.Empty(t, report("shop-hold", `{"ads":"","by":"none"}`, `"fbc":"`+fbc+`",`, ours))
	require.Empty(t, report("shop-plain", `{"ads":"","by":"plain"}`, `"fbc":"`+fbc+`",`, ours))
	require.Empty(t, report("shop-hold", granted, `"fbc":"fb.1.1759270000000.abc.helloabc",`, ours), "in doubt it is left alone")
	plain := report("shop-hold", granted, `"fbc":"`+fbc+`",`, "http://signals.example.com/t", "Origin", "http://plain.example.com")
	require.Equal(t, []string{"_fbc=" + fbc + "; Path=/; Domain=example.com; Max-Age=7776000; SameSite=Lax"}, plain, "a page by http could not read a Secure one")
}

func TestTheAddressInFBI(t *testing.T) {
	t.Parallel()
	d := open(t)
	require.Equal(t, http.StatusNoContent, d.report(said("shop-hold", granted, tagged("Lead", "1")), "Cookie", "_fbi=2a00:1450:4009:81d::200e.AQYCAQMB.AQYCAQMB").Code)
	require.Equal(t, "2a00:1450:4009:81d::200e.AQYCAQMB", user(d.payloads(t)["1"])["client_ip_address"])
}

func TestTheTagIsSlowedDownByItself(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *intake.Config) { c.TrustedProxies = prefixes("192.0.2.0/24") })
	refused := strings.TrimSuffix(strings.Repeat(`"no event",`, 200), ",")
	report := func(address string) int {
		a := d.report(said("shop-hold", granted, refused), "X-Forwarded-For", address)
		if a.Code == http.StatusTooManyRequests {
			require.NotEmpty(t, a.Header().Get("Retry-After"))
			require.Equal(t, origin, a.Header().Get("Access-Control-Allow-Origin"))
		}
		return a.Code
	}
	taken := 0
	for report("2a00::1") == http.StatusNoContent && taken < 100 {
		taken++
	}
	require.GreaterOrEqual(t, taken, 5)
	require.Less(t, taken, 100)
	// What came back in the meantime is not enough for three more of the same /64.
	require.Contains(t, []int{report("2a00::2"), report("2a00::3"), report("2a00::4")}, http.StatusTooManyRequests)
	require.Equal(t, http.StatusNoContent, report("2a00:0:0:1::1"))
	require.Equal(t, 303, d.call(http.MethodPost, hook("site"), strings.NewReader("email=a%40example.com"), "Origin", origin, "X-Forwarded-For", "2a00::2",
		"Content-Type", "application/x-www-form-urlencoded").Code, "forms have a limit of their own")
}

func TestTheTagComesBackWhenTheServerIsBusy(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *intake.Config) { c.Recorder = broken{err: store.ErrBusy} })
	a := d.report(said("shop-hold", granted, tagged("Lead", "1")))
	require.Equal(t, http.StatusServiceUnavailable, a.Code)
	require.NotEmpty(t, a.Header().Get("Retry-After"))
	require.Equal(t, "Retry-After", a.Header().Get("Access-Control-Expose-Headers"))
}

func TestSightingsAreKept(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "door.db")
	d := openOn(t, file)
	sighting := func(n string) string {
		return fmt.Sprintf(`{"n":%q,"pixel":"123456","event_name":"Lead","event_id":"e-1","at":%d,"url":"https://shop.example.com/u/jane@example.com/x?em=a","external_id":"U-1 ","own":true}`, n, int64(now)*1000-1000)
	}
	body := func(consent string, list ...string) string {
		return fmt.Sprintf(`{"v":1,"site":"shop-hold","sent":%d,"fbp":"fb.1.1759270000000.123.AQYCAQMB","consent":%s,"sightings":[%s]}`, int64(now)*1000, consent, strings.Join(list, ","))
	}
	require.Equal(t, http.StatusNoContent, d.report(body(granted, sighting("one"), `"none"`, `{"n":"","event_name":"x"}`)).Code)
	require.Equal(t, http.StatusNoContent, d.report(body(granted, sighting("one"), sighting("two"))).Code)
	require.Equal(t, http.StatusNoContent, d.report(body(`{"ads":"denied","by":"tcf"}`, sighting("three"))).Code)
	require.Equal(t, http.StatusNoContent, d.report(body(granted, sighting("four")), "User-Agent", "Googlebot/2.1").Code)

	db, err := sql.Open("sqlite", "file:"+file)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	var n int
	require.NoError(t, db.QueryRow(`SELECT COUNT(*) FROM sightings`).Scan(&n))
	require.Equal(t, 2, n, "each once; none of who refused, none of a crawler")
	prints := ledger.NewFingerprints([]byte(fingerprintKey))
	var g ledger.Sighting
	var at int64
	require.NoError(t, db.QueryRow(`SELECT source, dataset, name, event_id, page, at, fbp, visitor, external, own, blocked FROM sightings`).
		Scan(&g.Source, &g.Dataset, &g.Name, &g.EventID, &g.Page, &at, &g.FBP, &g.Visitor, &g.External, &g.Own, &g.Blocked))
	require.Equal(t, []string{"web", "123456", "Lead", "e-1", "/u/-/x"}, []string{g.Source, g.Dataset, g.Name, g.EventID, g.Page})
	require.WithinDuration(t, time.Unix(now-1, 0), ledger.FromMicros(at), slack)
	require.Equal(t, prints.FBP("fb.1.1759270000000.123"), g.FBP)
	require.Equal(t, prints.Visitor("192.0.2.1", browserAgent), g.Visitor)
	require.True(t, g.Own)
	require.False(t, g.Blocked)

	require.Equal(t, http.StatusNoContent, d.report(said("shop-hold", granted, tagged("Lead", "e-1", `,"user_data":{"external_id":"U-1 "}`))).Code)
	sent := user(d.payloads(t)["e-1"])["external_id"].([]any)[0].(string)
	require.Equal(t, prints.External(sent), g.External, "the same as of a payload")
}

func TestTheScriptComesWithItsSettings(t *testing.T) {
	t.Parallel()
	d := open(t)
	get := func(target string, headers ...string) answer { return d.call(http.MethodGet, target, nil, headers...) }
	a := get("https://signals.example.co.uk/t.js?site=shop-hold")
	require.Equal(t, http.StatusOK, a.Code)
	require.Equal(t, "text/javascript; charset=utf-8", a.Header().Get("Content-Type"))
	require.Equal(t, "public, max-age=600", a.Header().Get("Cache-Control"))
	line, rest, _ := strings.Cut(a.Body.String(), "\n")
	require.Equal(t, `self.__capiloop={"site":"shop-hold","wait":"hold","fbp":"read","domain":"example.co.uk","domains":["example.com"],"pageview":false,"pixel":true};`, line)
	require.NotEmpty(t, rest)
	etag := a.Header().Get("Etag")
	require.NotEmpty(t, etag)
	again := get("https://signals.example.co.uk/t.js?site=shop-hold", "If-None-Match", etag)
	require.Equal(t, http.StatusNotModified, again.Code)
	require.Empty(t, again.Body.String())
	require.NotEqual(t, etag, get("https://signals.example.com/t.js?site=shop-hold").Header().Get("Etag"))
	packed := get("/t.js?site=shop-hold", "Accept-Encoding", "gzip, br")
	require.Equal(t, "gzip", packed.Header().Get("Content-Encoding"))
	require.Equal(t, "\x1f\x8b", packed.Body.String()[:2])

	line, _, _ = strings.Cut(get("http://127.0.0.1:8080/t.js?site=shop-plain").Body.String(), "\n")
	require.Equal(t, `self.__capiloop={"site":"shop-plain","wait":"plain","fbp":"read","domain":"","domains":["example.com"],"pageview":true,"pixel":false};`, line)
	require.Contains(t, get("/t.js?site=shop-send").Body.String(), `"fbp":"create"`)

	for _, target := range []string{"/t.js", "/t.js?site=", "/t.js?site=nobody"} {
		a = get(target)
		require.Equal(t, http.StatusNotFound, a.Code)
		require.Equal(t, "text/javascript; charset=utf-8", a.Header().Get("Content-Type"))
		require.Regexp(t, `^/\*.*capiloop sources.*\*/\n$`, a.Body.String())
		require.Equal(t, "no-store", a.Header().Get("Cache-Control"))
	}
	require.Equal(t, http.StatusOK, get("/t-tcf.js").Code)
	require.Equal(t, http.StatusOK, d.call(http.MethodHead, "/t.js?site=shop-hold", nil).Code)
}
