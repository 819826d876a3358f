package capitest_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

// with builds an event from its user_data and other members; defaults are filled in.
func with(user string, members ...string) string {
	rest := strings.Join(members, ",")
	for name, usual := range map[string]string{"event_name": `"Lead"`, "event_time": "@", "event_id": `"e1"`, "action_source": `"other"`} {
		if !strings.Contains(rest, `"`+name+`"`) {
			rest += `,"` + name + `":` + usual
		}
	}
	return `{"user_data":` + user + `,` + strings.TrimPrefix(rest, ",") + `}`
}

func ago(d time.Duration) string { return fmt.Sprintf(`"event_time":%d`, now-int64(d/time.Second)) }

// Parts of the events in ruleCases.
const day = 24 * time.Hour

var (
	onlyEmail     = `{"em":"` + hash + `"}`
	onlyLead      = `{"lead_id":1234567890123456}`
	app, msg, buy = `"action_source":"app"`, `"action_source":"business_messaging"`, `"event_name":"Purchase"`
)

func extinfo(first, version string, n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = `""`
	}
	list[0], list[4] = `"`+first+`"`, `"`+version+`"`
	return `"app_data":{"advertiser_tracking_enabled":1,"extinfo":[` + strings.Join(list, ",") + `]}`
}

// ruleCases has the rules in the order in which they are checked.
var ruleCases = []struct {
	name  string
	event string
	want  string // code/subcode, "" for accepted
	warn  string // a warning that must be there
}{
	{"plain", with(onlyEmail), "", ""},
	{"4 event is no object", `7`, "100/0", ""},
	{"4 event is text that is no JSON", `"{"`, "100/0", ""},
	{"4 no event_name", with(onlyEmail, `"event_name":""`), "100/0", ""},
	{"4 event_name is a number", with(onlyEmail, `"event_name":5`), "100/0", ""},
	{"4 no event_time", with(onlyEmail, `"event_time":null`), "100/0", ""},
	{"4 event_time as text", with(onlyEmail, `"event_time":"1796000000"`), "100/0", ""},
	{"4 event_time in milliseconds", with(onlyEmail, `"event_time":1796000000000`), "100/0", ""},
	{"4 event_time with a fraction", with(onlyEmail, `"event_time":1796000000.5`), "100/0", ""},
	{"no event_id", with(onlyEmail, `"event_id":null`), "", "event_id is missing"},

	{"5 seven days", with(onlyEmail, ago(7*day)), "", ""},
	{"5 older", with(onlyEmail, ago(7*day+time.Second)), "100/2804003", ""},
	{"5 physical store, 62 days", with(onlyEmail, ago(62*day), `"action_source":"physical_store"`), "", ""},
	{"5 physical store, older", with(onlyEmail, ago(62*day+time.Second), `"action_source":"physical_store"`), "100/2804003", ""},
	{"5 before 7", with(`{"client_user_agent":"x"}`, ago(8*day)), "100/2804003", ""},
	{"6 60 s ahead", with(onlyEmail, ago(-time.Minute)), "", ""},
	{"6 further ahead", with(onlyEmail, ago(-61*time.Second)), "", "future"},

	{"7 nothing", with(`{}`), "100/2804050", ""},
	{"7 null", with(`null`), "100/2804050", ""},
	{"7 list", with(`[]`), "100/2804050", ""},
	{"7 empty values", with(`{"em":[],"ph":null,"fbp":""}`), "100/2804050", ""},
	{"7 agent alone", with(`{"client_user_agent":"x"}`), "100/2804050", ""},
	{"7 place, gender and agent", with(`{"ct":"H","country":"H","st":"H","zp":"H","ge":"H","client_user_agent":"x"}`), "100/2804050", ""},
	{"7 birth and agent", with(`{"db":"H","client_user_agent":"x"}`), "100/2804050", ""},
	{"7 first name and gender", with(`{"fn":"H","ge":"H"}`), "100/2804050", ""},
	{"7 last name and gender", with(`{"ln":"H","ge":"H"}`), "100/2804050", ""},
	{"7 unknown keys", with(`{"email":"H"}`), "100/2804050", ""},
	{"7 agent and address", with(`{"client_user_agent":"x","client_ip_address":"203.0.113.9"}`), "", ""},
	{"7 both names", with(`{"fn":"H","ln":"H"}`), "", ""},
	{"7 birth and gender", with(`{"db":"H","ge":"H"}`), "", ""},
	{"7 fbp alone", with(`{"fbp":"fb.1.1796000000000.1"}`), "", ""},
	{"7 external_id alone, in clear", with(`{"external_id":["cust-42"]}`), "", ""},

	{"8 clear text", with(`{"em":"john@example.com"}`), "100/2804016", ""},
	{"8 one of a list", with(`{"em":["H","john@example.com"]}`), "100/2804016", ""},
	{"8 empty text", with(`{"em":"","fbp":"fb.1.1.1"}`), "100/2804016", ""},
	{"8 null in a list", with(`{"ph":["H",null]}`), "100/2804016", ""},
	{"8 object", with(`{"ph":{"a":"H"}}`), "100/2804016", ""},
	{"8 one digit too few", with(`{"em":"` + hash[1:] + `"}`), "100/2804016", ""},
	{"8 base64", with(`{"em":"YqFOROf2QZ0Q/qmTZzYacnwSNl4lIPMiGNUF7Zqg9i8="}`), "100/2804016", ""},
	{"8 split name in clear", with(`{"f5first":"johnn","em":"H"}`), "100/2804016", ""},
	{"8 with appendix", with(`{"em":"H.AQQCAQMC","ph":["H.Ag"]}`), "", ""},
	{"8 with a wrong appendix", with(`{"em":"H.AQQ"}`), "100/2804016", ""},
	{"8 capitals", with(`{"em":"` + strings.ToUpper(hash) + `"}`), "", "capital"},
	{"8 MD5", with(`{"em":"` + hash[:32] + `"}`), "100/2804016", ""},
	{"8 hash of nothing", with(`{"em":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}`), "", "nothing at all"},

	{"9 without value", with(onlyEmail, buy), "100/2804009", ""},
	{"9 value null", with(onlyEmail, buy, `"custom_data":{"value":null,"currency":"USD"}`), "100/2804009", ""},
	{"9 without currency", with(onlyEmail, buy, `"custom_data":{"value":5}`), "100/0", ""},
	{"9 bad currency", with(onlyEmail, buy, `"custom_data":{"value":5,"currency":"EURO"}`), "100/0", ""},
	{"9 unknown currency", with(onlyEmail, buy, `"custom_data":{"value":5,"currency":"XXQ"}`), "100/0", ""},
	{"9 value no number", with(onlyEmail, buy, `"custom_data":{"value":"12,50","currency":"USD"}`), "100/0", ""},
	{"9 value as text, currency small", with(onlyEmail, buy, `"custom_data":{"value":"12.50","currency":"usd"}`), "", ""},
	{"9 zero", with(onlyEmail, buy, `"custom_data":{"value":0,"currency":"USD"}`), "", ""},
	{"9 negative", with(onlyEmail, buy, `"custom_data":{"value":-1,"currency":"USD"}`), "", "negative"},
	{"9 other event, bad currency", with(onlyEmail, `"custom_data":{"currency":"EURO"}`), "", "ISO 4217"},
	{"9 custom_data is a text", with(onlyEmail, `"custom_data":"x"`), "100/0", ""},

	{"10 website without agent", with(onlyEmail, `"action_source":"website","event_source_url":"https://example.com/"`), "", "client_user_agent"},
	{"10 website without address", with(onlyEmail, `"action_source":"website"`), "", "event_source_url"},
	{"10 no action_source", with(onlyEmail, `"action_source":null`), "", "action_source is missing"},
	{"11 unknown action_source", with(onlyEmail, `"action_source":"web"`), "100/0", ""},
	{"11 in capitals", with(onlyEmail, `"action_source":"WEBSITE"`), "100/0", ""},

	{"12 known lead", with(onlyLead), "", ""},
	{"12 known lead as text", with(`{"lead_id":"1234567890123456"}`), "", ""},
	{"12 unknown lead", with(`{"lead_id":1234567890123457}`), "100/2804036", ""},
	{"12 deleted lead", with(`{"lead_id":1234567890123450}`), "100/2804036", ""},
	{"12 14 digits", with(`{"lead_id":12345678901234}`), "100/2804036", ""},
	{"12 18 digits", with(`{"lead_id":123456789012345678}`), "100/2804036", ""},
	{"12 as a float", with(`{"lead_id":1.234567890123456e15}`), "100/2804036", ""},

	{"15 Lead", with(`{"ctwa_clid":"c","page_id":"1"}`, msg, `"messaging_channel":"whatsapp"`), "100/2804066", ""},
	{"15 LeadSubmitted", with(`{"ctwa_clid":"c","page_id":"1"}`, msg, `"messaging_channel":"whatsapp","event_name":"LeadSubmitted"`), "", ""},
	{"15 no ctwa_clid", with(`{"page_id":"1"}`, msg, `"event_name":"LeadSubmitted"`), "100/2804087", ""},
	{"15 messenger", with(`{"page_id":"1","page_scoped_user_id":"2"}`, msg, `"messaging_channel":"messenger","event_name":"LeadSubmitted"`), "", ""},
	{"15 unknown channel", with(onlyEmail, msg, `"messaging_channel":"sms","event_name":"LeadSubmitted"`), "100/0", ""},

	{"16 complete", with(onlyEmail, app, extinfo("a2", "14", 16)), "", ""},
	{"16 15 places", with(onlyEmail, app, extinfo("i2", "14", 15)), "100/2804043", ""},
	{"16 17 places", with(onlyEmail, app, extinfo("i2", "14", 17)), "100/2804043", ""},
	{"16 unknown platform", with(onlyEmail, app, extinfo("w2", "14", 16)), "100/2804043", ""},
	{"16 no version", with(onlyEmail, app, extinfo("i2", "", 16)), "100/2804043", ""},
	{"16 no app_data", with(onlyEmail, app), "100/2804043", ""},
	{"16 no tracking flag", with(onlyEmail, app, strings.Replace(extinfo("a2", "14", 16), "advertiser_", "x_", 1)), "", "advertiser_tracking"},
}

func TestRules(t *testing.T) {
	t.Parallel()
	for _, c := range ruleCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g, _ := newGraph()
			g.AddLead(capitest.Lead{ID: "1234567890123456", Created: time.Unix(now-100, 0)})
			g.AddLead(capitest.Lead{ID: "1234567890123450"})
			require.True(t, g.DeleteLead("1234567890123450"))
			a := post(t, g, strings.ReplaceAll(c.event, `"H`, `"`+hash))
			if c.want != "" {
				require.Equal(t, c.want, a.code(), a.Body)
				require.Equal(t, 400, a.Status)
				require.Equal(t, "OAuthException", a.Error.Type)
				require.NotNil(t, a.Error.Transient)
				require.False(t, *a.Error.Transient)
				require.Len(t, a.Error.Trace, 23)
				require.Empty(t, g.Received())
				require.NotContains(t, a.Body, "john@example.com")
				if a.Error.Subcode != 0 {
					require.NotEmpty(t, a.Error.Title)
					require.NotEmpty(t, a.Error.User)
				}
				return
			}
			require.Equal(t, 200, a.Status, a.Body)
			require.Len(t, g.Received(), 1)
			if c.warn != "" {
				require.Contains(t, strings.Join(g.Received()[0].Warnings, "; "), c.warn)
			} else {
				require.Empty(t, g.Received()[0].Warnings)
			}
		})
	}
}

func TestSwitches(t *testing.T) {
	t.Parallel()
	em := `{"em":"` + hash + `"}`
	cases := []struct {
		name   string
		change func(*capitest.Options)
		event  string
		want   string
	}{
		{"future", func(o *capitest.Options) { o.Rules.FutureTime = capitest.Reject }, with(em, ago(-61*time.Second)), "100/0"},
		{"future tolerance", func(o *capitest.Options) {
			o.Rules.FutureTime, o.FutureTolerance = capitest.Reject, time.Hour
		}, with(em, ago(-time.Hour)), "0/0"},
		{"capitals", func(o *capitest.Options) { o.Rules.UpperCaseHash = capitest.Reject }, with(`{"em":"` + strings.ToUpper(hash) + `"}`), "100/2804016"},
		{"MD5", func(o *capitest.Options) { o.Rules.MD5Hash = capitest.Warn }, with(`{"em":"` + hash[:32] + `"}`), "0/0"},
		{"strict source, no agent", func(o *capitest.Options) { o.StrictSource = true }, with(em, `"action_source":"website","event_source_url":"u"`), "100/0"},
		{
			"strict source, no address", func(o *capitest.Options) { o.StrictSource = true },
			with(`{"client_user_agent":"x","em":"`+hash+`"}`, `"action_source":"website"`), "100/0",
		},
		{"strict source, none", func(o *capitest.Options) { o.StrictSource = true }, with(em, `"action_source":null`), "100/0"},
		{"lead alone", func(o *capitest.Options) { o.RefuseLeadIDAlone = true }, with(`{"lead_id":1234567890123456}`), "100/2804050"},
		{"unknown lead", func(o *capitest.Options) { o.Rules.UnknownLead = capitest.Warn }, with(`{"lead_id":1234567890123456}`), "0/0"},
		{"negative", func(o *capitest.Options) { o.Rules.NegativeValue = capitest.Reject }, with(em, `"custom_data":{"value":-1}`), "100/0"},
		{"Purchase", func(o *capitest.Options) { o.Rules.PurchaseValue = capitest.Warn }, with(em, `"event_name":"Purchase"`), "0/0"},
		{
			"messaging", func(o *capitest.Options) { o.Rules.MessagingName = capitest.Off },
			with(`{"ctwa_clid":"c"}`, `"action_source":"business_messaging"`), "0/0",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g, _ := newGraph(c.change)
			a := post(t, g, c.event)
			require.Equal(t, c.want, a.code(), a.Body)
		})
	}
}

func TestDataMissingEmptyOrTooLong(t *testing.T) {
	t.Parallel()
	many := func(n int) string {
		return `{"data":[` + strings.TrimSuffix(strings.Repeat(strings.ReplaceAll(website("Lead", "1"), "@", strconv.Itoa(now))+",", n), ",") + `]}`
	}
	for name, body := range map[string]string{
		"nothing": ``, "no data": `{}`, "null": `{"data":null}`, "empty": `{"data":[]}`, "object": `{"data":{}}`, "text": `{"data":"x"}`,
		"number": `{"data":5}`, "no JSON": `{"data":[`, "a list": `[]`, "1001 events": many(1001),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, _ := newGraph()
			a := call(t, g, "POST", "/"+dataset+"/events", body)
			require.Equal(t, "100/0", a.code(), a.Body)
			require.Equal(t, 400, a.Status)
			require.Empty(t, g.Received())
		})
	}
	g, _ := newGraph()
	a := call(t, g, "POST", "/"+dataset+"/events", many(1000))
	require.Equal(t, 1000, *a.Events)
	require.Equal(t, 1000, g.Requests().MaxEvents)

	small, _ := newGraph(func(o *capitest.Options) { o.MaxBody = 1000 })
	require.Equal(t, 413, call(t, small, "POST", "/"+dataset+"/events", many(10)).Status)
}

func TestOneBadEventRefusesAll(t *testing.T) {
	t.Parallel()
	g, _ := newGraph()
	a := post(t, g, website("Lead", "ok1"), with(`{"em":"`+hash+`"}`, ago(8*24*time.Hour)), website("Lead", "ok2"))
	require.Equal(t, "100/2804003", a.code())
	require.Empty(t, g.Received())
	require.Equal(t, map[string]int{"100/2804003": 1}, g.Requests().Refused)
	require.Zero(t, g.Times(dataset, "Lead", "ok1"))

	require.Equal(t, 200, post(t, g, website("Lead", "ok1"), website("Lead", "ok2")).Status)
	require.Equal(t, 1, g.Times(dataset, "Lead", "ok1"))
}

func TestAccess(t *testing.T) {
	t.Parallel()
	g, clk := newGraph(func(o *capitest.Options) {
		o.Tokens = map[string]capitest.Token{
			"all": {}, "one": {Datasets: []string{"1"}}, "old": {Expires: time.Unix(now-1, 0)}, "revoked": {Subcode: 460}, "send": {SendOnly: true},
		}
		o.Datasets = map[string]capitest.Dataset{"1": {}, "2": {}, "shared": {AccessExpires: time.Unix(now+60, 0)}}
	})
	body := `{"data":[` + strings.ReplaceAll(website("Lead", "1"), "@", strconv.Itoa(now)) + `]}`
	try := func(token, id string) answer {
		return call(t, g, "POST", "/v26.0/"+id+"/events", body, "Authorization", "Bearer "+token)
	}
	require.Equal(t, 200, try("all", "1").Status)
	require.Equal(t, 200, try("one", "1").Status)
	require.Equal(t, 200, try("send", "1").Status)
	for _, c := range []struct {
		token, id, want string
		status          int
		kind            string
	}{
		{"unheard-of", "1", "190/0", 401, "OAuthException"},
		{"old", "1", "190/463", 400, "OAuthException"},
		{"revoked", "1", "190/460", 400, "OAuthException"},
		{"one", "2", "100/33", 400, "GraphMethodException"},
		{"all", "3", "100/33", 400, "GraphMethodException"},
		{"", "1", "104/0", 400, "OAuthException"},
	} {
		a := try(c.token, c.id)
		require.Equal(t, c.want, a.code(), c)
		require.Equal(t, c.status, a.Status, c)
		require.Equal(t, c.kind, a.Error.Type, c)
		if c.token != "" {
			require.NotContains(t, a.Body, c.token+" ", "the token must not come back")
		}
		if c.want == "190/0" {
			require.Nil(t, a.Error.Transient)
			require.NotContains(t, a.Body, "error_subcode")
		}
	}
	require.Equal(t, 200, try("all", "shared").Status)
	clk.advance(time.Minute)
	require.Equal(t, "100/33", try("all", "shared").code())
	g.RemoveDataset("2")
	require.Equal(t, "100/33", try("all", "2").code())
	require.Equal(t, "10/0", call(t, g, "GET", "/1", "", "Authorization", "Bearer send").code())
}

func TestAnyTokenUnlessSaidOtherwise(t *testing.T) {
	t.Parallel()
	g, _ := newGraph()
	body := `{"data":[` + strings.ReplaceAll(website("Lead", "1"), "@", strconv.Itoa(now)) + `],"access_token":"in-body"}`
	require.Equal(t, 200, call(t, g, "POST", "/1/events", body, "Authorization", "").Status)
	require.Equal(t, 200, call(t, g, "POST", "/1/events?access_token=in-query", strings.Replace(body, "access_token", "x", 1), "Authorization", "").Status)
	require.Equal(t, "190/0", call(t, g, "POST", "/1/events", body, "Authorization", "Bearer bad").code())
	require.Equal(t, "190/463", call(t, g, "POST", "/1/events", body, "Authorization", "Bearer bad-463").code())
}

func TestAppSecretProof(t *testing.T) {
	t.Parallel()
	g, _ := newGraph(func(o *capitest.Options) { o.AppSecret = "test_app_secret" })
	const right = "73132d3f623ebc21abcb96fdf09ba23f45f71bc7c6c834bea84fb1c06aab0ace"
	require.Equal(t, right, capitest.Proof("test_app_secret", "SYNTHETICTOKEN"))
	event := strings.ReplaceAll(website("Lead", "1"), "@", strconv.Itoa(now))
	for proof, want := range map[string]string{right: "0/0", "": "104/0", "00": "104/0"} {
		a := call(t, g, "POST", "/1/events", `{"data":[`+event+`],"appsecret_proof":"`+proof+`"}`, "Authorization", "Bearer SYNTHETICTOKEN")
		require.Equal(t, want, a.code(), proof)
	}
}
