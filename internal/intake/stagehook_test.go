package intake_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/intake"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/store"
)

// hears is a recorder that only listens.
type hears struct {
	mu      sync.Mutex
	calls   []string
	changes []ledger.StageChange
	source  string
	kind    string
	crm     int64
	err     error
}

func (h *hears) Stages(_ context.Context, _ *config.Workspace, source, kind string, destination int64, changes []ledger.StageChange) ([]record.StageResult, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, "stages")
	h.source, h.kind, h.crm = source, kind, destination
	if h.err != nil {
		return nil, h.err
	}
	results := make([]record.StageResult, len(changes))
	for i, c := range changes {
		results[i] = record.StageResult{ID: 101, Lead: 102, Effect: ledger.EffectEvent, Events: []ledger.ID{103}}
		for _, before := range h.changes {
			results[i].Duplicate = results[i].Duplicate || before.Identity() == c.Identity()
		}
		h.changes = append(h.changes, c)
	}
	return results, nil
}

func (h *hears) Merge(_ context.Context, _ *config.Workspace, destination int64, m ledger.Merge) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, "merge "+m.Kept)
	h.crm = destination
	return h.err
}

// listen opens a door whose stage changes are only heard.
func listen(t *testing.T) (*door, *hears) {
	t.Helper()
	h := &hears{}
	return open(t, func(c *intake.Config) { c.Stages = h }), h
}

func (d *door) tell(body string) answer {
	return d.call(http.MethodPost, hook("crm"), strings.NewReader(body), "Content-Type", "application/json", "X-Secret", hookSecret)
}

func TestACRMsHookIsAnsweredAfterItsMovesAreOnDisk(t *testing.T) {
	t.Parallel()
	d, heard := listen(t)
	const body = `{"changes":[
		{"stage":"won","records":["deal:9001"],"at":"2025-09-30T21:00:00Z"},
		{"thin":true,"stage":"5","pipeline":"2","records":["deal:9002"],"at":"2025-09-30T21:01:00Z"},
		{"thin":true,"stage":"6","records":["deal:9003"]}],
		"emails":["ana@example.com"],"merges":[{"Kept":"contact:51","Merged":["contact:52"]}]}`
	a := d.tell(body)
	require.Equal(t, http.StatusAccepted, a.Code)
	require.Equal(t, "application/json", a.Header().Get("Content-Type"))
	require.JSONEq(t, `{"url":"http://example.com`+hook("crm")+`"}`, a.Body.String(), "some sign the address as they called it")
	require.Equal(t, []string{"merge contact:51", "stages"}, heard.calls)
	require.Equal(t, []string{"crm", "telling"}, []string{heard.source, heard.kind})
	require.Equal(t, d.one.CRMs[0].ID, heard.crm)
	require.Len(t, heard.changes, 1, "the thin ones wait until the CRM was asked")
	require.Equal(t, "ana@example.com", heard.changes[0].Contact.Email)
	require.Contains(t, d.log.String(), "accepted=3")

	require.Equal(t, http.StatusAccepted, d.tell(body).Code)
	require.Contains(t, d.log.String(), "duplicates=3")
	require.NotContains(t, d.log.String(), "ana@")
	require.NotContains(t, d.log.String(), "0123456789abcdefghij", "the address is a secret")

	list, err := d.store.ClaimNotices(t.Context(), d.config.Clock.Now(), time.Minute, 10)
	require.NoError(t, err)
	require.Len(t, list, 2)
	for _, n := range list {
		require.Equal(t, store.CRMSource(d.one.CRMs[0].ID), n.Source)
		require.Regexp(t, `\Astage:[0-9a-f]{64}\z`, n.Key)
		var c ledger.StageChange
		require.NoError(t, json.Unmarshal(n.Body, &c))
		require.True(t, c.Thin)
		if c.Stage == "5" {
			require.Empty(t, c.Key, "it is recognised by the same as when it is found by looking")
			require.True(t, c.At.Equal(time.Date(2025, 9, 30, 21, 1, 0, 0, time.UTC)))
			continue
		}
		require.Equal(t, "6", c.Stage)
		require.NotEmpty(t, c.Key)
		require.WithinDuration(t, time.Unix(now, 0), c.At, time.Minute, "it happened when it came, not when the CRM was asked")
	}
}

func TestAHookThatIsNotGenuineLeavesNothing(t *testing.T) {
	t.Parallel()
	d, heard := listen(t)
	const body = `{"changes":[{"thin":true,"stage":"5","records":["deal:1"]},{"stage":"5","records":["deal:1"]}]}`
	for _, secret := range []string{"", "wrong"} {
		a := d.call(http.MethodPost, hook("crm"), strings.NewReader(body), "X-Secret", secret)
		require.Equal(t, http.StatusUnauthorized, a.Code)
		require.Equal(t, "who are you?", a.Body.String())
		require.Equal(t, "text/plain; charset=utf-8", a.Header().Get("Content-Type"))
	}
	require.Empty(t, heard.calls)
	require.Zero(t, d.notices(t, d.one))
	require.Equal(t, http.StatusOK, d.tell("{").Code)
	a := d.call(http.MethodGet, hook("crm")+"?challenge=abc", nil)
	require.Equal(t, "abc", a.Body.String())
	require.Equal(t, http.StatusMethodNotAllowed, d.do(t, http.MethodPut, hook("crm"), nil).Code)
	require.Equal(t, http.StatusNotFound, d.do(t, http.MethodPost, hook("chat"), nil).Code, "this one tells of nothing")
	huge := strings.NewReader(strings.Repeat(" ", 8<<20) + "{}")
	require.Equal(t, http.StatusRequestEntityTooLarge, d.do(t, http.MethodPost, hook("crm"), huge, "X-Secret", hookSecret).Code)
	require.Empty(t, heard.calls)
}

func TestAHookWhileNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	down := noDisk{errors.New("disk full")}
	d := open(t, func(c *intake.Config) { c.Stages, c.Inbox = down, down })
	for name, body := range map[string]string{
		"whole": `{"changes":[{"stage":"5"}]}`, "thin": `{"changes":[{"thin":true,"stage":"5"}]}`, "merge": `{"merges":[{"Kept":"contact:1"}]}`,
	} {
		a := d.tell(body)
		require.Equal(t, http.StatusTooManyRequests, a.Code, "%s: as its sender needs it", name)
		require.NotEmpty(t, a.Header().Get("Retry-After"), name)
	}
}

// The real recorder behind it: a move of a lead that is known becomes an event, once.
func TestAHooksMoveBecomesAnEvent(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.one.Rules = []ledger.Rule{{Stage: "won", Event: "Purchase"}}
	require.Equal(t, http.StatusCreated, d.send(t, "/v1/leads", `{"lead_id":"987650000012345","platform":"meta","email":"ana@example.com","created_at":"2025-09-30T20:00:00Z"}`).Code)
	const before = `{"changes":[{"stage":"won","at":"2025-09-30T21:00:00Z"}],"emails":["bo@example.com"]}`
	require.Equal(t, http.StatusAccepted, d.tell(before).Code)
	require.Empty(t, d.views(t), "it happened before the CRM was connected")
	const body = `{"changes":[{"key":"move-1","stage":"WON","records":["deal:9001"]}],"emails":["ana@example.com"]}`
	for range 3 {
		require.Equal(t, http.StatusAccepted, d.tell(body).Code)
	}
	views := d.views(t)
	require.Len(t, views, 1)
	require.Equal(t, "Purchase", views[0].Name)
	require.EqualValues(t, 1, d.book(t).Received)
	seen, err := d.store.SourceSeen(t.Context(), d.one.ID, store.CRMSource(d.one.CRMs[0].ID), "crm")
	require.NoError(t, err)
	require.WithinDuration(t, d.config.Clock.Now(), seen, time.Minute)
	require.Len(t, d.kept(t, d.one), 2)
}
