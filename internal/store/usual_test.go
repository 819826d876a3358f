package store_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// buy records purchases of contents, one of each per round, and returns how many were held.
func (b *bench) buy(t *testing.T, value float64, round int, contents ...int64) (held int) {
	t.Helper()
	for len(contents) > 0 {
		n := min(len(contents), 500)
		r := &store.Recording{Workspace: b.ws}
		for _, c := range contents[:n] {
			e := b.event("Purchase", fmt.Sprintf("%d-%d-%v", c, round, value))
			e.Price = &ledger.Price{Content: c, Paid: ledger.Paid{Value: value, Mark: uint32(round)}}
			r.Events = append(r.Events, e)
		}
		contents = contents[n:]
		done, err := b.Record(t.Context(), r)
		require.NoError(t, err)
		for _, d := range done {
			if d.Held == ledger.ValueOutlier {
				held++
			}
		}
	}
	return held
}

// Whoever sends ever new contents fills no disk, and makes none unknown that are bought.
func TestContentsAreBounded(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		t.Helper()
		for round := range 5 {
			b.buy(t, 45, round, 1, 2, 3)
		}
		flood := make([]int64, store.MaxContents+700)
		for i := range flood {
			flood[i] = int64(1000 + i)
		}
		b.buy(t, 1, 0, flood...)
		require.NoError(t, b.Tidy(t.Context(), time.Now()))
		require.EqualValues(t, store.MaxContents, b.usual(t))
		require.Equal(t, 3, b.buy(t, 4500, 9, 1, 2, 3))

		require.NoError(t, b.Tidy(t.Context(), time.Now().Add(store.UsualAge-48*time.Hour)))
		require.EqualValues(t, store.MaxContents, b.usual(t))
		require.NoError(t, b.Tidy(t.Context(), time.Now().Add(store.UsualAge+48*time.Hour)))
		require.Zero(t, b.usual(t))
		require.Zero(t, b.buy(t, 4500, 10, 1, 2, 3), "nobody knows any more")
	})
}

// One request teaches as it goes.
func TestOneGroupLearnsAsItGoes(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		t.Helper()
		r := &store.Recording{Workspace: b.ws}
		for n := range 12 {
			e := b.event("Purchase", strconv.Itoa(n))
			e.Price = &ledger.Price{Content: 7, Paid: ledger.Paid{Value: 45, Mark: uint32(n)}}
			if n > 5 && n%2 == 0 {
				e.Price.Paid.Value = 4500
			}
			r.Events = append(r.Events, e)
		}
		done, err := b.Record(t.Context(), r)
		require.NoError(t, err)
		for n, d := range done {
			require.Equal(t, n > 5 && n%2 == 0, d.Held == ledger.ValueOutlier, n)
		}
	})
}

func (b *bench) usual(t *testing.T) int64 {
	t.Helper()
	n, err := b.Usual(t.Context(), b.ws)
	require.NoError(t, err)
	return n
}
