package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

func TestCopiesOfBothSides(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		t.Helper()
		first, err := b.FirstSighting(t.Context(), b.ws)
		require.NoError(t, err)
		require.True(t, first.IsZero())
		one, two := b.sighting(1), b.sighting(2)
		two.Blocked, two.Own = true, false
		_, err = b.AddSightings(t.Context(), []ledger.Sighting{one, two})
		require.NoError(t, err)

		b.record(t, b.event("Lead", "sent"))
		batch, lane := b.claim(t)
		b.settle(t, batch, lane, ledger.Sent, ledger.None)
		b.record(t, b.event("Lead", "refused"))
		batch, lane = b.claim(t)
		b.settle(t, batch, lane, ledger.Failed, ledger.Refused)
		skipped := b.event("Lead", "skipped")
		skipped.Deliveries[0].State, skipped.Deliveries[0].Reason, skipped.Deliveries[0].Payload = ledger.Skipped, ledger.NoConsent, nil
		waits := b.event("Lead", "waits")
		also := waits.Deliveries[0]
		also.ID, also.Destination = waits.ID.Delivery(2), b.other
		waits.Deliveries = append(waits.Deliveries, also)
		b.record(t, skipped, waits)

		q := store.CopiesQuery{Workspace: b.ws, From: b.now.Add(-time.Hour), To: b.now.Add(time.Hour), Limit: 10}
		seen, err := b.Sightings(t.Context(), q)
		require.NoError(t, err)
		one.At, two.At = one.At.UTC().Truncate(time.Microsecond), two.At.UTC().Truncate(time.Microsecond)
		require.Equal(t, []ledger.Sighting{two, one}, seen)
		first, err = b.FirstSighting(t.Context(), b.ws)
		require.NoError(t, err)
		require.Equal(t, one.ID.Time(), first)

		list, err := b.ServerCopies(t.Context(), q)
		require.NoError(t, err)
		var got []string
		for _, c := range list {
			got = append(got, c.EventID+" "+c.Dataset)
			require.Equal(t, c.EventID != "sent", c.SentAt.IsZero())
			require.Equal(t, "website", c.ActionSource)
		}
		require.Equal(t, []string{"waits 2", "waits 1", "sent 1"}, got)
		payloads := map[ledger.ID]string{}
		require.NoError(t, b.Payloads(t.Context(), b.ws, []ledger.ID{waits.ID.Delivery(2), skipped.ID.Delivery(1)}, func(id ledger.ID, p []byte) { payloads[id] = string(p) }))
		require.Equal(t, map[ledger.ID]string{waits.ID.Delivery(2): `{"event_id":"waits"}`}, payloads)

		q.Limit = 1
		list, err = b.ServerCopies(t.Context(), q)
		require.NoError(t, err)
		require.Len(t, list, 1)
		q.Limit, q.To = 10, b.now.Add(-time.Minute)
		seen, err = b.Sightings(t.Context(), q)
		require.NoError(t, err)
		require.Empty(t, seen)
	})
}
