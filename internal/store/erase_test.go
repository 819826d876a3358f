package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

func TestOldContactsAreCleared(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		t.Helper()
		lead := func(destinations ...int64) ledger.ID {
			id := b.ids.Next()
			rec := &store.LeadRecording{
				Lead:    ledger.Lead{ID: id, Workspace: b.ws, Source: "site", Kind: "website", CreatedAt: b.now},
				Wrapped: []byte("key"), Sealed: []byte("who it is"), People: [][]byte{[]byte("person" + id.String())}, At: b.now,
			}
			for i, d := range destinations {
				rec.Deliveries = append(rec.Deliveries, ledger.Delivery{ID: id.Delivery(i + 1), Destination: d, State: ledger.Waiting, Deadline: b.now.Add(time.Hour)})
			}
			_, err := b.RecordLead(t.Context(), rec)
			require.NoError(t, err)
			return id
		}
		known := func(id ledger.ID) bool {
			row, err := b.LeadFor(t.Context(), 0, id)
			require.NoError(t, err)
			require.Equal(t, row.Sealed == nil, !row.ClearedAt.IsZero())
			return row.Sealed != nil
		}
		purge := func(ws int64, before time.Time) int {
			n, err := b.PurgeContacts(t.Context(), ws, before, b.now)
			require.NoError(t, err)
			return n
		}
		done, waits := lead(), lead(b.first)
		later := time.Now().Add(time.Minute)

		require.Zero(t, purge(b.ws, b.now.Add(-time.Hour)), "they are not old")
		require.Zero(t, purge(b.ws+1, later), "another workspace's")
		require.Equal(t, 1, purge(b.ws, later))
		require.False(t, known(done))
		require.True(t, known(waits), "a lead that still waits for a CRM would be lost")

		batch, lane := b.claim(t)
		b.settle(t, batch, lane, ledger.Sent, ledger.None)
		require.Equal(t, 1, purge(b.ws, later))
		require.False(t, known(waits))
		require.Zero(t, purge(b.ws, later))
	})
}
