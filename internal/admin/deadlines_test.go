package admin_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/admin/admintest"
	"github.com/capiloop/capiloop/internal/ledger"
)

func TestDeadlinesAreListed(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	until := func(left time.Duration) func(*ledger.Event) {
		return func(e *ledger.Event) { e.Deliveries[0].Deadline = admintest.Now.Add(left) }
	}
	w.Record(
		w.Make(admintest.Shop, admintest.First, "Lead", "1", until(3*time.Hour), admintest.In(ledger.Held, ledger.ClockAhead)),
		w.Make(admintest.Shop, admintest.First, "Purchase", "2", until(2*time.Hour), admintest.In(ledger.Held, ledger.BulkChange)),
		w.Make(admintest.Shop, admintest.Second, "Purchase", "3", until(30*time.Hour)),
	)
	c, _ := serve(t, w.Admin)
	for _, a := range []admin.Actions{w.Admin, c} {
		list, err := a.Deadlines(t.Context(), reader, admintest.Shop, "")
		require.NoError(t, err)
		require.Len(t, list, 2)
		first := list[0]
		require.InDelta(t, 2*3600, first.LeftS, 2)
		require.True(t, admintest.Now.Add(2*time.Hour).Equal(first.FirstAt))
		first.LeftS, first.FirstAt = 0, time.Time{}
		require.Equal(t, admin.Deadline{
			Destination: "1001", Event: "Purchase", State: ledger.Held, Reason: ledger.BulkChange, Sentence: ledger.BulkChange.Sentence(), Count: 1,
			NextStep: "Look at it, then send it with capiloop retry --held --reason bulk_change, or skip it with --drop in the place of --held.",
		}, first)
		list, err = a.Deadlines(t.Context(), reader, admintest.Shop, "31h")
		require.NoError(t, err)
		require.Len(t, list, 3)
		require.Equal(t, ledger.Queued, list[2].Reason)
		list, err = a.Deadlines(t.Context(), reader, admintest.Neighbour, "31h")
		require.NoError(t, err)
		require.Empty(t, list)
		for _, wrong := range []string{"soon", "-1h", "0s", "2161h"} {
			failed(t, second(a.Deadlines(t.Context(), reader, admintest.Shop, wrong)), admin.Invalid)
		}
	}
}
