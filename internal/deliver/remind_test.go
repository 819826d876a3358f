package deliver_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/deliver"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
)

// people get leads as messages and are reminded of them.
type people struct {
	fakeCRM

	mu     sync.Mutex
	asked  []crm.Reminding
	at     []time.Time
	answer ledger.Outcome // nil: it goes out
}

func (p *people) Remind(_ context.Context, a crm.Account, r crm.Reminding) ledger.Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range r.Leads {
		if a.MarkURL(l.Lead) == "" {
			panic("no link")
		}
	}
	p.asked, p.at = append(p.asked, r), append(p.at, time.Now())
	if p.answer != nil {
		return p.answer
	}
	return ledger.Accepted{}
}

func (p *people) set(o ledger.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = o
}

func (p *people) times() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for _, at := range p.at {
		list = append(list, at.UTC().Format("2 15:04"))
	}
	return list
}

// office is a firm without a CRM whose nodes are deliverers on one database.
type office struct {
	people   *people
	store    *store.Store
	recorder *record.Recorder
	ids      *ledger.IDs
	ws       *config.Workspace
	n        int
}

func officeInBubble(t *testing.T, nodes int, test func(t *testing.T, o *office)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)))
		dir := t.TempDir()
		s, err := store.Open(t.Context(), store.Config{Database: filepath.Join(dir, "capiloop.db")})
		require.NoError(t, err)
		applied, err := s.ApplyFile(t.Context(), []store.FileWorkspace{{Name: "rohrfix", CRMs: []store.FileCRM{{Kind: "people", Name: "mail"}}}})
		require.NoError(t, err)
		master, err := secret.LoadMaster(filepath.Join(dir, "master.key"), os.LookupEnv)
		require.NoError(t, err)
		ring, _ := master.NewRing(applied.Workspaces["rohrfix"])
		almaty := time.FixedZone("Almaty", 5*3600)
		o := &office{people: &people{}, store: s}
		o.ws = &config.Workspace{ID: applied.Workspaces["rohrfix"], Name: "rohrfix", Ring: ring, Timezone: almaty, CRMs: []*config.CRM{{
			Destination: ledger.Destination{ID: applied.CRMs["rohrfix/mail"].ID, Workspace: applied.Workspaces["rohrfix"], Kind: "people", Name: "mail"},
		}}}
		snapshot, err := config.NewSnapshot(o.ws)
		require.NoError(t, err)
		o.ids = ledger.NewIDs(s.Node(), time.Now)
		o.recorder = record.New(record.Config{Store: s, IDs: o.ids})
		account := func(_ context.Context, w *config.Workspace, c *config.CRM) crm.Account {
			return crm.Account{ID: c.ID, Workspace: w.ID, Kind: c.Kind, Name: c.Name, Marks: true, MarkURL: func(lead ledger.ID) string { return "https://x.example/m/" + lead.String() }}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for n := range nodes {
			d := deliver.New(deliver.Config{Store: s, Settings: config.NewLive(snapshot), CRMs: map[string]crm.CRM{"people": o.people}, Account: account, IDs: o.ids, Node: fmt.Sprint("node", n)})
			running.Go(func() { d.Remind(ctx) })
		}
		defer func() {
			cancel()
			running.Wait()
			require.NoError(t, s.Close())
		}()
		test(t, o)
	})
}

func (o *office) lead(t *testing.T) ledger.ID {
	t.Helper()
	o.n++
	done, err := o.recorder.Lead(t.Context(), o.ws, &ledger.Lead{
		Source: "site", Kind: "website", DedupeKey: strconv.Itoa(o.n), CreatedAt: time.Now(), Origin: ledger.Origin{FormName: "Bath"},
		Contact: ledger.Contact{Email: fmt.Sprintf("p%d@example.com", o.n)},
	})
	require.NoError(t, err)
	b, lane, err := o.store.Claim(t.Context(), store.ClaimRequest{
		Destination: o.ws.CRMs[0].ID, Node: "n", Batch: o.ids.Next(), Now: time.Now(), Lease: time.Minute, MaxRows: 2, MaxBytes: 1 << 20, Leads: true,
	})
	require.NoError(t, err)
	st := &ledger.Settlement{Batch: b, Outcome: "sent", Lane: lane, Changes: []ledger.Change{{Row: b.Rows[0], State: ledger.Sent}}}
	require.NoError(t, o.store.Settle(t.Context(), st))
	return done.ID
}

func (o *office) mark(t *testing.T, lead ledger.ID) {
	t.Helper()
	_, err := o.recorder.Stages(t.Context(), o.ws, "mail", ledger.KindMark, o.ws.CRMs[0].ID, []ledger.StageChange{{Lead: lead, Stage: "Bad", Key: "mark/" + lead.String(), By: "link"}})
	require.NoError(t, err)
}

// Leads of Monday noon and of Tuesday noon: nobody says a word until one is marked.
func TestPeopleAreRemindedOnceADay(t *testing.T) {
	t.Parallel()
	officeInBubble(t, 2, func(t *testing.T, o *office) {
		first := o.lead(t)
		time.Sleep(24 * time.Hour)
		second := o.lead(t)
		time.Sleep(3 * 24 * time.Hour)
		// Nine in the morning there is four in UTC; on Wednesday the first is 40 hours old.
		require.Equal(t, []string{"5 04:00", "6 04:00"}, o.people.times())
		require.Len(t, o.people.asked[0].Leads, 1)
		require.Equal(t, "Bath", o.people.asked[0].Leads[0].Form)
		require.Len(t, o.people.asked[1].Leads, 2)
		require.Equal(t, "2026-11-06", o.people.asked[1].Day)
		o.mark(t, first)
		time.Sleep(24 * time.Hour)
		require.Equal(t, second, o.people.asked[2].Leads[0].Lead)
		require.Len(t, o.people.asked[2].Leads, 1)
		o.mark(t, second)
		time.Sleep(24 * time.Hour)
		require.Len(t, o.people.times(), 3, "there is nothing to ask")
	})
}

func TestAReminderThatFailsIsTriedAgainThatDay(t *testing.T) {
	t.Parallel()
	officeInBubble(t, 2, func(t *testing.T, o *office) {
		o.lead(t)
		o.people.set(ledger.RetryAt{Reason: ledger.Backlog, Answer: ledger.Answer{Status: 503}})
		time.Sleep(2*24*time.Hour + 16*time.Hour + 40*time.Minute) // Thursday, 4:40
		require.Equal(t, []string{"5 04:00", "5 04:15", "5 04:30"}, o.people.times())
		o.people.set(ledger.Hold{Reason: ledger.TokenInvalid})
		time.Sleep(10 * time.Minute)
		o.people.set(ledger.Lost{})
		time.Sleep(23 * time.Hour)
		require.Equal(t, []string{"5 04:45", "5 05:00"}, o.people.times()[3:], "what may have arrived is not sent twice")
		o.people.set(ledger.RetryAt{Reason: ledger.Backlog})
		time.Sleep(12 * time.Hour)
		times := o.people.times()[5:]
		require.Equal(t, "6 04:00", times[0])
		require.Equal(t, "6 14:45", times[len(times)-1], "not in the night")
	})
}
