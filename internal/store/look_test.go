package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

func TestDestinationsShowTheirLanes(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		t.Helper()
		b.record(t, b.event("Lead", "l1"), b.event("Lead", "l2"))
		list, err := b.Destinations(t.Context(), b.ws)
		require.NoError(t, err)
		require.Len(t, list, 2, "the neighbour's is not among them")
		require.Equal(t, []string{"1", "2"}, []string{list[0].Name, list[1].Name})
		require.EqualValues(t, 2, list[0].Waiting)
		require.Zero(t, list[0].Held+list[1].Waiting)
		require.True(t, list[0].Live)

		_, err = b.ApplyFile(t.Context(), []store.FileWorkspace{{Name: "shop", Destinations: []store.FileDestination{{Kind: "meta", Name: "2", Live: true}}}})
		require.NoError(t, err)
		require.NoError(t, b.SetRemoved(t.Context(), b.first, true))
		list, err = b.Destinations(t.Context(), b.ws)
		require.NoError(t, err)
		require.Equal(t, []string{"2", "1"}, []string{list[0].Name, list[1].Name}, "removed ones come last")
		require.True(t, list[1].Removed)
		require.Equal(t, ledger.DestinationGone, list[1].Lane.Held)
	})
}

func TestAttemptsOfADelivery(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		t.Helper()
		first, second := b.event("Lead", "l1"), b.event("Lead", "l2")
		b.record(t, first)
		attempts, err := b.Attempts(t.Context(), b.ws, first.Deliveries[0].ID)
		require.NoError(t, err)
		require.Empty(t, attempts)

		batch, lane := b.claim(t)
		b.settle(t, batch, lane, ledger.Waiting, ledger.Retrying)
		b.record(t, second)
		batch, lane = b.claim(t)
		require.Len(t, batch.Rows, 2)
		b.settle(t, batch, lane, ledger.Sent, ledger.None)

		attempts, err = b.Attempts(t.Context(), b.ws, first.Deliveries[0].ID)
		require.NoError(t, err)
		require.Len(t, attempts, 2)
		require.Equal(t, []int{2, 1}, []int{attempts[0].Events, attempts[1].Events}, "newest first")
		require.Equal(t, "T1", attempts[0].Answer.TraceID)
		attempts, err = b.Attempts(t.Context(), b.ws, second.Deliveries[0].ID)
		require.NoError(t, err)
		require.Len(t, attempts, 1)
		attempts, err = b.Attempts(t.Context(), b.ws+1, first.Deliveries[0].ID)
		require.NoError(t, err)
		require.Empty(t, attempts, "another workspace's")
	})
}
