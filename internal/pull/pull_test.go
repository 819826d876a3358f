package pull_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/pull"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
)

// form is a platform's form: leads by id, and what goes wrong next.
type form struct {
	mu      sync.Mutex
	leads   map[string]time.Time // when each was created
	order   []string
	trouble map[string][]error // per lead, used up one by one; "sweep" for the list
	slow    time.Duration      // of one read
	reads   map[string]int
}

func newForm() *form {
	return &form{leads: map[string]time.Time{}, trouble: map[string][]error{}, reads: map[string]int{}}
}

// fill makes a person fill in the form.
func (f *form) fill(at time.Time) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := strconv.Itoa(987650000000000 + len(f.leads))
	f.leads[id] = at
	f.order = append(f.order, id)
	return id
}

func (f *form) fail(what string, errs ...error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trouble[what] = append(f.trouble[what], errs...)
}

func (f *form) next(what string) error {
	f.reads[what]++
	if list := f.trouble[what]; len(list) > 0 {
		f.trouble[what] = list[1:]
		return list[0]
	}
	return nil
}

func lead(id string, created time.Time) ledger.Lead {
	return ledger.Lead{Platform: "linkedin", LeadID: id, CreatedAt: created, Contact: ledger.Contact{Email: "p" + id + "@example.com"}}
}

func (*form) Options() []leadform.Option { return nil }
func (*form) Receive(leadform.Request, leadform.Source, time.Time) leadform.Received {
	return leadform.Received{}
}

func (f *form) Fetch(_ context.Context, _ leadform.Source, n leadform.Notice) (ledger.Lead, error) {
	time.Sleep(f.slow)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.next(n.Key); err != nil {
		return ledger.Lead{}, err
	}
	created, ok := f.leads[n.Key]
	if !ok {
		return ledger.Lead{}, &leadform.FetchError{Outcome: ledger.Refusal{}, Err: leadform.ErrNoLead}
	}
	return lead(n.Key, created), nil
}

func (f *form) Sweep(_ context.Context, _ leadform.Source, since time.Time) iter.Seq2[ledger.Lead, error] {
	return func(yield func(ledger.Lead, error) bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if err := f.next("sweep"); err != nil {
			yield(ledger.Lead{}, err)
			return
		}
		for _, id := range f.order {
			if !f.leads[id].Before(since) && !yield(lead(id, f.leads[id]), nil) {
				return
			}
		}
	}
}

// rig is a puller at work in a bubble.
type rig struct {
	form   *form
	crm    *teller
	store  *store.Store
	puller *pull.Puller
	ws     *config.Workspace
	ids    *ledger.IDs
	log    *strings.Builder
}

func inBubble(t *testing.T, before func(f *form), test func(t *testing.T, r *rig), rules ...ledger.Rule) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)))
		dir := t.TempDir()
		s, err := store.Open(t.Context(), store.Config{Database: filepath.Join(dir, "capiloop.db")})
		require.NoError(t, err)
		applied, err := s.ApplyFile(t.Context(), []store.FileWorkspace{{
			Name: "estate", Sources: []store.FileSource{{Kind: "linkedin_leads", Name: "forms"}},
			CRMs: []store.FileCRM{{Kind: "webhook", Name: "crm"}},
		}})
		require.NoError(t, err)
		master, err := secret.LoadMaster(filepath.Join(dir, "master.key"), os.LookupEnv)
		require.NoError(t, err)
		ring, _ := master.NewRing(applied.Workspaces["estate"])
		row := applied.Sources["estate/forms"]
		r := &rig{form: newForm(), crm: &teller{}, store: s, ids: ledger.NewIDs(s.Node(), time.Now), log: &strings.Builder{}}
		r.ws = &config.Workspace{
			ID: applied.Workspaces["estate"], Name: "estate", Ring: ring,
			CRMs: []*config.CRM{{Destination: applied.CRMs["estate/crm"].Destination, Poll: config.DefaultPoll}}, Rules: rules,
			Sources: []*config.Source{{ID: row.ID, Workspace: applied.Workspaces["estate"], Kind: "linkedin_leads", Name: "forms", CreatedAt: row.CreatedAt}},
		}
		snapshot, err := config.NewSnapshot(r.ws)
		require.NoError(t, err)
		r.puller = pull.New(pull.Config{
			Store: s, Settings: config.NewLive(snapshot), Kinds: map[string]leadform.Kind{"linkedin_leads": r.form},
			CRMs: map[string]crm.CRM{"webhook": r.crm},
			Account: func(context.Context, *config.Workspace, *config.CRM) crm.Account {
				return crm.Account{Options: secret.NewOptions(nil, map[string][]string{"watch": {"Score"}}, nil)}
			},
			Recorder: record.New(record.Config{Store: s, IDs: r.ids}), Log: slog.New(slog.NewTextHandler(r.log, nil)),
		})
		before(r.form)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.puller.Run(ctx); close(done) }()
		defer func() {
			cancel()
			<-done
			require.NotContains(t, r.log.String(), "example.com", "nothing personal in the log")
			require.NoError(t, s.Close())
		}()
		test(t, r)
	})
}

func nothing(*form) {}

// announce writes down the notice of a lead, as intake does.
func (r *rig) announce(t *testing.T, id string, deleted bool) {
	t.Helper()
	_, err := r.store.AddNotices(t.Context(), []store.Notice{{
		ID: r.ids.Next(), Workspace: r.ws.ID, Source: r.ws.Sources[0].ID, Key: id, Deleted: deleted, Body: []byte("{}"), At: time.Now(),
	}})
	require.NoError(t, err)
}

// leads are those that are kept, by their id at the platform.
func (r *rig) leads(t *testing.T) map[string]store.LeadRow {
	t.Helper()
	list, err := r.store.Leads(t.Context(), r.ws.ID, 0, 1000)
	require.NoError(t, err)
	byID := make(map[string]store.LeadRow)
	for _, row := range list {
		require.NotContains(t, byID, row.Lead.LeadID, "none twice")
		byID[row.Lead.LeadID] = row
	}
	return byID
}

func (r *rig) notices(t *testing.T) map[store.NoticeState]int64 {
	t.Helper()
	counts, err := r.store.NoticeCounts(t.Context(), r.ws.ID)
	require.NoError(t, err)
	return counts
}

// finding returns the finding about the source's access; zero: there is none.
func (r *rig) finding(t *testing.T) ledger.Finding {
	t.Helper()
	list, err := r.store.Findings(t.Context(), r.ws.ID)
	require.NoError(t, err)
	for _, f := range list {
		if f.Kind == ledger.FindingSource {
			return f
		}
	}
	return ledger.Finding{}
}

func TestAnAnnouncedLeadIsReadAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, nothing, func(t *testing.T, r *rig) {
		time.Sleep(time.Minute)
		for range 50 { // more than one round takes
			r.announce(t, r.form.fill(time.Now()), false)
		}
		time.Sleep(time.Second)
		require.Len(t, r.leads(t), 50)
		require.EqualValues(t, 50, r.notices(t)[store.NoticeDone])
		book, err := r.store.Book(t.Context(), store.BookQuery{Workspace: r.ws.ID, Leads: true})
		require.NoError(t, err)
		require.EqualValues(t, 50, book.By[ledger.Waiting][ledger.None], "each waits for its CRM")
	})
}

func TestATransientErrorIsTriedAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, nothing, func(t *testing.T, r *rig) {
		time.Sleep(time.Minute)
		id := r.form.fill(time.Now())
		r.form.fail(id, errors.New("connection reset"), &leadform.FetchError{
			Outcome: ledger.RetryAt{Reason: ledger.Throttled, Wait: 2 * time.Minute}, Err: errors.New("slow down"),
		})
		r.announce(t, id, false)
		time.Sleep(2 * time.Minute)
		require.Empty(t, r.leads(t))
		require.EqualValues(t, 1, r.notices(t)[store.NoticeWaiting])
		require.Empty(t, r.finding(t), "nobody need do anything")
		time.Sleep(time.Minute)
		require.Len(t, r.leads(t), 1)
		require.Equal(t, 3, r.form.reads[id])
	})
}

func TestWithoutAccessALeadIsHeldUntilItIsBack(t *testing.T) {
	t.Parallel()
	inBubble(t, nothing, func(t *testing.T, r *rig) {
		time.Sleep(time.Minute)
		id := r.form.fill(time.Now())
		denied := &leadform.FetchError{Outcome: ledger.Hold{Reason: ledger.PermissionMissing}, Err: errors.New("no access")}
		r.form.fail(id, denied, denied, denied)
		r.announce(t, id, false)
		time.Sleep(10 * time.Second)
		f := r.finding(t)
		require.Equal(t, "forms", f.Subject)
		require.Equal(t, string(ledger.PermissionMissing), f.Evidence)
		require.True(t, f.FixedAt.IsZero())
		time.Sleep(5 * time.Minute)
		require.Len(t, r.leads(t), 1)
		require.False(t, r.finding(t).FixedAt.IsZero(), "the finding closes by itself")
	})
}

func TestALeadThatIsNotThereEnds(t *testing.T) {
	t.Parallel()
	inBubble(t, nothing, func(t *testing.T, r *rig) {
		r.announce(t, "987650000099999", false)
		time.Sleep(10 * time.Second)
		require.EqualValues(t, 1, r.notices(t)[store.NoticeFailed])
		require.Empty(t, r.leads(t))
	})
}

func TestALeadThatWasTakenBackIsForgotten(t *testing.T) {
	t.Parallel()
	inBubble(t, nothing, func(t *testing.T, r *rig) {
		time.Sleep(time.Minute)
		id := r.form.fill(time.Now())
		r.announce(t, id, false)
		time.Sleep(time.Second)
		require.NotNil(t, r.leads(t)[id].Sealed)
		r.announce(t, id, true)
		time.Sleep(time.Minute)
		row := r.leads(t)[id]
		require.Nil(t, row.Sealed)
		require.Nil(t, row.Wrapped)
		require.False(t, row.ClearedAt.IsZero())
		require.EqualValues(t, 2, r.notices(t)[store.NoticeDone])
		time.Sleep(20 * time.Minute)
		require.Nil(t, r.leads(t)[id].Sealed, "the sweep does not bring it back")
	})
}

// Both notices come together: the withdrawal is done before the lead was read.
func TestALeadThatWasTakenBackWhileItWasRead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(f *form) { f.slow = 3 * time.Second }, func(t *testing.T, r *rig) {
		time.Sleep(time.Minute)
		id := r.form.fill(time.Now())
		r.announce(t, id, false)
		r.announce(t, id, true)
		time.Sleep(time.Minute)
		require.False(t, r.leads(t)[id].ClearedAt.IsZero())
		require.EqualValues(t, 2, r.notices(t)[store.NoticeDone])
	})
}

func TestTheSweepCatchesWhatNoWebhookTold(t *testing.T) {
	t.Parallel()
	inBubble(t, nothing, func(t *testing.T, r *rig) {
		time.Sleep(time.Minute)
		for i := range 20 {
			id := r.form.fill(time.Now())
			if i%4 != 0 { // five of them are never told
				r.announce(t, id, false)
				r.announce(t, id, false) // and the others twice
			}
			time.Sleep(10 * time.Second)
		}
		require.Len(t, r.leads(t), 15)
		time.Sleep(15 * time.Minute)
		require.Len(t, r.leads(t), 20)
		require.Contains(t, r.log.String(), "swept=5")
		time.Sleep(31 * time.Minute)
		require.Equal(t, 1, strings.Count(r.log.String(), "leads swept"), "none twice")
	})
}

func TestAFailedSweepLooksFromTheSameTimeAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, nothing, func(t *testing.T, r *rig) {
		time.Sleep(time.Minute)
		denied := &leadform.FetchError{Outcome: ledger.Hold{Reason: ledger.TokenInvalid}, Err: errors.New("token expired")}
		r.form.fail("sweep", denied, denied, errors.New("connection reset"))
		r.form.fill(time.Now())
		time.Sleep(30 * time.Minute)
		require.Empty(t, r.leads(t))
		require.True(t, r.finding(t).FixedAt.IsZero())
		require.Equal(t, string(ledger.TokenInvalid), r.finding(t).Evidence)
		time.Sleep(31 * time.Minute)
		require.Len(t, r.leads(t), 1)
		require.False(t, r.finding(t).FixedAt.IsZero())
	})
}

func TestLeadsFromBeforeTheConnectionAreHistory(t *testing.T) {
	t.Parallel()
	var old string
	inBubble(t, func(f *form) { old = f.fill(time.Now().Add(-time.Hour)) }, func(t *testing.T, r *rig) {
		time.Sleep(20 * time.Minute)
		require.Empty(t, r.leads(t), "the sweep begins with the connection")
		r.announce(t, old, false)
		fresh := r.form.fill(time.Now())
		r.announce(t, fresh, false)
		time.Sleep(time.Second)
		require.True(t, r.leads(t)[old].Lead.History)
		require.False(t, r.leads(t)[fresh].Lead.History)
		life, err := r.store.LeadLife(t.Context(), r.leads(t)[old].Lead.ID)
		require.NoError(t, err)
		require.Empty(t, life.Deliveries, "history is not carried into a CRM")
	})
}

func TestABackfillIsHistory(t *testing.T) {
	t.Parallel()
	inBubble(t, func(f *form) {
		for i := range 30 {
			f.fill(time.Now().AddDate(0, 0, -i))
		}
	}, func(t *testing.T, r *rig) {
		time.Sleep(time.Second)
		known := len(r.leads(t)) // what the first sweep has taken
		seen, fresh, err := r.puller.Backfill(t.Context(), "estate", "forms", time.Now().AddDate(0, 0, -90))
		require.NoError(t, err)
		require.Equal(t, 30, seen)
		require.Equal(t, 30-known, fresh)
		history := 0
		for _, row := range r.leads(t) {
			if row.Lead.History {
				history++
			}
		}
		require.Equal(t, 30-known, history)
		_, fresh, err = r.puller.Backfill(t.Context(), "estate", "forms", time.Now().AddDate(0, 0, -90))
		require.NoError(t, err)
		require.Zero(t, fresh, "again brings nothing")
		for _, c := range [][2]string{{"nobody", "forms"}, {"estate", "others"}} {
			_, _, err = r.puller.Backfill(t.Context(), c[0], c[1], time.Now())
			require.Error(t, err)
		}
	})
}
