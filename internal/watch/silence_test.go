package watch_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// came records that events of a source came, each hour of the working days from nine to
// five, in the weeks until now.
func (p *post) came(t *testing.T, source string, weeks int, names ...string) {
	t.Helper()
	r := &store.Recording{Workspace: p.ws.ID}
	p.n++
	now := time.Time{}
	ids := ledger.NewIDs(p.Node()+p.n, func() time.Time { return now }) // of its own: others are of now
	for at := time.Now().AddDate(0, 0, -7*weeks).Truncate(time.Hour); at.Before(time.Now()); at = at.Add(time.Hour) {
		if at.Hour() < 9 || at.Hour() > 16 || at.Weekday() == time.Saturday || at.Weekday() == time.Sunday {
			continue
		}
		now = at
		for _, name := range names {
			r.Events = append(r.Events, p.one(ids.Next(), source, name))
		}
	}
	_, err := p.Record(t.Context(), r)
	require.NoError(t, err)
}

func (p *post) one(id ledger.ID, source, name string) *ledger.Event {
	return &ledger.Event{
		ID: id, Workspace: p.ws.ID, Source: source, Name: name, EventID: source + name + id.String(), Time: id.Time(),
		Deliveries: []ledger.Delivery{{ID: id.Delivery(1), Destination: p.ws.Datasets[0].ID, State: ledger.Skipped, Reason: ledger.NotLive}},
	}
}

func TestWhatUsuallyComesAndDoesNotIsFound(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, p *post) { // a Monday, at noon
		p.ws.Sources = []*config.Source{{Name: "forms", Kind: "meta_leads"}, {Name: "site", Kind: "website"}, {Name: "young", Kind: "website"}}
		p.rules(t)
		p.came(t, "forms", 4, "Lead")
		p.came(t, "site", 4, "Lead", "ViewContent")
		p.came(t, "shop-key", 4, "Purchase")
		p.came(t, "young", 1, "Lead")
		require.Empty(t, p.findings(t, time.Hour))
		steps := 0
		for ; len(p.findings(t, 2*time.Hour)) < 3 && steps < 30; steps++ { // noon to noon
			_, err := p.Record(t.Context(), &store.Recording{Workspace: p.ws.ID, Events: []*ledger.Event{p.one(p.ids.Next(), "site", "ViewContent")}})
			require.NoError(t, err)
		}
		require.Greater(t, steps, 3, "an afternoon is no silence")
		require.Less(t, steps, 16, "a day and a half of them is one")
		list, err := p.Findings(t.Context(), p.ws.ID)
		require.NoError(t, err)
		byTitle := map[string]ledger.Explanation{}
		for _, f := range list {
			byTitle[f.Explain().Title] = f.Explain()
		}
		forms := byTitle["No Lead from forms since 2026-11-30 12:00 UTC"]
		require.Contains(t, forms.Cause, "The platform was asked and has no new leads either")
		require.Equal(t, ledger.Client, forms.Owner)
		require.Contains(t, byTitle["No Lead from site since 2026-11-30 12:00 UTC"].NextStep, "capiloop dedup-test", "the page lives, its form does not")
		require.Contains(t, byTitle["No Purchase from shop-key since 2026-11-30 12:00 UTC"].Cause, "The program that sends by this key")
		require.Len(t, byTitle, 3, "of a source a week old nobody can tell")

		for _, of := range [][2]string{{"forms", "Lead"}, {"site", "Lead"}, {"shop-key", "Purchase"}} {
			_, err := p.Record(t.Context(), &store.Recording{Workspace: p.ws.ID, Events: []*ledger.Event{p.one(p.ids.Next(), of[0], of[1])}})
			require.NoError(t, err)
		}
		require.Empty(t, p.findings(t, time.Hour), "they close by themselves")
	})
}

// All that a source brings has one cause, and a source that cannot be read has another.
func TestOneSilenceHasOneFinding(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, p *post) {
		p.ws.Sources = []*config.Source{{Name: "site", Kind: "website"}, {Name: "forms", Kind: "meta_leads"}}
		p.rules(t)
		p.came(t, "site", 4, "Lead", "ViewContent", "Contact")
		p.came(t, "forms", 4, "Lead")
		require.NoError(t, p.Raise(t.Context(), ledger.Finding{Workspace: p.ws.ID, Kind: ledger.FindingSource, Subject: "forms", Evidence: string(ledger.TokenInvalid), At: time.Now()}))
		const known = "The leads of forms cannot be read"
		titles := p.findings(t, 40*time.Hour)
		require.ElementsMatch(t, []string{known, "Nothing from site since 2026-11-30 12:00 UTC"}, titles)
		require.ElementsMatch(t, []string{known, "Nothing from site since 2026-11-30 12:00 UTC"}, p.findings(t, 3*day), "days later it is still so")
	})
}
