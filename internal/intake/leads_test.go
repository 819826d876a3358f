package intake_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/intake"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/store"
)

// send posts JSON to a route of /v1 with the key of workspace one.
func (d *door) send(tb testing.TB, path, body string, headers ...string) answer {
	tb.Helper()
	headers = append([]string{"Authorization", "Bearer " + keyOne, "Content-Type", "application/json"}, headers...)
	return d.do(tb, http.MethodPost, path, strings.NewReader(body), headers...)
}

// kept lists the leads of a workspace, newest first.
func (d *door) kept(tb testing.TB, ws *config.Workspace) []store.LeadRow {
	tb.Helper()
	list, err := d.store.Leads(tb.Context(), ws.ID, 0, 1000)
	require.NoError(tb, err)
	return list
}

func TestALeadIsCreatedThenKnown(t *testing.T) {
	t.Parallel()
	d := open(t)
	const body = `{"lead_id":"987650000012345","platform":"meta","email":"Ana.Lead@Example.com","full_name":"Ana Example","answers":{"budget":"5000"}}`
	first := d.send(t, "/v1/leads", body)
	require.Equal(t, http.StatusCreated, first.Code, first.Body.String())
	require.Equal(t, "created", first.at("state"))
	require.Equal(t, "/v1/leads/"+first.at("id").(string), first.at("url"))
	again := d.send(t, "/v1/leads", body)
	require.Equal(t, http.StatusOK, again.Code)
	require.Equal(t, "known", again.at("state"))
	require.Equal(t, first.at("id"), again.at("id"))
	require.Len(t, d.kept(t, d.one), 1)
	require.Empty(t, d.kept(t, d.two))
	require.NotContains(t, strings.ToLower(d.log.String()), "ana", "nothing personal in the log")
	require.Contains(t, d.log.String(), "accepted=1")
	require.Contains(t, d.log.String(), "duplicates=1")
}

func TestTheSamePersonByAnotherSourceIsMerged(t *testing.T) {
	t.Parallel()
	d := open(t)
	site := d.call(http.MethodPost, hook("open"), strings.NewReader(`{"name":"Ana Example","email":"ana.lead@example.com"}`), "Content-Type", "application/json")
	require.Equal(t, http.StatusOK, site.Code, site.Body.String())
	a := d.send(t, "/v1/leads", `{"email":" ANA.lead@example.com","phone":"+1 202 555 0143"}`)
	require.Equal(t, http.StatusOK, a.Code)
	require.Equal(t, "merged", a.at("state"))
	leads := d.kept(t, d.one)
	require.Len(t, leads, 1)
	require.Equal(t, leads[0].Lead.ID.String(), a.at("id"))
}

func TestALeadThatIsNoneIsRefusedWithAFix(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, c := range []struct {
		name, body  string
		status      int
		code, field string
	}{
		{"nobody", `{"platform":"meta"}`, 422, "no_identity", ""},
		{"a rounded id", `{"lead_id":"9.87E+14","email":"a@example.com"}`, 422, "invalid_lead_id", "lead_id"},
		{"a warning stands before the error", `{"nonsense":1,"email":"a@example.com","consent":"perhaps"}`, 422, "invalid_flag", "consent"},
		{"a text", `"lead"`, 422, "wrong_type", "data"},
		{"an empty list", `{"data":[]}`, 422, "no_leads", "data"},
		{"no JSON", `lead=1`, 400, "invalid_json", ""},
		{"too long for one", `{"email":"a@example.com","answers":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`, 413, "too_large", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := d.send(t, "/v1/leads", c.body)
			require.Equal(t, c.status, a.Code, a.Body.String())
			require.Equal(t, c.code, a.at("error", "code"))
			if c.field != "" {
				require.Equal(t, c.field, a.at("error", "field"))
			}
			require.NotEmpty(t, a.at("error", "fix"))
			require.NotContains(t, a.at("error", "fix"), "event_name", "this route takes leads")
		})
	}
	require.Equal(t, http.StatusUnauthorized, d.do(t, http.MethodPost, "/v1/leads", strings.NewReader("{}")).Code)
	require.Equal(t, http.StatusMethodNotAllowed, d.do(t, http.MethodGet, "/v1/leads", nil).Code)
}

func TestTheGoodLeadsOfABatchAreTaken(t *testing.T) {
	t.Parallel()
	d := open(t)
	a := d.send(t, "/v1/leads", `{"data":[{"email":"a@example.com"},{"platform":"meta"},{"external_id":"cust-1"}]}`)
	require.Equal(t, http.StatusCreated, a.Code, a.Body.String())
	require.EqualValues(t, 1, a.at("rejected"))
	require.Equal(t, "created", a.at("leads", 0, "state"))
	require.Equal(t, "rejected", a.at("leads", 1, "state"))
	require.Equal(t, "no_identity", a.at("leads", 1, "problems", 0, "code"))
	require.Equal(t, "created", a.at("leads", 2, "state"))
	require.Len(t, d.kept(t, d.one), 2)
	require.Equal(t, http.StatusUnprocessableEntity, d.send(t, "/v1/leads", `[{"platform":"meta"}]`).Code, "none could be taken")
}

func TestALeadWithAnIdempotencyKey(t *testing.T) {
	t.Parallel()
	d := open(t)
	first := d.send(t, "/v1/leads", `{"email":"a@example.com"}`, "Idempotency-Key", "k1")
	require.Equal(t, http.StatusCreated, first.Code, first.Body.String())
	again := d.send(t, "/v1/leads", `{"email":"a@example.com"}`, "Idempotency-Key", "k1")
	require.Equal(t, http.StatusOK, again.Code)
	require.Equal(t, first.at("id"), again.at("id"))
	other := d.send(t, "/v1/leads", `{"lead_id":"987650000012345","platform":"meta"}`, "Idempotency-Key", "k1")
	require.Equal(t, http.StatusConflict, other.Code)
	require.Equal(t, "idempotency_key_reused", other.at("error", "code"))
	require.Len(t, d.kept(t, d.one), 1)
	require.Equal(t, http.StatusCreated, d.send(t, "/v1/leads", `{"lead_id":"987650000012345","platform":"meta"}`).Code,
		"the refused request has left nothing behind")
	longer := d.send(t, "/v1/leads", `{"data":[{"email":"b@example.com"}]}`, "Idempotency-Key", "k2")
	require.Equal(t, http.StatusCreated, longer.Code)
	longer = d.send(t, "/v1/leads", `{"data":[{"email":"b@example.com"},{"email":"c@example.com"}]}`, "Idempotency-Key", "k2")
	require.Equal(t, http.StatusConflict, longer.Code, "the body is another one from its first lead on")
}

func TestAnIdempotencyKeyThirtyTimesAtOnce(t *testing.T) {
	t.Parallel()
	d := open(t)
	codes := make([]int, 30)
	var wg sync.WaitGroup
	for i := range codes {
		wg.Go(func() {
			codes[i] = d.call(http.MethodPost, "/v1/leads", strings.NewReader(`{"email":"a@example.com"}`),
				"Authorization", "Bearer "+keyOne, "Content-Type", "application/json", "Idempotency-Key", "k").Code
		})
	}
	wg.Wait()
	created := 0
	for _, code := range codes {
		if code == http.StatusCreated {
			created++
			continue
		}
		require.Equal(t, http.StatusOK, code)
	}
	require.Equal(t, 1, created)
	require.Len(t, d.kept(t, d.one), 1)
}

// Two bodies race for one key: one wins, the others are refused, and no id of theirs
// stays with a lead that was never kept.
func TestARefusedRaceLeavesNoIDBehind(t *testing.T) {
	t.Parallel()
	d := open(t)
	body := func(i int) string { return fmt.Sprintf(`{"lead_id":"98765000001%04d","platform":"meta"}`, i) }
	codes := make([]int, 10)
	var wg sync.WaitGroup
	for i := range codes {
		wg.Go(func() {
			codes[i] = d.call(http.MethodPost, "/v1/leads", strings.NewReader(body(i)),
				"Authorization", "Bearer "+keyOne, "Content-Type", "application/json", "Idempotency-Key", "k").Code
		})
	}
	wg.Wait()
	for i, code := range codes {
		want := http.StatusCreated
		if code == http.StatusCreated {
			want = http.StatusOK
		} else {
			require.Equal(t, http.StatusConflict, code)
		}
		require.Equal(t, want, d.send(t, "/v1/leads", body(i)).Code)
	}
	require.Len(t, d.kept(t, d.one), 10)
}

// noDisk is a store that takes nothing.
type noDisk struct{ err error }

func (b noDisk) Lead(context.Context, *config.Workspace, *ledger.Lead) (record.LeadResult, error) {
	return record.LeadResult{}, b.err
}

func (b noDisk) LeadOnce(context.Context, *config.Workspace, *ledger.Lead, string, [32]byte) (record.LeadResult, error) {
	return record.LeadResult{}, b.err
}

func (b noDisk) Consent(context.Context, *config.Workspace, record.Decision) (record.ConsentResult, error) {
	return record.ConsentResult{}, b.err
}

func (b noDisk) Stages(context.Context, *config.Workspace, string, string, int64, []ledger.StageChange) ([]record.StageResult, error) {
	return nil, b.err
}

func (b noDisk) Merge(context.Context, *config.Workspace, int64, ledger.Merge) error { return b.err }

func (b noDisk) AddNotices(context.Context, []store.Notice) (int, error) { return 0, b.err }

func (b noDisk) Raise(context.Context, ledger.Finding) error { return b.err }

func TestLeadsWhileNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	down := func(err error) *door {
		return open(t, func(c *intake.Config) { c.Leads, c.Stages, c.Inbox = noDisk{err}, noDisk{err}, noDisk{err} })
	}
	d := down(errors.New("disk full"))
	for path, body := range map[string]string{
		"/v1/leads": `{"email":"ana@example.com"}`, "/v1/consent": `{"email":"ana@example.com","granted":false}`, "/v1/stages": `{"email":"ana@example.com","stage":"Won"}`,
	} {
		a := d.send(t, path, body)
		require.Equal(t, http.StatusServiceUnavailable, a.Code, path)
		require.Equal(t, "storage_unavailable", a.at("error", "code"))
		require.NotEmpty(t, a.Header().Get("Retry-After"))
		require.NotContains(t, d.log.String(), "ana@")
	}
	require.Equal(t, "busy", down(store.ErrBusy).send(t, "/v1/leads", `{"email":"a@example.com"}`).at("error", "code"))
}
