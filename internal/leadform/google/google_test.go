package google_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/leadform/google"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

var now = time.Date(2026, 11, 18, 11, 6, 40, 0, time.UTC)

func source() leadform.Source {
	return leadform.Source{
		Workspace: 7, Kind: google.Name, Name: "google", CreatedAt: now.Add(-time.Hour),
		Options: secret.NewOptions(map[string]string{"key": "google-key-0001"}, nil, nil),
	}
}

func receive(body string) leadform.Received {
	return google.Kind{}.Receive(leadform.Request{Method: http.MethodPost, Body: []byte(body)}, source(), now)
}

func sample(tb testing.TB, name string) string {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(tb, err)
	return string(raw)
}

func one(t *testing.T, r leadform.Received) ledger.Lead {
	t.Helper()
	require.Equal(t, 200, r.Answer.Status, "%s", r.Answer.Body)
	require.JSONEq(t, "{}", string(r.Answer.Body))
	require.Equal(t, 503, r.Busy)
	require.Len(t, r.Leads, 1)
	return r.Leads[0]
}

func TestTheLeadOfAPerformanceMaxCampaign(t *testing.T) {
	t.Parallel()
	l := one(t, receive(sample(t, "google-lead-webhook.json")))
	require.Greater(t, len(l.LeadID), 160)
	require.True(t, strings.HasPrefix(l.LeadID, "AbCdEf-"))
	require.Equal(t, ledger.Origin{FormID: "40000000000", CampaignID: "9007199254740993", AdSetID: "20000000000", AdID: "30000000000"}, l.Origin)
	require.Equal(t, "ExampleGclid_0001", l.Clicks.GClid)
	require.Equal(t, time.Date(2026, 11, 18, 11, 6, 37, 0, time.UTC), l.CreatedAt)
	require.Equal(t, "google", l.Platform)
	require.Equal(t, "google_leads", l.Kind)
	require.Equal(t, "google", l.Source)
	require.Equal(t, int64(7), l.Workspace)
	require.False(t, l.Test)
	require.False(t, l.History)
	require.Empty(t, l.DedupeKey)
	require.Equal(t, "ana.lead@example.com", l.Contact.Email)
	require.Equal(t, "+12025550143", l.Contact.Phone)
	require.Equal(t, "Ana Example", l.Contact.FullName)
	require.Equal(t, "20500", l.Contact.Postcode)
	require.Len(t, l.Answers, 5)
	require.Equal(t, ledger.FormAnswer{Question: "which_roof", Label: "Which roof?", Values: []string{"Flat"}}, l.Answers[4])
}

func TestWhatSendTestDataSendsIsATest(t *testing.T) {
	t.Parallel()
	l := one(t, receive(sample(t, "google-lead-webhook-test.json")))
	require.True(t, l.Test, "found although the key is spelled Google_key")
	require.Equal(t, "281489216452814", l.Origin.CampaignID)
	require.Equal(t, now, l.CreatedAt)

	l = one(t, receive(`{"google_key":"google-key-0001","lead_id":"TeSter-123-A"}`))
	require.True(t, l.Test, "known by its id alone")
}

func TestNamesAndWorkFields(t *testing.T) {
	t.Parallel()
	l := one(t, receive(sample(t, "google-lead-webhook-names.json")))
	require.Equal(t, ledger.Contact{
		FullName: "Zoë Exämple", FirstName: "Zoë", LastName: "Exämple",
		Email: "zoe@work.example.com", WorkEmail: "zoe@work.example.com", Phone: "020 7946 0123", WorkPhone: "020 7946 0123",
		City: "London", State: "England", Country: "GB", Company: "Example Ltd", JobTitle: "Buyer",
	}, l.Contact)
	require.Empty(t, l.Clicks)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body   string
		status int
		say    string
	}{
		"wrong key":      {sample(t, "google-lead-webhook-wrong-key.json"), 403, "the key is wrong"},
		"no key":         {`{"lead_id":"a","user_column_data":[]}`, 403, "the key is wrong"},
		"trailing comma": {`{"google_key":"google-key-0001","lead_id":"a",}`, 400, "not a JSON object"},
		"no JSON":        {`lead_id=1`, 400, "not a JSON object"},
		"a list":         {`[]`, 400, "not a JSON object"},
		"null":           {`null`, 403, "the key is wrong"},
		"no lead":        {`{"google_key":"google-key-0001"}`, 400, "no lead in the body"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := receive(c.body)
			requireRefused(t, r, c.status)
			require.Contains(t, string(r.Answer.Body), c.say)
		})
	}
	t.Run("one byte of the key", func(t *testing.T) {
		t.Parallel()
		requireRefused(t, receive(strings.Replace(sample(t, "google-lead-webhook.json"), "google-key-0001", "google-key-0000", 1)), 403)
	})
	t.Run("get", func(t *testing.T) {
		t.Parallel()
		r := google.Kind{}.Receive(leadform.Request{Method: http.MethodGet}, source(), now)
		requireRefused(t, r, 405)
		require.Equal(t, "POST", r.Answer.Headers.Get("Allow"))
	})
	t.Run("a source without a key lets nobody in", func(t *testing.T) {
		t.Parallel()
		s := source()
		s.Options = secret.NewOptions(nil, nil, nil)
		requireRefused(t, google.Kind{}.Receive(leadform.Request{Method: http.MethodPost, Body: []byte(`{"google_key":""}`)}, s, now), 403)
	})
}

// requireRefused wants the shape that Google shows to the advertiser: a message.
func requireRefused(t *testing.T, r leadform.Received, status int) {
	t.Helper()
	require.Equal(t, status, r.Answer.Status)
	require.Empty(t, r.Leads)
	require.Empty(t, r.Notices)
	require.Equal(t, "application/json", r.Answer.ContentType)
	var body map[string]string
	require.NoError(t, json.Unmarshal(r.Answer.Body, &body))
	require.Len(t, body, 1)
	require.NotEmpty(t, body["message"])
	require.NotContains(t, body["message"], "google-key-0001")
}

func TestOddFieldsLoseNoLead(t *testing.T) {
	t.Parallel()
	l := one(t, receive(`{"google_key":"google-key-0001","lead_id":12345678901234567,"form_id":"100000000000001","adgroup_id":0,"asset_group_id":60000000000,
		"is_test":"false","campaign_id":{"a":1},"gcl_id":null,"lead_submit_time":"yesterday",
		"user_column_data":[null,7,{},{"column_id":"EMAIL"},{"column_name":"How many?","string_value":3},
			{"column_id":"GOVERNMENT_ISSUED_ID_CPF_BR","string_value":"000"},{"column_id":"full_name","string_value":" Ana "}]}`))
	require.Equal(t, "12345678901234567", l.LeadID) // C082
	require.Equal(t, ledger.Origin{FormID: "100000000000001", AdSetID: "60000000000"}, l.Origin)
	require.Equal(t, now, l.CreatedAt)
	require.False(t, l.Test)
	require.Equal(t, "Ana", l.Contact.FullName)
	require.Equal(t, []string{"How many?", "GOVERNMENT_ISSUED_ID_CPF_BR", "full_name"},
		[]string{l.Answers[0].Question, l.Answers[1].Question, l.Answers[2].Question})

	l = one(t, receive(`{"google_key":"google-key-0001","lead_id":"x","user_column_data":{"no":"list"}}`))
	require.Empty(t, l.Answers)
}

func TestALeadWithoutIDIsKnownByItsBody(t *testing.T) {
	t.Parallel()
	body := `{"google_key":"google-key-0001","user_column_data":[{"column_id":"EMAIL","string_value":"a@example.com"}]}`
	l := one(t, receive(body))
	require.NotEmpty(t, l.DedupeKey)
	require.Equal(t, l.DedupeKey, one(t, receive(body)).DedupeKey)
	require.NotEqual(t, l.DedupeKey, one(t, receive(strings.Replace(body, "a@", "b@", 1))).DedupeKey)
}

func TestALeadFromBeforeTheConnectionIsHistory(t *testing.T) {
	t.Parallel()
	l := one(t, receive(`{"google_key":"google-key-0001","lead_id":"x","lead_submit_time":"2026-11-17T11:06:37Z"}`))
	require.True(t, l.History)
}

func TestOptionsNameTheKey(t *testing.T) {
	t.Parallel()
	options := google.Kind{}.Options()
	require.Len(t, options, 1)
	require.Equal(t, leadform.SecretText, options[0].Type)
	require.True(t, options[0].Required)
}

func FuzzReceive(f *testing.F) {
	for _, name := range []string{"google-lead-webhook.json", "google-lead-webhook-test.json", "google-lead-webhook-names.json", "google-lead-webhook-wrong-key.json"} {
		f.Add([]byte(sample(f, name)))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := google.Kind{}.Receive(leadform.Request{Method: http.MethodPost, Body: body}, source(), now)
		require.Contains(t, []int{200, 400, 403}, r.Answer.Status)
		require.Equal(t, r.Answer.Status == 200, len(r.Leads) == 1)
		if len(r.Leads) == 1 {
			require.True(t, r.Leads[0].LeadID != "" || r.Leads[0].DedupeKey != "")
			require.True(t, bytes.Contains(body, []byte("google-key-0001")) || bytes.Contains(body, []byte("\\")))
		}
	})
}
