package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

func (b *bench) sighting(n byte) ledger.Sighting {
	return ledger.Sighting{UID: [16]byte{n}, ID: b.ids.Next(), Workspace: b.ws, Source: "web", Dataset: "1", Name: "Lead", EventID: "e", At: b.now, Page: "/", FBP: 1, External: 2, Visitor: 3, Own: true}
}

func TestSightingsAreWrittenOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		t.Helper()
		n, err := b.AddSightings(t.Context(), []ledger.Sighting{b.sighting(1), b.sighting(2), b.sighting(1)})
		require.NoError(t, err)
		require.Equal(t, 2, n)
		n, err = b.AddSightings(t.Context(), []ledger.Sighting{b.sighting(2), b.sighting(3)})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		n, err = b.AddSightings(t.Context(), nil)
		require.NoError(t, err)
		require.Zero(t, n)

		// They come with the events of their report, in its one transaction.
		e := b.event("Lead", "with-sightings")
		e.Consent = "granted:tcf"
		_, err = b.Record(t.Context(), &store.Recording{Workspace: b.ws, Events: []*ledger.Event{e}, Sightings: []ledger.Sighting{b.sighting(4)}})
		require.NoError(t, err)
		v, err := b.Event(t.Context(), b.ws, e.ID)
		require.NoError(t, err)
		require.Equal(t, "granted:tcf", v.Consent)
		n, err = b.AddSightings(t.Context(), []ledger.Sighting{b.sighting(4)})
		require.NoError(t, err)
		require.Zero(t, n)

		// What is old is forgotten, and can be seen anew.
		require.NoError(t, b.Tidy(t.Context(), time.Now().Add(store.SightingAge-time.Hour)))
		n, err = b.AddSightings(t.Context(), []ledger.Sighting{b.sighting(4)})
		require.NoError(t, err)
		require.Zero(t, n)
		require.NoError(t, b.Tidy(t.Context(), time.Now().Add(store.SightingAge+time.Hour)))
		n, err = b.AddSightings(t.Context(), []ledger.Sighting{b.sighting(4)})
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}
