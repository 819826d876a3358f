package admin_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/admin/admintest"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/report"
)

// On a busy site there are more looks at pages than can be compared. The sign-ups among
// them are counted all the same, all of them.
func TestLooksAtPagesDoNotCrowdOutTheRest(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	m := report.Meter{Store: w.Store, Prints: admintest.Prints, Most: 20}
	at := admintest.Now.Add(-48 * time.Hour)
	received := func(g *ledger.Sighting) { at = at.Add(20 * time.Minute); g.ID, g.At = ledger.IDAt(at), at }
	for n := range 10 {
		saw(w, n, "Lead", "a"+strconv.Itoa(n), received)
		for range 9 {
			saw(w, n, "PageView", "", received)
		}
		w.Record(w.Make(admintest.Shop, admintest.First, "Lead", "a"+strconv.Itoa(n), func(e *ledger.Event) {
			e.ID, e.Time = ledger.IDAt(at.Add(time.Second)), at
			e.Deliveries[0].ID = e.ID.Delivery(1)
		}))
	}
	measure := func() *report.Dedup {
		t.Helper()
		d, err := m.Measure(t.Context(), w.Settings.Get().Workspace(admintest.Shop), admintest.Now.Add(-72*time.Hour), admintest.Now)
		require.NoError(t, err)
		require.Len(t, d.Rows, 2)
		return d
	}
	d := measure()
	require.False(t, d.CutShort)
	lead, view := d.Rows[0], d.Rows[1]
	require.Equal(t, []any{"Lead", 10, 10, 10}, []any{lead.Event, lead.Browser, lead.Server, lead.Paired})
	require.Equal(t, []string{"10 of the 10 that both sides know pair."}, lead.Sentences)
	require.Equal(t, "PageView", view.Event)
	require.Less(t, view.Browser, 20)
	require.Contains(t, view.Sentences[len(view.Sentences)-1], "Counted since 2")

	// Where there are too many of the rest, the span is shorter, but never none.
	m.Most = 8
	d = measure()
	require.True(t, d.CutShort)
	require.True(t, d.From.Before(admintest.Now))
	lead = d.Rows[0]
	require.Equal(t, lead.Browser, lead.Paired)
	require.Greater(t, lead.Paired, 1)
}
