package webhook_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
	"github.com/capiloop/capiloop/internal/crm/webhook"
)

var hookNow = time.Unix(1795000000, 0).UTC()

func sample(tb testing.TB, name string) []byte {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(tb, err)
	return raw
}

// post is an unsigned request.
func post(body string) crm.Incoming {
	return crm.Incoming{Method: http.MethodPost, Header: http.Header{}, Body: []byte(body)}
}

// signed is a request as a sender of Standard Webhooks makes it.
func signed(tb testing.TB, body, secrets string, at time.Time) crm.Incoming {
	tb.Helper()
	const id = "m1"
	r, stamp := post(body), strconv.FormatInt(at.Unix(), 10)
	signature, err := webhook.Sign(secrets, id, stamp, r.Body)
	require.NoError(tb, err)
	r.Header.Set("webhook-id", id)
	r.Header.Set("webhook-timestamp", stamp)
	r.Header.Set("webhook-signature", signature)
	return r
}

// answered is the answer as it reads.
type answered struct {
	OK       bool
	Accepted int
	Rejected []struct {
		Index                    int
		Field, Code, Reason, Fix string
	}
	Warnings []struct{ Code string }
}

func answer(tb testing.TB, r crm.Received) answered {
	tb.Helper()
	require.Equal(tb, "application/json", r.Answer.ContentType)
	var a answered
	require.NoError(tb, json.Unmarshal(r.Answer.Body, &a))
	require.NotNil(tb, a.Rejected)
	require.Len(tb, r.Changes, a.Accepted)
	require.Equal(tb, a.Accepted > 0, a.OK && len(r.Changes) > 0)
	for _, f := range a.Rejected {
		require.NotEmpty(tb, f.Reason)
		require.NotEmpty(tb, f.Fix)
	}
	return a
}

func open(more ...string) crm.Account {
	return crmtest.Account("webhook", "https://example.com/", more...)
}

func TestReceiveReadsTheSamples(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"generic-stage-change.json", "generic-stage-change-flat.json", "generic-stage-change.txt"} {
		out := webhook.New().Receive(post(string(sample(t, name))), open("timezone", "Europe/Berlin"), hookNow)
		require.Equal(t, 200, out.Answer.Status, name)
		require.Equal(t, 1, answer(t, out).Accepted)
		c := out.Changes[0]
		require.Equal(t, "987650000012345", c.LeadID)
		require.Equal(t, "Closed Won", c.Stage)
		require.Equal(t, "1500.5", c.Amount)
		require.Equal(t, "USD", c.Currency)
		require.NotContains(t, c.Fields, "key")
	}
	out := webhook.New().Receive(post(string(sample(t, "generic-stage-change-flat.json"))), open("timezone", "Europe/Berlin"), hookNow)
	require.Equal(t, time.Date(2026, 11, 25, 9, 0, 0, 0, time.UTC), out.Changes[0].At)
}

func TestReceiveTakesTheGoodOnesOfAList(t *testing.T) {
	t.Parallel()
	items := `[{"lead_id":"1","stage":"A"},{"stage":"B"},7,{"deal_id":"9","stage":"C","occurred_at":"03/04/2026"}]`
	for _, body := range []string{items, `{"data":` + items + `}`, "\ufeff " + items} {
		out := webhook.New().Receive(post(body), open(), hookNow)
		require.Equal(t, 200, out.Answer.Status)
		a := answer(t, out)
		require.Equal(t, 1, a.Accepted)
		require.Len(t, a.Rejected, 3)
		require.Equal(t, 1, a.Rejected[0].Index)
		require.Equal(t, "no_identity", a.Rejected[0].Code)
		require.Equal(t, "not_a_stage_change", a.Rejected[1].Code)
		require.Equal(t, "occurred_at", a.Rejected[2].Field)
		require.Equal(t, "A", out.Changes[0].Stage)
	}
	out := webhook.New().Receive(post(items), open("dates", "dmy", "timezone", "UTC"), hookNow)
	require.Len(t, out.Changes, 2)
	require.Equal(t, time.Date(2026, 4, 3, 0, 0, 0, 0, time.UTC), out.Changes[1].At)
}

func TestReceiveNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for body, code := range map[string]string{
		"": "not_a_stage_change", "hello": "not_a_stage_change", "<xml a='1'/>": "not_a_stage_change", `{"stage":`: "not_a_stage_change", `[]`: "not_a_stage_change",
		`{"data":[]}`: "not_a_stage_change", `{}`: "stage_missing", `[[]]`: "not_a_stage_change", `{"lead_id":"1"}`: "stage_missing", "stage=A": "no_identity", "a=%zz&stage=A": "no_identity",
		"lead_id=1&stage=A&date=03%2F04%2F2026": "date_ambiguous", "[" + strings.Repeat(`{},`, 1000) + "{}]": "not_a_stage_change",
	} {
		out := webhook.New().Receive(post(body), open(), hookNow)
		require.Equal(t, 422, out.Answer.Status, body)
		require.Equal(t, code, answer(t, out).Rejected[0].Code, body)
		require.Empty(t, out.Changes)
	}
	r := post("")
	r.Method = http.MethodGet
	require.Equal(t, 200, webhook.New().Receive(r, open(), hookNow).Answer.Status, "somebody opens the address in a browser")
	r.Query = url.Values{"lead_id": {"1"}, "stage": {"A"}, "key": {"hook-key-0001"}}
	require.Len(t, webhook.New().Receive(r, open(), hookNow).Changes, 1, "a sheet or a robot that can only GET")
	require.Empty(t, webhook.New().Receive(r, open("secret", whsec), hookNow).Changes)
	r.Method = http.MethodPut
	require.Equal(t, 422, webhook.New().Receive(r, open(), hookNow).Answer.Status)
}

func TestReceiveChecksTheSignature(t *testing.T) {
	t.Parallel()
	var compact bytes.Buffer
	require.NoError(t, json.Compact(&compact, sample(t, "generic-stage-change.json")))
	vector := post(compact.String())
	vector.Header.Set("webhook-id", "msg_example0001")
	vector.Header.Set("webhook-timestamp", "1795000000")
	vector.Header.Set("webhook-signature", "v1,bgzb4MsyCAI0WXrl56AeHN5KDwFhPDIi6UsKYmBX6fk=")
	w, a := webhook.New(), open("secret", whsec)
	first := w.Receive(vector, a, hookNow)
	require.Equal(t, 200, first.Answer.Status)
	require.Len(t, first.Changes, 1)
	again := w.Receive(vector, a, hookNow.Add(4*time.Minute))
	require.Equal(t, first.Changes[0].Key, again.Changes[0].Key, "webhook-id tells a repeat")

	const other = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	body := `[{"lead_id":"1","stage":"A"},{"lead_id":"1","stage":"B"}]`
	both := w.Receive(signed(t, body, other+" "+whsec, hookNow), a, hookNow)
	require.Len(t, both.Changes, 2, "one of several signatures is enough")
	require.NotEqual(t, both.Changes[0].Key, both.Changes[1].Key)
	require.Len(t, w.Receive(signed(t, body, other, hookNow), open("secret", other+" "+whsec), hookNow).Changes, 2, "one of two secrets is enough")

	refused := map[string]func(r *crm.Incoming){
		"another secret":    func(r *crm.Incoming) { *r = signed(t, body, other, hookNow) },
		"another body":      func(r *crm.Incoming) { r.Body = append(r.Body, ' ') },
		"another id":        func(r *crm.Incoming) { r.Header.Set("webhook-id", "m2") },
		"no id":             func(r *crm.Incoming) { r.Header.Del("webhook-id") },
		"no signature":      func(r *crm.Incoming) { r.Header.Del("webhook-signature") },
		"another version":   func(r *crm.Incoming) { r.Header.Set("webhook-signature", "v2"+r.Header.Get("webhook-signature")[2:]) },
		"not seconds":       func(r *crm.Incoming) { r.Header.Set("webhook-timestamp", "soon") },
		"older than 5 min":  func(r *crm.Incoming) { *r = signed(t, body, whsec, hookNow.Add(-6*time.Minute)) },
		"ahead by 6 min":    func(r *crm.Incoming) { *r = signed(t, body, whsec, hookNow.Add(6*time.Minute)) },
		"nothing of it all": func(r *crm.Incoming) { r.Header = http.Header{} },
	}
	for name, change := range refused {
		r := signed(t, body, whsec, hookNow)
		change(&r)
		out := w.Receive(r, a, hookNow)
		require.Equal(t, 401, out.Answer.Status, name)
		require.Empty(t, out.Changes, name)
		require.NotContains(t, string(out.Answer.Body), "whsec", name)
		answer(t, out)
	}
	require.Equal(t, 401, w.Receive(signed(t, body, whsec, hookNow), open("secret", "no-secret"), hookNow).Answer.Status)
}

func TestCheckLooksAtTheSettingsOfStageChanges(t *testing.T) {
	t.Parallel()
	names := func(a crm.Account) (list []string) {
		for _, c := range webhook.New().Check(t.Context(), a, false) {
			if !c.OK {
				list = append(list, c.Name)
			}
		}
		return list
	}
	require.Empty(t, names(open("timezone", "Europe/Berlin", "dates", "mdy")))
	require.Equal(t, []string{"timezone", "dates"}, names(open("timezone", "Berlin", "dates", "european")))
}

func FuzzReceive(f *testing.F) {
	for _, name := range []string{"generic-stage-change.json", "generic-stage-change-flat.json", "generic-stage-change.txt"} {
		f.Add(sample(f, name))
	}
	f.Add([]byte(`{"data":[{"lead_id":1,"stage":"A"},{"deal_id":2}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		out := webhook.New().Receive(post(string(body)), open(), hookNow)
		require.Contains(t, []int{200, 422}, out.Answer.Status)
		require.Equal(t, out.Answer.Status == 200, len(out.Changes) > 0)
		answer(t, out)
		require.Empty(t, webhook.New().Receive(post(string(body)), open("secret", whsec), hookNow).Changes)
	})
}
