package pipedrive_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
	"github.com/capiloop/capiloop/internal/crm/pipedrive"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

func asking(address string, texts map[string]string, names ...string) crm.Account {
	a := crmtest.Account("pipedrive", address)
	all := map[string]string{"url": address, "token": crmtest.Token, "allow_private": "true"}
	maps.Copy(all, texts)
	a.Options = secret.NewOptions(all, map[string][]string{"read": names}, map[string]map[string]string{"fields": {key: "id"}})
	return a
}

// enquiry is a company with the deal and the person of the samples.
func enquiry(t *testing.T) *company {
	t.Helper()
	c := newCompany(t)
	c.records["deals"] = []m{sampleData(t, "pipedrive-deal-response")}
	c.persons = []m{sampleData(t, "pipedrive-person-response")}
	return c
}

func TestComplete(t *testing.T) {
	t.Parallel()
	c := enquiry(t)
	ana := ledger.Contact{FullName: "Ana Example", FirstName: "Ana", LastName: "Example", Email: "ana.lead@example.com", Phone: "+12025550143"}
	at := time.Date(2026, 11, 19, 0, 0, 0, 0, time.UTC)
	hook := ledger.StageChange{
		Key: "k", Thin: true, Records: []string{"deal:77", "person:11"}, DealID: "77", Pipeline: "9", Stage: "2", At: at, Amount: "7", Currency: "SEK", LeadID: "987650000012345", CreatedAt: at,
	}
	got := hook
	require.NoError(t, pipedrive.New().Complete(t.Context(), asking(c.URL, map[string]string{"lead_id_field": key}), &got))
	want := hook
	want.Thin, want.Contact = false, ana
	require.Equal(t, want, got)
	require.Empty(t, c.Calls("GET /api/v2/deals"), "all but the person stood in the hook")

	// The key of the field is found by its name; what the hook said stays.
	got = hook
	got.LeadID, got.Records = "", []string{"deal:77"}
	require.NoError(t, pipedrive.New().Complete(t.Context(), asking(c.URL, nil, "channel", "title", "label_ids", "name", "origin"), &got))
	want.Records = []string{"deal:77", "person:11"}
	want.Fields = map[string]string{"title": "Ana Example – Meta lead", "name": "Ana Example", "origin": "API"}
	require.Equal(t, want, got)

	// A company without the field is asked for it once an hour.
	delete(c.fields, key)
	c.persons[0]["emails"] = []any{m{"value": "second@example.com"}, m{"value": ""}, m{"value": "ana.lead@example.com", "primary": true}}
	p := pipedrive.New()
	before := len(c.Calls("GET /api/v1/dealFields"))
	for range 3 {
		got = ledger.StageChange{Thin: true, Records: []string{"deal:77"}, Stage: "2", At: at}
		require.NoError(t, p.Complete(t.Context(), asking(c.URL, nil), &got))
	}
	require.Len(t, c.Calls("GET /api/v1/dealFields"), before+1)
	require.Equal(t, "1500.5 USD", got.Amount+" "+got.Currency)
	require.Equal(t, "987650000012345", got.LeadID, "out of the person's field")
	require.Equal(t, "second@example.com", got.Contact.WorkEmail)
	require.Equal(t, "ana.lead@example.com", got.Contact.Email)

	c.persons = nil // deleted
	got = hook
	require.NoError(t, p.Complete(t.Context(), asking(c.URL, map[string]string{"lead_id_field": key}), &got))
	require.Empty(t, got.Contact)
}

// TestReadErrors: what a failed reading means, with nothing private in its text.
func TestReadErrors(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		prepare func(c *company) crm.Account
		want    ledger.Outcome
	}{
		"gone":   {func(c *company) crm.Account { c.records["deals"] = nil; return asking(c.URL, nil) }, ledger.Refusal{}},
		"token":  {func(c *company) crm.Account { c.value = "made-up-other"; return asking(c.URL, nil) }, ledger.Hold{Reason: ledger.TokenInvalid}},
		"busy":   {func(c *company) crm.Account { c.Next(1, crmtest.TooMany, "GET /api/v2"); return asking(c.URL, nil) }, ledger.RetryAt{Reason: ledger.Throttled, Wait: 2 * time.Second}},
		"fields": {func(c *company) crm.Account { c.Next(1, crmtest.Broken, "GET /api/v1"); return asking(c.URL, nil) }, ledger.RetryAt{Reason: ledger.Backlog}},
		"cut":    {func(c *company) crm.Account { c.Next(1, crmtest.Cut, "GET /api/v2"); return asking(c.URL, nil) }, ledger.RetryAt{Reason: ledger.Backlog}},
		"html": {func(c *company) crm.Account {
			c.Next(1, crmtest.HTML, "GET /api/v2/persons")
			return asking(c.URL, nil)
		}, ledger.RetryAt{Reason: ledger.Backlog}},
		"no answer": {func(*company) crm.Account { return asking("http://127.0.0.1:1", nil) }, ledger.RetryAt{Reason: ledger.Backlog}},
		"no record": {func(*company) crm.Account {
			return asking(fixed(t, 200, `{"data":{}}`), map[string]string{"lead_id_field": key})
		}, ledger.RetryAt{Reason: ledger.Backlog}},
		"no list": {func(*company) crm.Account {
			return asking(fixed(t, 200, `[]`), map[string]string{"lead_id_field": key})
		}, ledger.RetryAt{Reason: ledger.Backlog}},
		"no scope": {func(*company) crm.Account {
			return asking(fixed(t, 403, `{"error":"Scope and URL mismatch for ana.lead@example.com"}`), nil)
		}, ledger.Hold{Reason: ledger.PermissionMissing}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := enquiry(t)
			change := ledger.StageChange{Thin: true, Records: []string{"deal:77"}, Stage: "3"}
			readError(t, pipedrive.New().Complete(t.Context(), x.prepare(c), &change), x.want)
		})
	}
	readError(t, pipedrive.New().Complete(t.Context(), asking("", map[string]string{"lead_id_field": key}), &ledger.StageChange{}), ledger.Refusal{})
}

func readError(t *testing.T, err error, want ledger.Outcome) {
	t.Helper()
	var e *crm.ReadError
	require.ErrorAs(t, err, &e)
	crmtest.QuietText(t, err.Error())
	require.Equal(t, want, ledger.WithAnswer(e.Outcome, ledger.Answer{}))
}

// fixed is an address where every call gets the same answer.
func fixed(t *testing.T, status int, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestStages(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	c.page = 1
	got, err := pipedrive.New().Stages(t.Context(), crmtest.Account("pipedrive", c.URL))
	require.NoError(t, err)
	require.Equal(t, []ledger.Stage{
		{Pipeline: "1", PipelineLabel: "Sales", ID: "1", Label: "New", Position: 0, Meaning: ledger.MeaningOpen},
		{Pipeline: "1", PipelineLabel: "Sales", ID: "3", Label: "Qualified", Position: 1, Meaning: ledger.MeaningOpen},
		{Pipeline: "2", PipelineLabel: "Partners", ID: "7", Label: "Call", Position: 0, Meaning: ledger.MeaningOpen},
		{Field: "status", PipelineLabel: "Status", ID: "won", Label: "Won", Position: 0, Meaning: ledger.MeaningWon},
		{Field: "status", PipelineLabel: "Status", ID: "lost", Label: "Lost", Position: 1, Meaning: ledger.MeaningLost},
	}, got)
	for _, path := range []string{"GET /api/v2/pipelines", "GET /api/v2/stages"} {
		c.Next(1, crmtest.Broken, path)
		_, err = pipedrive.New().Stages(t.Context(), crmtest.Account("pipedrive", c.URL))
		readError(t, err, ledger.RetryAt{Reason: ledger.Backlog})
	}
	_, err = pipedrive.New().Stages(t.Context(), asking(fixed(t, 200, `{"data":[],"additional_data":{"next_cursor":"same"}}`), nil))
	readError(t, err, ledger.RetryAt{Reason: ledger.Backlog})
}

func TestMoves(t *testing.T) {
	t.Parallel()
	c := enquiry(t)
	c.page = 3
	c.persons = append(c.persons, m{"id": 12, "name": "Other"})
	for i := range 10 {
		at := time.Date(2026, 11, 21, i, 0, 0, 0, time.UTC).Format(time.RFC3339)
		c.records["deals"] = append(c.records["deals"], m{
			"id": 100 + i, "person_id": 12, "pipeline_id": 1, "stage_id": 1, "status": "won", "value": i, "currency": "USD", "add_time": at, "update_time": at, "won_time": at,
		})
	}
	c.records["deals"] = append(c.records["deals"], m{"id": 200, "person_id": 404, "stage_id": 1, "update_time": "2026-11-22T00:00:00Z"})
	list := func(since time.Time) (moves []ledger.StageChange) {
		for move, err := range pipedrive.WithoutPause().Moves(t.Context(), asking(c.URL, nil, "title"), since) {
			require.NoError(t, err)
			require.False(t, move.Thin)
			require.NotEmpty(t, move.Key)
			moves = append(moves, move)
		}
		return moves
	}
	got := list(time.Time{})
	require.Len(t, got, 1+2*10+1)
	require.Equal(t, ledger.StageChange{
		Key: "deal/77//3/1795165200", Records: []string{"deal:77", "person:11"}, LeadID: "987650000012345", CreatedAt: time.Date(2026, 11, 18, 11, 6, 42, 0, time.UTC), Pipeline: "1",
		Stage: "3", At: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC), DealID: "77", Amount: "1500.5", Currency: "USD", Fields: map[string]string{"title": "Ana Example – Meta lead"},
		Contact: ledger.Contact{FullName: "Ana Example", FirstName: "Ana", LastName: "Example", Email: "ana.lead@example.com", Phone: "+12025550143"},
	}, got[0])
	require.Equal(t, got[1].CreatedAt, got[1].At, "still in its first stage")
	require.Equal(t, "status won won", fmt.Sprint(got[2].Field, " ", got[2].Stage, " ", got[2].Meaning))
	require.Empty(t, got[21].Contact)
	require.Len(t, c.Calls("GET /api/v2/persons/12"), 1)
	require.Len(t, list(time.Date(2026, 11, 21, 8, 0, 0, 5, time.UTC)), 5)

	last := func(a crm.Account) (err error) {
		for _, err = range pipedrive.WithoutPause().Moves(t.Context(), a, time.Time{}) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	for _, path := range []string{"GET /api/v2/deals", "GET /api/v2/persons", "GET /api/v1/dealFields"} {
		c.Next(1, crmtest.Broken, path)
		readError(t, last(asking(c.URL, nil)), ledger.RetryAt{Reason: ledger.Backlog})
	}
	readError(t, last(asking(fixed(t, 200, `{"data":[{"id":"x"}]}`), map[string]string{"lead_id_field": key})), ledger.RetryAt{Reason: ledger.Backlog})
	readError(t, last(asking(fixed(t, 200, `{"data":{"id":1}}`), map[string]string{"lead_id_field": key})), ledger.RetryAt{Reason: ledger.Backlog})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range pipedrive.New().Moves(ctx, asking(c.URL, map[string]string{"lead_id_field": key}), time.Time{}) {
		require.Error(t, err)
	}
}
