package pipedrive_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
	"github.com/capiloop/capiloop/internal/crm/pipedrive"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

const (
	temperature = "aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd" // one of several options
	interests   = "1111111111222222222233333333334444444444" // several of them
)

// watching is an account that watches fields of its deals.
func watching(fields ...string) crm.Account {
	a := hooked()
	a.Options = secret.NewOptions(
		map[string]string{"webhook_user": sender.User, "webhook_password": sender.Password, "lead_id_field": key}, map[string][]string{"watch": fields}, nil)
	return a
}

func TestAWatchedFieldIsToldLikeAStage(t *testing.T) {
	t.Parallel()
	for name, event := range map[string]string{"pipedrive-webhook-v2-deal-field": "00000000-0000-4000-8000-0000000000d6", "pipedrive-webhook-v1-deal-field": "77/1795338000000000"} {
		want := ledger.StageChange{
			Key: event + "/" + temperature + "/29", Thin: true, Records: []string{"deal:77", "person:11"}, LeadID: "987650000012345", Pipeline: "1", DealID: "77", Amount: "1500.5",
			Currency: "USD", By: "1", Field: temperature, Stage: "29", From: "28", At: time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC),
		}
		if strings.Contains(name, "v2") {
			want.CreatedAt, want.At = time.Date(2026, 11, 18, 11, 6, 42, 0, time.UTC), want.At.Add(500*time.Millisecond)
		}
		more := want
		more.Key, more.Field, more.Stage, more.From = event+"/"+interests+"/32", interests, "32", "31"
		require.Equal(t, []ledger.StageChange{want, more}, receive(watching(temperature, interests, "status"), sample(t, name)).Changes, name)
		require.Empty(t, receive(watching("title", key), sample(t, name)).Changes, "these did not change")
		require.Empty(t, receive(watching(), sample(t, name)).Changes, "nobody asked")
	}
}

func TestWatchedValues(t *testing.T) {
	t.Parallel()
	v2 := func(action, data, previous string) string {
		return `{"meta":{"action":"` + action + `","entity":"deal","id":"e1","timestamp":"2026-11-20T09:00:00Z"},"data":{"id":77,"add_time":"2026-11-18T11:06:42Z",` + data + `},"previous":` + previous + `}`
	}
	v1 := func(event, now, before string) string {
		return `{"v":1,"event":"` + event + `","meta":{"id":77,"timestamp":1795172000},"current":{"id":77,` + now + `},"previous":{"id":77,` + before + `}}`
	}
	own := func(value string) string { return `"custom_fields":{"` + temperature + `":` + value + `}` }
	for name, c := range map[string]struct {
		body string
		want string // value@day of each change
	}{
		"text":                       {v2("change", own(`{"type":"varchar","value":" Hot, now "}`), `{`+own(`null`)+`}`), "Hot, now@20"},
		"number with commas in text": {v2("change", own(`{"type":"varchar","value":"1,500"}`), `{`+own(`null`)+`}`), "1,500@20"},
		"money":                      {v2("change", own(`{"type":"monetary","value":1500.50,"currency":"USD"}`), `{`+own(`{"type":"monetary","value":1,"currency":"USD"}`)+`}`), "1500.50@20"},
		"a bare id":                  {v2("change", own(`29`), `{`+own(`28`)+`}`), "29@20"},
		"a list":                     {v2("change", own(`[29,{"id":30},29]`), `{`+own(`[28]`)+`}`), "29@20 30@20"},
		"emptied":                    {v2("change", own(`null`), `{`+own(`{"type":"enum","id":28}`)+`}`), ""},
		"an option less":             {v2("change", own(`{"type":"set","values":[{"id":28}]}`), `{`+own(`{"type":"set","values":[{"id":28},{"id":29}]}`)+`}`), ""},
		"stood there before":         {v2("change", own(`{"type":"enum","id":29}`), `{"value":1}`), ""},
		"another field changed":      {v2("change", own(`{"type":"enum","id":29}`), `{"custom_fields":{"`+interests+`":null}}`), ""},
		"nothing before":             {v2("change", own(`{"type":"enum","id":29}`), `null`), ""},
		"no previous":                {`{"meta":{"action":"change","entity":"deal","id":"e1"},"data":{"id":77,` + own(`29`) + `}}`, ""},
		"the same":                   {v2("change", own(`{"type":"enum","id":29}`), `{`+own(`{"type":"enum","id":29}`)+`}`), ""},
		"created with it":            {v2("create", own(`{"type":"enum","id":29}`), `null`), "29@18"},
		"too long":                   {v2("create", own(`"`+strings.Repeat("x", 501)+`"`), `null`), ""},
		"too deep":                   {v2("create", own(strings.Repeat("[", 9)+`1`+strings.Repeat("]", 9)), `null`), ""},
		"odd":                        {v2("create", own(`{"value":{"a":1},"values":3}`), `null`), ""},
		"a deal's own field":         {v2("change", `"lost_reason":"Price"`, `{"lost_reason":null}`), "Price@20"},
		"a person's":                 {`{"meta":{"action":"change","entity":"person","id":"e1"},"data":{"id":77,"lost_reason":"Price"},"previous":{"lost_reason":null}}`, ""},
		"v1":                         {v1("updated.deal", `"`+temperature+`":"29"`, `"`+temperature+`":null`), "29@20"},
		"v1 new field":               {v1("updated.deal", `"`+temperature+`":"29"`, `"value":1`), "29@20"},
		"v1 the same":                {v1("updated.deal", `"`+temperature+`":"28,29"`, `"`+temperature+`":"29,28"`), ""},
		"v1 created":                 {v1("added.deal", `"`+temperature+`":"28,29"`, `"value":1`), "28@20 29@20"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := receive(watching(temperature, "lost_reason"), []byte(c.body))
			require.Equal(t, http.StatusOK, got.Answer.Status)
			var list []string
			for _, x := range got.Changes {
				list = append(list, x.Stage+"@"+x.At.Format("02"))
			}
			require.Equal(t, c.want, strings.Join(list, " "))
		})
	}
}

// The four attempts of one event are one change, and what changes again is another.
func TestAttemptsAreOneChangeOfAField(t *testing.T) {
	t.Parallel()
	keys := map[string]int{}
	for _, id := range []string{"e7", "e8"} {
		data := m{"id": 77, "custom_fields": m{temperature: m{"type": "enum", "id": 29}}}
		for _, hook := range sender.Requests(sender.Deal(id, time.Now(), data, m{"custom_fields": m{temperature: nil}})) {
			for _, c := range pipedrive.New().Receive(hook.Incoming(), watching(temperature), time.Now()).Changes {
				keys[c.Key]++
			}
		}
	}
	require.Equal(t, map[string]int{"e7/" + temperature + "/29": 4, "e8/" + temperature + "/29": 4}, keys)
}

// Hooks have an option's id only; people know it by its label.
func TestCompleteNamesTheOption(t *testing.T) {
	t.Parallel()
	c := enquiry(t)
	c.fields[temperature], c.options = "Temperature", map[string][]m{temperature: {{"id": 28, "label": "Cold"}, {"id": 29, "label": "Hot"}}}
	p, a := pipedrive.New(), asking(c.URL, map[string]string{"lead_id_field": key})
	label := func(field, value string) string {
		change := ledger.StageChange{Thin: true, Records: []string{"deal:77", "person:11"}, LeadID: "1", Amount: "1", Field: field, Stage: value}
		require.NoError(t, p.Complete(t.Context(), a, &change))
		require.Equal(t, value, change.Stage)
		require.False(t, change.Thin)
		require.Equal(t, "ana.lead@example.com", change.Contact.Email)
		return change.StageLabel
	}
	require.Equal(t, "Hot", label(temperature, "29"))
	require.Equal(t, "Cold", label(temperature, "28"))
	require.Empty(t, label(temperature, "30"), "an option that is gone")
	require.Empty(t, label("lost_reason", "Price"))
	require.Empty(t, label("status", "won"))
	require.Empty(t, label("", "3"))
	require.Len(t, c.Calls("GET /api/v1/dealFields"), 1, "the list is believed for a while")

	c.Next(1, crmtest.Broken, "GET /api/v1/dealFields")
	change := ledger.StageChange{Thin: true, Records: []string{"deal:77"}, Field: temperature, Stage: "29"}
	readError(t, pipedrive.New().Complete(t.Context(), a, &change), ledger.RetryAt{Reason: ledger.Backlog})
}

func TestCheckKnowsTheWatchedFields(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	a := asking(c.URL, nil)
	raw := map[string]string{"url": c.URL, "token": crmtest.Token, "allow_private": "true"}
	a.Options = secret.NewOptions(raw, map[string][]string{"watch": {"title", temperature}}, nil)
	var said []string
	for _, k := range pipedrive.New().Check(t.Context(), a, false) {
		if !k.OK {
			require.True(t, k.Warning)
			require.NotEmpty(t, k.NextStep)
			said = append(said, k.Name+": "+k.Sentence)
		}
	}
	require.Equal(t, []string{"watch: Pipedrive has no deal field " + temperature + ", so no rule for it ever holds."}, said)
}
