package watch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
	"github.com/capiloop/capiloop/internal/watch"
)

const day = 24 * time.Hour

// post is a store with one workspace and a watcher over it, in a bubble of its own time.
type post struct {
	*store.Store
	ws   *config.Workspace
	ids  *ledger.IDs
	live *config.Live
	n    int
}

// inBubble runs a test at a post; the watcher runs until its end.
func inBubble(t *testing.T, test func(t *testing.T, p *post)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)))
		s, err := store.Open(t.Context(), store.Config{Database: t.TempDir() + "/capiloop.db"})
		require.NoError(t, err)
		applied, err := s.ApplyFile(t.Context(), []store.FileWorkspace{{Name: "school", Destinations: []store.FileDestination{{Kind: "meta", Name: "1", Live: true}}}})
		require.NoError(t, err)
		p := &post{Store: s, ids: ledger.NewIDs(s.Node(), time.Now)}
		p.ws = &config.Workspace{ID: applied.Workspaces["school"], Name: "school", Datasets: []*config.Dataset{{Destination: applied.Destinations["meta/1"]}}}
		p.rules(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			watch.New(watch.Config{Store: s, Settings: p.live}).Run(ctx)
			close(done)
		}()
		defer func() {
			cancel()
			<-done
			require.NoError(t, s.Close())
		}()
		test(t, p)
	})
}

// rules puts rules in force.
func (p *post) rules(t *testing.T, rules ...ledger.Rule) {
	t.Helper()
	ws := *p.ws
	ws.Rules = rules
	snapshot, err := config.NewSnapshot(&ws)
	require.NoError(t, err)
	if p.live == nil {
		p.live = config.NewLive(snapshot)
	}
	p.live.Set(snapshot)
}

// findings waits for the next looks and returns the titles of what is open.
func (p *post) findings(t *testing.T, wait time.Duration) (titles []string) {
	t.Helper()
	time.Sleep(wait)
	synctest.Wait()
	list, err := p.Findings(t.Context(), p.ws.ID)
	require.NoError(t, err)
	for _, f := range list {
		if f.FixedAt.IsZero() {
			x := f.Explain()
			require.NotEmpty(t, x.Cause)
			require.NotEmpty(t, x.NextStep)
			titles = append(titles, x.Title)
		}
	}
	return titles
}

// event records an event whose deadline is then.
func (p *post) event(t *testing.T, name string, left time.Duration, state ledger.State, why ledger.Reason) {
	t.Helper()
	id := p.ids.Next()
	_, err := p.Record(t.Context(), &store.Recording{Workspace: p.ws.ID, Events: []*ledger.Event{{
		ID: id, Workspace: p.ws.ID, Source: "crm", Name: name, EventID: id.String(), Time: time.Now(), ActionSource: "system_generated",
		Deliveries: []ledger.Delivery{{
			ID: id.Delivery(1), Destination: p.ws.Datasets[0].ID, State: state, Reason: why, Payload: []byte("{}"), Priority: ledger.Ordinary, Deadline: time.Now().Add(left),
		}},
	}}})
	require.NoError(t, err)
}

// leads records leads of Meta's that were created a while ago; made tells whether an event
// was made of each.
func (p *post) leads(t *testing.T, n int, ago time.Duration, made bool) {
	t.Helper()
	for range n {
		p.n++
		id := p.ids.Next()
		r := &store.LeadRecording{
			Lead: ledger.Lead{ID: id, Workspace: p.ws.ID, Source: "forms", Kind: "meta_leads", Platform: "meta", LeadID: id.String(), CreatedAt: time.Now().Add(-ago)},
			At:   time.Now(), IDs: [][]byte{[]byte(id.String())}, Wrapped: []byte{1}, Sealed: []byte{2},
		}
		if made {
			e := p.ids.Next()
			r.Events = []store.LeadEvent{{Name: "Lead", At: time.Now(), Event: &ledger.Event{
				ID: e, Workspace: p.ws.ID, Source: "forms", Name: "Lead", EventID: e.String(), Time: time.Now(),
				Deliveries: []ledger.Delivery{{ID: e.Delivery(1), State: ledger.Skipped, Reason: ledger.NotLive}},
			}}}
		}
		_, err := p.RecordLead(t.Context(), r)
		require.NoError(t, err)
	}
}

// move records a move that was told of late.
func (p *post) move(t *testing.T, late time.Duration) {
	t.Helper()
	p.n++
	change := ledger.StageChange{Stage: "Won", At: time.Now().Add(-late)}
	id := p.ids.Next()
	_, err := p.ChangeStage(t.Context(), &store.StageWrite{
		ID: id, Workspace: p.ws.ID, Source: "sales", Change: &change, Hash: []byte(id.String()), IDs: [][]byte{[]byte(id.String())},
		NewLead: &store.LeadRecording{
			Lead: ledger.Lead{ID: p.ids.Next(), Workspace: p.ws.ID, Source: "sales", Kind: "pipedrive", CreatedAt: change.At}, At: time.Now(), Wrapped: []byte{1}, Sealed: []byte{2},
		},
		Decide: func(*store.StageFacts) (store.StageDecision, error) {
			return store.StageDecision{Effect: ledger.EffectNoRule}, nil
		},
	})
	require.NoError(t, err)
}

func TestWhatIsSoonTooLateIsFound(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, p *post) {
		require.Empty(t, p.findings(t, time.Second))
		p.event(t, "Lead", time.Hour, ledger.Waiting, ledger.None) // leaves within seconds
		p.event(t, "Purchase", 30*time.Hour, ledger.Held, ledger.BulkChange)
		p.event(t, "Purchase", 20*time.Hour, ledger.Held, ledger.ValueOutlier)
		p.event(t, "Purchase", 21*time.Hour, ledger.Held, ledger.BulkChange)
		const ask = "Events wait for your OK (crm)"
		require.Equal(t, []string{"Soon too late: 2 Purchase for 1", ask}, p.findings(t, 10*time.Minute))
		require.Equal(t, []string{"Soon too late: 3 Purchase for 1", ask}, p.findings(t, 7*time.Hour))
		list, err := p.Findings(t.Context(), p.ws.ID)
		require.NoError(t, err)
		x := list[0].Explain()
		require.Equal(t, ledger.ValueOutlier.Sentence()+" The first is lost at 2026-12-01T08:00:01Z.", x.Cause)
		require.Contains(t, x.NextStep, "capiloop retry --held --reason value_outlier")
		_, err = p.Decide(t.Context(), store.RetryQuery{Workspace: p.ws.ID, Now: time.Now()}, false)
		require.NoError(t, err)
		require.Empty(t, p.findings(t, 10*time.Minute))
	})
}

func TestWhatTheRulesLeaveOutIsFound(t *testing.T) {
	t.Parallel()
	received, qualified := ledger.Rule{Stage: ledger.StageReceived, Event: "Lead"}, ledger.Rule{Stage: "Qualified", Event: "QualifiedLead"}
	won, sold := ledger.Rule{Stage: "Abschluss", Event: "Sale"}, ledger.Rule{Stage: "Won", Event: "Purchase"}
	first := ledger.Rule{Stage: "Neu", Event: "NewDeal"}
	few, raw, winners := "Meta learns of too few stages", "Meta does not learn of the raw lead", "Meta learns of winners only"
	for name, c := range map[string]struct {
		rules []ledger.Rule
		want  []string
	}{
		"no rules":              {nil, nil},
		"all":                   {[]ledger.Rule{received, qualified, sold}, nil},
		"one":                   {[]ledger.Rule{received}, []string{few}},
		"two of one event":      {[]ledger.Rule{received, {Stage: "New", Event: "Lead"}}, []string{few}},
		"no raw lead":           {[]ledger.Rule{qualified, sold}, []string{raw}},
		"first of the list":     {[]ledger.Rule{first, qualified}, nil},
		"raw lead by its event": {[]ledger.Rule{{Stage: "Anfrage", Event: "Lead"}, qualified}, nil},
		"won by the CRM's word": {[]ledger.Rule{won, sold}, []string{raw, winners}},
		"sale by its name":      {[]ledger.Rule{sold}, []string{few, raw, winners}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, p *post) {
				stages := []ledger.Stage{{ID: "1", Label: "Neu", Pipeline: "1", Meaning: ledger.MeaningOpen}, {ID: "2", Label: "Qualified", Pipeline: "1", Meaning: ledger.MeaningOpen}, {ID: "3", Label: "Abschluss", Pipeline: "1", Meaning: ledger.MeaningWon}}
				require.NoError(t, p.SaveStages(t.Context(), p.ws.ID, "sales", stages, time.Now(), func(ledger.Stage) bool { return false }))
				p.rules(t, c.rules...)
				require.ElementsMatch(t, c.want, p.findings(t, time.Hour))
				p.rules(t, received, qualified, sold)
				require.Empty(t, p.findings(t, time.Hour), "they close by themselves")
			})
		})
	}
}

func TestVolumeIsMeasured(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, p *post) {
		aged := func(days int) {
			p.ws.Datasets[0].CreatedAt = time.Now().Add(-time.Duration(days) * day)
			p.rules(t, ledger.Rule{Stage: ledger.StageReceived, Event: "Lead"}, ledger.Rule{Stage: "Qualified", Event: "QualifiedLead"})
		}
		aged(6)
		p.leads(t, 12, 27*day, true)
		p.leads(t, 9, 29*day, false)
		require.Empty(t, p.findings(t, time.Hour), "too young to tell")
		aged(9)
		require.Equal(t, []string{"12 of 200 leads a month so far"}, p.findings(t, time.Hour))
		p.leads(t, 18, 0, false)
		for range 9 {
			p.move(t, 31*time.Hour)
		}
		require.ElementsMatch(t, []string{"30 of 200 leads a month so far", "40 % of Meta's leads have an event"}, p.findings(t, time.Hour))
		p.move(t, 40*time.Hour)
		require.ElementsMatch(t, []string{
			"30 of 200 leads a month so far", "40 % of Meta's leads have an event", "Stage changes come 31 hours after they happened",
		}, p.findings(t, time.Hour))

		aged(28)
		p.leads(t, 18, 0, true)
		for range 11 {
			p.move(t, time.Minute)
		}
		require.Equal(t, []string{"48 of 200 leads a month: this improves measuring, not delivery"}, p.findings(t, time.Hour))
		p.leads(t, 152, 0, true)
		require.Empty(t, p.findings(t, time.Hour))
	})
}

// Where Meta brings no leads, nothing is said of how few they are.
func TestWithoutMetasLeadsNothingIsSaidOfThem(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, p *post) {
		p.ws.Datasets[0].CreatedAt = time.Now().Add(-100 * day)
		p.rules(t, ledger.Rule{Stage: ledger.StageReceived, Event: "Lead"}, ledger.Rule{Stage: "Qualified", Event: "QualifiedLead"})
		p.leads(t, 20, 40*day, false)
		require.Empty(t, p.findings(t, time.Hour))
	})
}
