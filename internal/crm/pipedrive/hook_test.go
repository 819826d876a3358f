package pipedrive_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
	"github.com/capiloop/capiloop/internal/crm/pipedrive"
	"github.com/capiloop/capiloop/internal/ledger"
)

var sender = crmtest.PipedriveSender{User: "capiloop", Password: "made-up-hook-password", URL: "https://leads.example.com/hooks/pipedrive/8f3c"}

func hooked(more ...string) crm.Account {
	return crmtest.Account("pipedrive", "", append([]string{"webhook_user", sender.User, "webhook_password", sender.Password}, more...)...)
}

func receive(a crm.Account, body []byte) crm.Received {
	return pipedrive.New().Receive(sender.Request(json.RawMessage(body)).Incoming(), a, time.Now())
}

func TestHookSamples(t *testing.T) {
	t.Parallel()
	whole := ledger.StageChange{
		Thin: true, Records: []string{"deal:77", "person:11"}, LeadID: "987650000012345", CreatedAt: time.Date(2026, 11, 18, 11, 6, 42, 0, time.UTC), Pipeline: "1", Stage: "3", By: "1",
		DealID: "77", Amount: "1500.5", Currency: "USD",
	}
	moved, won, old := whole, whole, whole
	moved.Key, moved.At, moved.From = "00000000-0000-4000-8000-0000000000d1", time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC), "1"
	won.Key, won.At, won.From = "00000000-0000-4000-8000-0000000000d3/status", time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC), "open"
	won.Field, won.Stage, won.Meaning = "status", "won", ledger.MeaningWon
	old.Key, old.At, old.From, old.CreatedAt = "77/1795172000000000", moved.At, "1", time.Time{}
	for name, want := range map[string][]ledger.StageChange{
		"pipedrive-webhook-v2-deal-change":      {moved},
		"pipedrive-webhook-v2-deal-won":         {won},
		"pipedrive-webhook-v2-deal-amount-only": nil,
		"pipedrive-webhook-v2-deal-delete":      nil,
		"pipedrive-webhook-v1-deal-updated":     {old},
	} {
		got := receive(hooked("lead_id_field", key), sample(t, name))
		require.Equal(t, crm.Received{Changes: want, Answer: crm.Answer{Status: 200, Body: []byte{}}}, got, name)
	}
	require.Empty(t, receive(hooked(), sample(t, "pipedrive-webhook-v2-deal-change")).Changes[0].LeadID)
}

func TestUserAndPassword(t *testing.T) {
	t.Parallel()
	in := sender.Request(json.RawMessage(sample(t, "pipedrive-webhook-v2-deal-change"))).Incoming()
	for name, c := range map[string]struct {
		a      crm.Account
		header http.Header
		want   int
	}{
		"right":          {hooked(), in.Header, 200},
		"none":           {hooked(), http.Header{}, 401},
		"no basic":       {hooked(), http.Header{"Authorization": {"Bearer " + sender.Password}}, 401},
		"wrong password": {hooked("webhook_password", "made-up-other"), in.Header, 401},
		"wrong user":     {hooked("webhook_user", "other"), in.Header, 401},
		"no user":        {hooked("webhook_user", ""), in.Header, 401},
		"not asked for":  {crmtest.Account("pipedrive", ""), http.Header{}, 200}, // the address is secret
	} {
		req := in
		req.Header = c.header
		got := pipedrive.New().Receive(req, c.a, time.Now())
		require.Equal(t, c.want, got.Answer.Status, name)
		require.Equal(t, c.want == 200, len(got.Changes) == 1, name)
		crmtest.QuietText(t, string(got.Answer.Body))
	}
	in.Method = http.MethodGet
	require.Equal(t, http.StatusMethodNotAllowed, pipedrive.New().Receive(in, hooked(), time.Now()).Answer.Status)
	in.Method, in.Body = http.MethodPost, []byte(`{"meta":`)
	got := pipedrive.New().Receive(in, hooked(), time.Now())
	require.Equal(t, http.StatusBadRequest, got.Answer.Status)
	require.Empty(t, got.Changes)
}

func TestEvents(t *testing.T) {
	t.Parallel()
	v2 := func(action, data, previous string) string {
		return `{"meta":{"action":"` + action + `","entity":"deal","id":"e1","entity_id":"77","timestamp":"2026-11-20T09:00:00.5Z"},"data":` + data + `,"previous":` + previous + `}`
	}
	v1 := func(event, now, before string) string {
		return `{"v":1,"event":"` + event + `","meta":{"id":77,"timestamp":1795172000},"current":` + now + `,"previous":` + before + `}`
	}
	for name, c := range map[string]struct {
		body string
		want string // key field:stage@time of each change
	}{
		"created":            {v2("create", `{"id":77,"stage_id":1,"status":"open","add_time":"2026-11-18T11:06:42Z"}`, `null`), "e1 :1@18T11:06:42"},
		"created as won":     {v2("create", `{"id":77,"stage_id":1,"status":"won"}`, `null`), "e1 :1@20T09:00:00 e1/status status:won@20T09:00:00"},
		"stage and lost":     {v2("change", `{"id":"77","stage_id":"3","status":"lost","stage_change_time":"2026-11-19T00:00:00Z","lost_time":"2026-11-19T00:00:05Z"}`, `{"stage_id":1,"status":"open"}`), "e1 :3@19T00:00:00 e1/status status:lost@19T00:00:05"},
		"no time of stage":   {v2("change", `{"id":77,"stage_id":3,"status":"open","add_time":"2026-11-18T11:06:42Z"}`, `{"stage_id":1}`), "e1 :3@20T09:00:00"},
		"reopened":           {v2("change", `{"id":77,"stage_id":3,"status":"open"}`, `{"status":"won"}`), ""},
		"deleted status":     {v2("change", `{"id":77,"stage_id":3,"status":"deleted"}`, `{"status":"won"}`), ""},
		"same stage":         {v2("change", `{"id":77,"stage_id":3,"status":"won"}`, `{"stage_id":3}`), ""},
		"nothing before":     {v2("change", `{"id":77,"stage_id":3,"status":"won"}`, `null`), ""},
		"no id":              {v2("change", `{"id":"../77","stage_id":3}`, `{"stage_id":1}`), ""},
		"no stage":           {v2("change", `{"id":77,"stage_id":null,"status":"open"}`, `{"stage_id":1}`), ""},
		"odd custom fields":  {v2("change", `{"id":77,"stage_id":3,"custom_fields":[1]}`, `{"stage_id":1}`), "e1 :3@20T09:00:00"},
		"other record":       {`{"meta":{"action":"change","entity":"person","id":"e1"},"data":{"id":77,"stage_id":3},"previous":{"stage_id":1}}`, ""},
		"v1 added":           {v1("added.deal", `{"id":77,"stage_id":1,"status":"open","add_time":"2026-11-18 11:06:42"}`, `null`), "77/1795172000 :1@18T11:06:42"},
		"v1 won":             {v1("updated.deal", `{"id":77,"stage_id":1,"status":"won","won_time":"2026-11-19 00:00:00"}`, `{"id":77,"stage_id":1,"status":"open"}`), "77/1795172000/status status:won@19T00:00:00"},
		"v1 amount":          {v1("updated.deal", `{"id":77,"stage_id":1,"status":"won","value":2}`, `{"id":77,"stage_id":1,"status":"won","value":1}`), ""},
		"v1 without before":  {v1("updated.deal", `{"id":77,"stage_id":1,"status":"won"}`, `null`), ""},
		"v1 deleted":         {v1("deleted.deal", `null`, `{"id":77,"stage_id":1}`), ""},
		"v1 other":           {v1("updated.activity", `{"id":77,"stage_id":1}`, `{"id":77,"stage_id":2}`), ""},
		"v1 person in a box": {v1("updated.deal", `{"id":77,"stage_id":2,"person_id":{"value":11,"name":"Ana"}}`, `{"id":77,"stage_id":1}`), "77/1795172000 :2@20T10:53:20"},
		"array":              {`[]`, ""},
		"text":               {`"x"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := receive(hooked(), []byte(c.body))
			require.Equal(t, http.StatusOK, got.Answer.Status)
			var list []string
			for _, x := range got.Changes {
				require.Equal(t, "deal:77", x.Records[0])
				list = append(list, x.Key+" "+x.Field+":"+x.Stage+"@"+x.At.Format("02T15:04:05"))
			}
			require.Equal(t, c.want, strings.Join(list, " "))
		})
	}
}

func TestRecordsAndAmounts(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{`1500.5`: "1500.5 EUR", `1500.50`: "1500.50 EUR", `0`: "0 EUR", `-3`: "-3 EUR", `1e3`: "1000 EUR", `"12.30"`: "12.30 EUR", `null`: " EUR", `"x"`: " EUR"} {
		body := `{"meta":{"action":"change","entity":"deal","id":"e1"},"data":{"id":77,"stage_id":3,"person_id":11,"source_lead_id":"00000000-0000-11ed-8000-000000000001","value":` + value + `,"currency":"eur"},"previous":{"stage_id":1}}`
		c := receive(hooked(), []byte(body)).Changes[0]
		require.Equal(t, want, c.Amount+" "+c.Currency)
		require.Equal(t, []string{"deal:77", "lead:00000000-0000-11ed-8000-000000000001", "person:11"}, c.Records)
	}
}

func TestMerges(t *testing.T) {
	t.Parallel()
	at := time.Unix(1795172000, 0).UTC()
	for _, c := range []struct {
		body string
		want []ledger.Merge
	}{
		{`{"event":"merged.person","meta":{"id":11,"timestamp":1795172000},"current":{"id":11,"merge_what_id":12},"previous":{"id":12}}`, []ledger.Merge{{Kept: "person:11", Merged: []string{"person:12"}, At: at}}},
		{`{"meta":{"object":"deal","action":"merged","id":77,"timestamp":1795172000},"current":{"id":77,"stage_id":2},"previous":{"id":78,"stage_id":1}}`, []ledger.Merge{{Kept: "deal:77", Merged: []string{"deal:78"}, At: at}}},
		{`{"event":"merged.deal","meta":{"id":77,"timestamp":1795172000},"current":{"id":77},"previous":{"id":77}}`, nil},
		{`{"event":"merged.organization","meta":{"id":77},"current":{"id":77},"previous":{"id":78}}`, nil},
	} {
		got := receive(hooked(), []byte(c.body))
		require.Equal(t, c.want, got.Merges)
		require.Empty(t, got.Changes)
	}
}

// The four attempts of one event, which differ in meta.attempt, are one move.
func TestAttemptsAreOneMove(t *testing.T) {
	t.Parallel()
	data := m{"id": 77, "stage_id": 3, "pipeline_id": 1, "person_id": 11, "status": "won", "value": 1, "currency": "USD"}
	keys := map[string]int{}
	for _, hook := range sender.Requests(sender.Deal("e7", time.Now(), data, m{"stage_id": 1, "status": "open"})) {
		for _, c := range pipedrive.New().Receive(hook.Incoming(), hooked(), time.Now()).Changes {
			keys[c.Key]++
		}
	}
	require.Equal(t, map[string]int{"e7": 4, "e7/status": 4}, keys)
}

func FuzzReceive(f *testing.F) {
	for _, name := range []string{"v2-deal-change", "v2-deal-won", "v2-deal-amount-only", "v2-deal-delete", "v1-deal-updated", "v2-deal-field", "v1-deal-field"} {
		f.Add(sample(f, "pipedrive-webhook-"+name))
	}
	f.Add([]byte(`{"event":"merged.person","current":{"id":11,"merge_what_id":12},"previous":{"id":{"value":{"value":[]}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		in := crm.Incoming{Method: "POST", URL: sender.URL, Header: sender.Request(nil).Header, Body: body}
		got := pipedrive.New().Receive(in, hooked("lead_id_field", key), time.Now())
		require.Contains(t, []int{200, 400}, got.Answer.Status)
		require.LessOrEqual(t, len(got.Changes), 2)
		got.Changes = append(got.Changes, pipedrive.New().Receive(in, watching(temperature, interests), time.Now()).Changes...)
		for _, c := range got.Changes {
			require.Regexp(t, `^deal:[0-9]{1,20}$`, c.Records[0])
			require.NotEmpty(t, c.Key)
			require.NotEmpty(t, c.Stage)
			require.Regexp(t, `^[-+0-9.]*$`, c.Amount)
		}
		in.Header = http.Header{}
		got = pipedrive.New().Receive(in, hooked(), time.Now())
		require.Equal(t, 401, got.Answer.Status)
		require.Empty(t, got.Changes)
	})
}
