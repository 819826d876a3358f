package admin_test

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/admin/admintest"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/platform"
)

var (
	owner    = admin.Actor{Name: "owner", Right: admin.Own}
	operator = admin.Actor{Name: "operator", Right: admin.Operate}
	reader   = admin.Actor{Name: "reader", Right: admin.Read}
	nobody   = admin.Actor{Name: "nobody"}
)

// failed checks that an error is one a person can mend, of a kind, and returns its text.
func failed(t *testing.T, err error, code admin.Code) string {
	t.Helper()
	var e *admin.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.Code, "%v", err)
	require.NotEmpty(t, e.Message)
	require.NotEmpty(t, e.Fix)
	return e.Error()
}

func TestEveryActionChecksItsRight(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	shop := admintest.Shop
	checkRights(t, map[string]guarded{
		"event": {nobody, func(ctx context.Context, by admin.Actor) error { _, err := w.Event(ctx, by, shop, 64); return err }},
		"text": {nobody, func(ctx context.Context, by admin.Actor) error {
			_, err := w.EventByText(ctx, by, shop, "?")
			return err
		}},
		"latest":   {nobody, func(ctx context.Context, by admin.Actor) error { _, err := w.Latest(ctx, by, shop, 1); return err }},
		"findings": {nobody, func(ctx context.Context, by admin.Actor) error { _, err := w.Findings(ctx, by, shop); return err }},
		"where":    {nobody, func(ctx context.Context, by admin.Actor) error { _, err := w.Destinations(ctx, by, shop); return err }},
		"ledger": {nobody, func(ctx context.Context, by admin.Actor) error {
			_, err := w.Ledger(ctx, by, shop, admin.LedgerQuery{})
			return err
		}},
		"stages": {nobody, func(ctx context.Context, by admin.Actor) error { _, err := w.Stages(ctx, by, shop); return err }},
		"import stages": {reader, func(ctx context.Context, by admin.Actor) error {
			_, err := w.ImportStages(ctx, by, shop, "import", nil)
			return err
		}},
		"dry run": {reader, func(ctx context.Context, by admin.Actor) error {
			_, err := w.DryRun(ctx, by, shop, admin.DryRunQuery{})
			return err
		}},
		"doctor": {nobody, func(ctx context.Context, by admin.Actor) error {
			_, err := w.Doctor(ctx, by, shop, admin.DoctorOptions{})
			return err
		}},
		"test event": {reader, func(ctx context.Context, by admin.Actor) error {
			_, err := w.Doctor(ctx, by, shop, admin.DoctorOptions{SendTest: true})
			return err
		}},
		"retry": {reader, func(ctx context.Context, by admin.Actor) error {
			_, err := w.Retry(ctx, by, shop, admin.Filter{})
			return err
		}},
		"release": {reader, func(ctx context.Context, by admin.Actor) error {
			_, err := w.Release(ctx, by, shop, admin.Filter{})
			return err
		}},
		"drop": {reader, func(ctx context.Context, by admin.Actor) error {
			_, err := w.Drop(ctx, by, shop, admin.Filter{})
			return err
		}},
		"skip": {reader, func(ctx context.Context, by admin.Actor) error {
			_, err := w.SkipRemoved(ctx, by, shop, "1001")
			return err
		}},
		"try":    {reader, func(ctx context.Context, by admin.Actor) error { return w.TryNow(ctx, by, shop, "1001") }},
		"backup": {operator, func(ctx context.Context, by admin.Actor) error { return w.Backup(ctx, by, "/nowhere/at/all") }},
		"rotate": {operator, func(ctx context.Context, by admin.Actor) error {
			_, err := w.RotateMasterKey(ctx, by)
			return err
		}},
		"sources": {nobody, func(ctx context.Context, by admin.Actor) error {
			_, err := w.Sources(ctx, by, shop)
			return err
		}},
		"key": {operator, func(ctx context.Context, by admin.Actor) error {
			_, err := w.CreateAPIKey(ctx, by, shop, "")
			return err
		}},
	})
	checkRights(t, map[string]guarded{
		"deadlines": {nobody, func(ctx context.Context, by admin.Actor) error {
			_, err := w.Deadlines(ctx, by, shop, "")
			return err
		}},
		"funnel": {nobody, func(ctx context.Context, by admin.Actor) error {
			_, err := w.Funnel(ctx, by, shop, admin.FunnelQuery{})
			return err
		}},
	})
}

// guarded is an action with the largest right that is too small for it.
type guarded struct {
	small admin.Actor
	do    func(ctx context.Context, by admin.Actor) error
}

func checkRights(t *testing.T, actions map[string]guarded) {
	t.Helper()
	for name, c := range actions {
		failed(t, c.do(t.Context(), c.small), admin.Refused)
		larger := c.small
		larger.Right++
		var e *admin.Error
		if err := c.do(t.Context(), larger); errors.As(err, &e) {
			require.NotEqual(t, admin.Refused, e.Code, name)
		}
	}
}

func TestTheBookInWords(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	empty, err := w.Ledger(t.Context(), reader, admintest.Shop, admin.LedgerQuery{})
	require.NoError(t, err)
	require.Equal(t, &admin.Ledger{ByReason: []admin.Line{}}, empty)

	w.Fill()
	b, err := w.Ledger(t.Context(), reader, admintest.Shop, admin.LedgerQuery{})
	require.NoError(t, err)
	require.EqualValues(t, 6, b.Received)
	require.Equal(t, []int64{1, 0, 3, 1, 1, 0}, []int64{b.Sent, b.Waiting, b.Held, b.Skipped, b.Failed, b.Unexplained})
	require.Equal(t, admin.Beside{Duplicates: 1, Rejected: 1}, b.Beside)
	total := int64(0)
	for _, l := range b.ByReason {
		require.NotEmpty(t, l.Sentence)
		total += l.Count
	}
	require.Equal(t, b.Received, total)

	for name, q := range map[string]admin.LedgerQuery{
		"hour":        {From: "2026-11-30T14:00:00Z", To: "2026-11-30T15:00:00Z"},
		"zone":        {From: "2026-11-30T19:00:00+05:00"},
		"day":         {From: "2026-11-30", To: "2026-12-01"},
		"source":      {Source: "web"},
		"destination": {Destination: admintest.First},
	} {
		b, err := w.Ledger(t.Context(), reader, admintest.Shop, q)
		require.NoError(t, err, name)
		require.Positive(t, b.Received, name)
		require.Zero(t, b.Unexplained, name)
	}
	late, err := w.Ledger(t.Context(), reader, admintest.Shop, admin.LedgerQuery{From: "2026-12-01"})
	require.NoError(t, err)
	require.Zero(t, late.Received)
	for _, q := range []admin.LedgerQuery{{From: "yesterday"}, {To: "1764511200"}, {From: "0001-01-01"}, {From: "2026-12-01", To: "2026-12-01"}, {From: "2026-12-02", To: "2026-12-01"}} {
		_, err := w.Ledger(t.Context(), reader, admintest.Shop, q)
		require.Contains(t, failed(t, err, admin.Invalid), "2026-")
	}
	_, err = w.Ledger(t.Context(), reader, admintest.Shop, admin.LedgerQuery{Destination: admintest.Other})
	failed(t, err, admin.NotFound)
}

func TestWhatWaitsBehindABackingOffDatasetSaysSo(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	w.Record(w.Make(admintest.Shop, admintest.First, "Lead", "l1"), w.Make(admintest.Shop, admintest.First, "Lead", "l2"))
	w.Settle(admintest.First, ledger.Waiting, ledger.Retrying, ledger.None, ledger.Answer{Status: 503})
	w.Record(w.Make(admintest.Shop, admintest.Second, "Lead", "l3"))
	b, err := w.Ledger(t.Context(), reader, admintest.Shop, admin.LedgerQuery{})
	require.NoError(t, err)
	require.EqualValues(t, 3, b.Waiting)
	require.Zero(t, b.Unexplained)
	require.Equal(t, []admin.Line{
		{State: ledger.Waiting, Reason: ledger.Backlog, Sentence: ledger.Backlog.Sentence(), Count: 2},
		{State: ledger.Waiting, Reason: ledger.Queued, Sentence: ledger.Queued.Sentence(), Count: 1},
	}, b.ByReason)
	list, err := w.Destinations(t.Context(), reader, admintest.Shop)
	require.NoError(t, err)
	require.Equal(t, []string{admin.Paused, admin.Sending}, []string{list[0].State, list[1].State})
	require.Contains(t, list[0].Sentence, "14:01:00 UTC")
}

func TestAnEventTellsItsLife(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	all := w.Fill()
	e, err := w.EventByText(t.Context(), reader, admintest.Shop, all["sent"].ID.String())
	require.NoError(t, err)
	require.Equal(t, []string{"em", "ph"}, e.KeysCame)
	d := e.Deliveries[0]
	require.Equal(t, 2, d.Attempts)
	require.Equal(t, "TRACE-GOOD", d.FBTraceID)
	require.Equal(t, []string{"sent", "retry"}, []string{d.Answers[0].Outcome, d.Answers[1].Outcome})
	require.Equal(t, 503, d.Answers[1].Status)
	require.Equal(t, string(all["sent"].Deliveries[0].Payload), string(d.Payload))
	require.Equal(t, []string{"em"}, d.KeysKept)
	require.Equal(t, "the number has no country code", d.Notes[0].Reason)

	same, err := w.Event(t.Context(), reader, admintest.Shop, all["sent"].Deliveries[0].ID)
	require.NoError(t, err)
	require.Equal(t, e, same, "a delivery's id shows its event")

	for _, id := range []string{all["neighbour"].ID.String(), "", "?", "0000000000000", "../../etc", strings.Repeat("x", 10_000)} {
		_, err := w.EventByText(t.Context(), reader, admintest.Shop, id)
		require.Less(t, len(failed(t, err, admin.NotFound)), 300)
	}
	latest, err := w.Latest(t.Context(), reader, admintest.Shop, 3)
	require.NoError(t, err)
	require.Len(t, latest, 3)
	all3, err := w.Latest(t.Context(), reader, admintest.Shop, 1_000_000)
	require.NoError(t, err)
	require.Len(t, all3, 6)
}

func TestWhichWorkspace(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	_, err := w.Findings(t.Context(), reader, "")
	require.Contains(t, failed(t, err, admin.Invalid), "shop, neighbour")
	_, err = w.Findings(t.Context(), reader, "shopp")
	failed(t, err, admin.NotFound)
	_, err = w.Findings(t.Context(), reader, "1")
	require.NoError(t, err, "a number will do")
}

func TestFindingsAndDestinations(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	w.Fill()
	found, err := w.Findings(t.Context(), reader, admintest.Shop)
	require.NoError(t, err)
	require.Len(t, found, 2)
	access := slices.IndexFunc(found, func(f admin.Finding) bool { return f.ID == "access:1002" })
	require.NotEqual(t, -1, access)
	require.Equal(t, "open", found[access].State)
	require.Contains(t, found[access].MessageForClient, "1002")

	list, err := w.Destinations(t.Context(), reader, admintest.Shop)
	require.NoError(t, err)
	require.Equal(t, []string{admin.Sending, admin.OnHold}, []string{list[0].State, list[1].State})
	require.Equal(t, ledger.DatasetOutOfReach, list[1].Reason)
	require.EqualValues(t, 1, list[1].Waiting)
	require.EqualValues(t, 2, list[0].Held)
	require.Equal(t, 33, list[1].Answer.Subcode)

	require.NoError(t, w.TryNow(t.Context(), operator, admintest.Shop, admintest.Second))
	w.Settle(admintest.Second, ledger.Sent, ledger.None, ledger.None, ledger.Answer{Status: 200})
	found, err = w.Findings(t.Context(), reader, admintest.Shop)
	require.NoError(t, err)
	access = slices.IndexFunc(found, func(f admin.Finding) bool { return f.ID == "access:1002" })
	require.Equal(t, "fixed", found[access].State)
	failed(t, w.TryNow(t.Context(), operator, admintest.Shop, admintest.Other), admin.NotFound)
	failed(t, w.TryNow(t.Context(), operator, admintest.Shop, ""), admin.Invalid)
}

func TestRetryReleaseDrop(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	all := w.Fill()
	ctx, shop := t.Context(), admintest.Shop
	for _, f := range []admin.Filter{{Event: all["neighbour"].ID.String()}, {Event: "nonsense"}, {Destination: admintest.Other}} {
		_, err := w.Retry(ctx, operator, shop, f)
		failed(t, err, admin.NotFound)
	}
	_, err := w.Retry(ctx, operator, shop, admin.Filter{Reason: "because"})
	failed(t, err, admin.Invalid)

	n, err := w.Retry(ctx, operator, shop, admin.Filter{Reason: "expired"})
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = w.Retry(ctx, operator, shop, admin.Filter{Reason: "refused", Event: all["failed"].ID.String(), Destination: admintest.First})
	require.NoError(t, err)
	require.Equal(t, 1, n)

	n, err = w.Release(ctx, operator, shop, admin.Filter{Event: all["clock"].ID.String()})
	require.NoError(t, err)
	require.Zero(t, n, "its time has not come")
	n, err = w.Release(ctx, operator, shop, admin.Filter{Reason: "maybe_sent"})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	w.Record(w.Make(shop, admintest.First, "Schedule", "visit-2", admintest.In(ledger.Held, ledger.MaybeSent)))
	n, err = w.Drop(ctx, operator, shop, admin.Filter{})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	b, err := w.Ledger(ctx, reader, shop, admin.LedgerQuery{})
	require.NoError(t, err)
	require.Equal(t, []int64{7, 1, 2, 2, 2, 0, 0}, []int64{b.Received, b.Sent, b.Waiting, b.Held, b.Skipped, b.Failed, b.Unexplained})
}

func TestARemovedDataset(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	w.Record(w.Make(admintest.Shop, admintest.Second, "Lead", "l1"))
	_, err := w.SkipRemoved(t.Context(), operator, admintest.Shop, admintest.Second)
	failed(t, err, admin.Conflict)

	gone := w.Targets[admintest.Second].ID
	w.Apply(admintest.First)
	require.NoError(t, w.Store.SetRemoved(t.Context(), gone, true))
	list, err := w.Destinations(t.Context(), reader, admintest.Shop)
	require.NoError(t, err)
	require.Equal(t, admin.Removed, list[1].State)
	failed(t, w.TryNow(t.Context(), operator, admintest.Shop, admintest.Second), admin.Conflict)
	n, err := w.SkipRemoved(t.Context(), operator, admintest.Shop, admintest.Second)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	list, err = w.Destinations(t.Context(), reader, admintest.Shop)
	require.NoError(t, err)
	require.Len(t, list, 1, "what is gone and empty is not shown")
}

func TestBackup(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	file := filepath.Join(t.TempDir(), "copy.db")
	failed(t, w.Backup(t.Context(), owner, "copy.db"), admin.Invalid)
	failed(t, w.Backup(t.Context(), owner, filepath.Join(t.TempDir(), "no", "copy.db")), admin.Invalid)
	require.NoError(t, w.Backup(t.Context(), owner, file))
	failed(t, w.Backup(t.Context(), owner, file), admin.Conflict)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestAPIKey(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	k, err := w.CreateAPIKey(t.Context(), owner, admintest.Shop, " till ")
	require.NoError(t, err)
	require.Equal(t, "till", k.Name)
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(k.Key, "cl_"))
	require.NoError(t, err)
	require.Len(t, raw, 32)
	require.Equal(t, 1, w.Reloads)
	kept, err := w.Store.APIKeys(t.Context())
	require.NoError(t, err)
	require.Equal(t, config.NewAPIKey("till", k.Key).Hash, kept[0].Hash)
	require.Equal(t, admintest.Shop, kept[0].Workspace)

	failed(t, second(w.CreateAPIKey(t.Context(), owner, admintest.Shop, "web")), admin.Conflict)
	failed(t, second(w.CreateAPIKey(t.Context(), owner, admintest.Shop, strings.Repeat("x", 61))), admin.Invalid)
	failed(t, second(w.CreateAPIKey(t.Context(), owner, admintest.Shop, "a\nb")), admin.Invalid)
}

func second[T any](_ T, err error) error { return err }

// fake is a platform that answers as told.
type fake struct {
	outcome ledger.Outcome
	sent    chan *ledger.Batch
}

func (fake) Encode(e *capi.Event, r platform.Rules) platform.Encoded {
	x := platform.Encoded{Problems: append(e.Normalise(r.Locale), e.Validate(r.Locale.Now)...)}
	x.Payload = e.AppendJSON(nil)
	return x
}
func (fake) Limits() (rows, bytes int) { return 1000, 1 << 20 }
func (f fake) Send(_ context.Context, _ platform.Account, b *ledger.Batch) ledger.Outcome {
	f.sent <- b
	return f.outcome
}

func (fake) Check(_ context.Context, a platform.Account) []platform.Check {
	if a.Destination.Name == admintest.Second {
		return []platform.Check{{Name: "token", Sentence: "The token is not valid.", NextStep: "Make a new one."}}
	}
	return []platform.Check{{Name: "token", OK: true, Sentence: "The token is valid."}, {Name: "dataset", Warning: true, Sentence: "It may not be read.", NextStep: "Nothing."}}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	p := fake{outcome: ledger.Accepted{Answer: ledger.Answer{Status: 200, TraceID: "T1"}}, sent: make(chan *ledger.Batch, 9)}
	w.Platforms[config.Meta] = p
	r, err := w.Doctor(t.Context(), reader, "", admin.DoctorOptions{})
	require.NoError(t, err)
	require.Len(t, r.Datasets, 3)
	require.False(t, r.OK)
	require.Equal(t, []bool{true, false, true}, []bool{r.Datasets[0].OK, r.Datasets[1].OK, r.Datasets[2].OK})
	require.Empty(t, p.sent)

	r, err = w.Doctor(t.Context(), operator, admintest.Shop, admin.DoctorOptions{SendTest: true, Destination: admintest.First})
	require.NoError(t, err)
	require.False(t, r.OK)
	require.Contains(t, r.Datasets[0].Checks[2].Sentence, "no test_event_code")
	require.Empty(t, p.sent)

	r, err = w.Doctor(t.Context(), operator, admintest.Shop, admin.DoctorOptions{SendTest: true, Destination: admintest.First, TestEventCode: "TEST1"})
	require.NoError(t, err)
	require.True(t, r.OK)
	require.Contains(t, r.Datasets[0].Checks[2].Sentence, "counts like any other event")
	b := <-p.sent
	require.Equal(t, "TEST1", b.Envelope.TestCode)
	require.NotContains(t, string(b.Rows[0].Payload), "doctor@example.com")
	require.Contains(t, string(b.Rows[0].Payload), `"event_time":`+strconv.FormatInt(admintest.Now.Unix(), 10))

	for _, o := range []ledger.Outcome{ledger.Hold{Reason: ledger.TokenInvalid}, ledger.Lost{}, ledger.RetryAt{}, ledger.Refusal{}} {
		p.outcome = o
		w.Platforms[config.Meta] = p
		r, err = w.Doctor(t.Context(), operator, admintest.Shop, admin.DoctorOptions{SendTest: true, Destination: admintest.First, TestEventCode: "TEST1"})
		require.NoError(t, err)
		require.False(t, r.OK)
		require.NotEmpty(t, r.Datasets[0].Checks[2].NextStep)
	}
	_, err = w.Doctor(t.Context(), reader, "", admin.DoctorOptions{Destination: "9"})
	failed(t, err, admin.NotFound)
}
