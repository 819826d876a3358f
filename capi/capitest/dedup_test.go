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

func TestDeduplication(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	type step struct {
		wait    time.Duration
		browser bool
		name    string // Lead unless said
		id      string
		person  string // fbp
	}
	server := func(wait time.Duration, id string) step { return step{wait: wait, id: id} }
	browser := func(wait time.Duration, id string) step { return step{wait: wait, id: id, browser: true} }
	cases := []struct {
		name  string
		steps []step
		want  string // of each step k kept, d dropped
		keep  bool   // KeepServerRepeats
	}{
		{"server twice", []step{server(0, "1"), server(hour, "1")}, "kd", false},
		{"server twice, kept", []step{server(0, "1"), server(hour, "1")}, "kk", true},
		{"after 48 hours", []step{server(0, "1"), server(48*hour-time.Second, "1"), server(time.Second, "1")}, "kdk", false},
		{"the window begins with the first", []step{server(0, "1"), server(47*hour, "1"), server(2*hour, "1")}, "kdk", false},
		{"other id", []step{server(0, "1"), server(0, "2")}, "kk", false},
		{"other name", []step{server(0, "1"), {id: "1", name: "Purchase"}}, "kk", false},
		{"no id", []step{server(0, ""), server(0, "")}, "kk", false},
		{"browser, then server", []step{browser(0, "1"), server(0, "1")}, "kd", false},
		{"server, then browser within 5 minutes", []step{server(0, "1"), browser(5*time.Minute, "1")}, "dk", false},
		{"server, then browser later", []step{server(0, "1"), browser(5*time.Minute+time.Second, "1")}, "kd", false},
		{"browser twice", []step{browser(0, "1"), browser(0, "1")}, "kd", false},
		{"server, browser, server", []step{server(0, "1"), browser(0, "1"), server(0, "1")}, "dkd", false},
		{"person: browser, then server", []step{{person: "p", browser: true}, {person: "p", wait: hour}}, "kd", false},
		{"person: server, then browser", []step{{person: "p"}, {person: "p", browser: true}}, "kk", false},
		{"person: server twice", []step{{person: "p"}, {person: "p"}}, "kk", false},
		{"person: browser twice", []step{{person: "p", browser: true}, {person: "p", browser: true}}, "kk", false},
		{"person: after 48 hours", []step{{person: "p", browser: true}, {person: "p", wait: 48 * hour}}, "kk", false},
		{"person with two ids", []step{{person: "p", browser: true, id: "1"}, {person: "p", id: "2"}}, "kk", false},
		{"person, id on one side", []step{{person: "p", browser: true}, {person: "p", id: "2"}}, "kd", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g, clk := newGraph(func(o *capitest.Options) { o.KeepServerRepeats = c.keep })
			for _, s := range c.steps {
				clk.advance(s.wait)
				if s.name == "" {
					s.name = "Lead"
				}
				if s.browser {
					g.Pixel(capitest.PixelEvent{Dataset: dataset, EventName: s.name, EventID: s.id, FBP: s.person})
					continue
				}
				e := strings.Replace(website(s.name, s.id), `"user_data":{`, `"user_data":{"fbp":"`+s.person+`",`, 1)
				require.Equal(t, 200, post(t, g, e).Status)
			}
			got := ""
			var gotSb69 strings.Builder
			for _, r := range g.Received() {
				gotSb69.WriteString(string(r.Outcome[0]))
				require.Equal(t, r.Outcome == capitest.Dropped, r.DuplicateOf != 0)
				require.NotEmpty(t, r.Reason)
			}
			got += gotSb69.String()
			require.Equal(t, c.want, got)
			require.Len(t, g.Kept(dataset), strings.Count(c.want, "k"))
			var kept uint64
			for _, d := range g.Summary().Datasets {
				kept += d.Kept
			}
			require.EqualValues(t, strings.Count(c.want, "k"), kept, "the summary follows a change of outcome")
		})
	}
}

func TestDeduplicationOfOtherSources(t *testing.T) {
	t.Parallel()
	shop := func(id, order, item string) string {
		return with(`{"em":"`+hash+`"}`, `"action_source":"physical_store","event_name":"Purchase","event_id":"`+id+`"`,
			`"custom_data":{"value":1,"currency":"EUR","order_id":"`+order+`","item_number":"`+item+`"}`)
	}
	chat := with(`{"ctwa_clid":"c"}`, `"action_source":"business_messaging","event_name":"LeadSubmitted"`)
	install := func(id string) string {
		return with(`{"madid":"m"}`, `"action_source":"app","event_name":"MobileAppInstall","event_id":"`+id+`"`,
			`"app_data":{"extinfo":["a2","","","","14","","","","","","","","","","",""]}`)
	}
	for name, c := range map[string]struct {
		events []string
		wait   time.Duration
		want   string
	}{
		"offline, same order and item":    {[]string{shop("1", "o", "1"), shop("2", "o", "1")}, 0, "kd"},
		"offline, other item":             {[]string{shop("1", "o", "1"), shop("1", "o", "2")}, 0, "kk"},
		"offline, same person":            {[]string{shop("1", "", ""), shop("2", "", "")}, 0, "kd"},
		"offline, after 7 days":           {[]string{shop("1", "o", "1"), shop("2", "o", "1")}, 7 * 24 * time.Hour, "kk"},
		"messaging is never deduplicated": {[]string{chat, chat}, 0, "kk"},
		"one install":                     {[]string{install("1"), install("2")}, 6 * 24 * time.Hour, "kd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, clk := newGraph()
			got := ""
			for _, e := range c.events {
				require.Equal(t, 200, post(t, g, e).Status)
				clk.advance(c.wait)
			}
			var gotSb116 strings.Builder
			for _, r := range g.Received() {
				gotSb116.WriteString(string(r.Outcome[0]))
			}
			got += gotSb116.String()
			require.Equal(t, c.want, got)
		})
	}
}

func TestCRMEvents(t *testing.T) {
	t.Parallel()
	g, _ := newGraph()
	g.AddLead(capitest.Lead{ID: "1234567890123456", Created: time.Unix(now-100, 0)})
	crm := func(id string, seconds int, custom string) string {
		return with(`{"lead_id":"1234567890123456"}`, fmt.Sprintf(`"event_id":"%s","event_time":%d`, id, now-seconds), `"action_source":"system_generated"`, custom)
	}
	require.Equal(t, 200, post(t, g,
		crm("1", 50, `"custom_data":{"event_source":"crm","lead_event_source":"HubSpot"}`),
		crm("2", 100, `"custom_data":{"event_source":"crm"}`),
		crm("3", 100, `"custom_data":null`),
		crm("4", 101, `"custom_data":{"event_source":"crm","lead_event_source":"HubSpot"}`),
		website("Lead", "5"),
	).Status)
	r := g.Received()
	require.Equal(t, capitest.ConversionLead, r[0].ConversionLead)
	require.Equal(t, "1234567890123456", r[0].LeadID)
	require.Equal(t, capitest.NotConversionLead, r[1].ConversionLead)
	require.Equal(t, capitest.Kept, r[1].Outcome)
	require.Contains(t, r[1].Reason, "not a conversion lead")
	require.Equal(t, capitest.NotConversionLead, r[2].ConversionLead)
	require.Equal(t, capitest.Discarded, r[3].Outcome)
	require.Equal(t, capitest.NotCRM, r[4].ConversionLead)
	require.Len(t, g.Kept(dataset), 4)
	require.EqualValues(t, 1, g.Summary().Datasets[0].ConversionLeads)
}

func TestLedger(t *testing.T) {
	t.Parallel()
	g, _ := newGraph(func(o *capitest.Options) { o.KeepRecords, o.KeepPayloads = 1, 3 })
	for i := range 9000 {
		require.Equal(t, 200, post(t, g, website("Lead", strconv.Itoa(i))).Status)
	}
	require.Equal(t, 200, post(t, g, website("Lead", "5"), website("Lead", "8999")).Status)
	require.Equal(t, 2, g.Times(dataset, "Lead", "5"), "counted although the record is gone")
	require.Equal(t, 1, g.Times(dataset, "Lead", "6"))
	require.Equal(t, 0, g.Times("other", "Lead", "6"))
	require.Equal(t, 9000, g.Distinct())
	require.Equal(t, []capitest.Repeat{
		{Dataset: dataset, EventName: "Lead", EventID: "5", Times: 2},
		{Dataset: dataset, EventName: "Lead", EventID: "8999", Times: 2},
	}, g.Twice())
	r := g.Received()
	require.Less(t, len(r), 5000, "old records were let go")
	require.EqualValues(t, 9002, g.Summary().Datasets[0].Received)
	for i, v := range r {
		require.Equal(t, i >= len(r)-3, v.Payload != nil)
	}
	require.Contains(t, string(r[len(r)-1].Payload), `"event_id":"8999"`)
}

func TestSecondIDs(t *testing.T) {
	t.Parallel()
	g, _ := newGraph()
	order := func(id, order string) string {
		return with(`{"em":"`+hash+`"}`, `"event_id":"`+id+`","event_name":"Purchase","custom_data":{"value":1,"currency":"EUR","order_id":"`+order+`"}`)
	}
	require.Equal(t, 200, post(t, g, order("a", "1"), order("b", "1"), order("b", "1"), order("c", "2")).Status)
	require.Equal(t, []capitest.SecondID{{Dataset: dataset, EventName: "Purchase", Thing: "order 1", EventIDs: []string{"a", "b"}}}, g.SecondIDs())
}

func TestTestEventsCount(t *testing.T) {
	t.Parallel()
	g, _ := newGraph()
	e := strings.ReplaceAll(website("Lead", "1"), "@", strconv.Itoa(now))
	require.Equal(t, 200, call(t, g, "POST", "/v25.0/1/events", `{"data":[`+e+`],"test_event_code":"TEST1","partner_agent":"pa"}`).Status)
	r := g.Kept("1")
	require.Len(t, r, 1)
	require.Equal(t, "TEST1", r[0].TestEventCode)
	require.Equal(t, "pa", r[0].PartnerAgent)
	require.Equal(t, "v25.0", r[0].Version)
	require.Equal(t, "1", r[0].Value.String())
	require.Equal(t, "USD", r[0].Currency)
	require.Equal(t, []string{"em", "client_user_agent"}, r[0].Keys)
	g.Reset()
	require.Empty(t, g.Received())
	require.Zero(t, g.Requests().Count)
}
