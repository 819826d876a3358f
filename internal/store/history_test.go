package store_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// Whatever happens in whatever order, the book balances, its counters are those of
// the rows, and no event is in two places.
func TestTheBookBalancesAfterAnyHistory(t *testing.T) {
	t.Parallel()
	var b *bench
	histories := 0
	rapid.Check(t, func(rt *rapid.T) {
		// Rows are counted anew after each step: a database of its own for every few
		// histories keeps that short.
		if histories%5 == 0 {
			b = newBench(t, filepath.Join(t.TempDir(), "capiloop.db"))
		}
		histories++
		steps := 0
		var open *ledger.Batch
		var lane ledger.Lane
		rt.Repeat(map[string]func(*rapid.T){
			"record": func(rt *rapid.T) {
				b.record(t, b.someEvents(rt)...)
			},
			"claim": func(rt *rapid.T) {
				if open == nil {
					open, lane = b.claim(t, func(r *store.ClaimRequest) { r.MaxRows = rapid.IntRange(1, 10).Draw(rt, "rows") })
				}
			},
			"crash": func(*rapid.T) { // the batch stays open; another node takes over
				if open != nil {
					open = nil
					b.now = b.now.Add(2 * time.Minute)
					open, lane = b.claim(t, func(r *store.ClaimRequest) { r.Node = fmt.Sprint("node", b.ids.Next()) })
				}
			},
			"settle": func(rt *rapid.T) {
				if open == nil {
					return
				}
				st := &ledger.Settlement{Batch: open, Outcome: "sent", Lane: lane}
				for _, r := range open.Rows {
					c := ledger.Change{Row: r, State: rapid.SampledFrom([]ledger.State{ledger.Sent, ledger.Failed, ledger.Held, ledger.Waiting}).Draw(rt, "state")}
					c.Why = map[ledger.State]ledger.Reason{ledger.Failed: ledger.Refused, ledger.Held: ledger.MaybeSent}[c.State]
					st.Changes = append(st.Changes, c)
				}
				st.Lane.Held = rapid.SampledFrom([]ledger.Reason{ledger.None, ledger.TokenInvalid}).Draw(rt, "held")
				require.NoError(t, b.Settle(t.Context(), st))
				open = nil
			},
			"decide": func(rt *rapid.T) {
				_, err := b.Decide(t.Context(), store.RetryQuery{Workspace: b.ws, Now: b.now}, rapid.Bool().Draw(rt, "release"))
				require.NoError(t, err)
			},
			"retry": func(*rapid.T) {
				_, err := b.RetryFailed(t.Context(), store.RetryQuery{Workspace: b.ws, Now: b.now})
				require.NoError(t, err)
			},
			"time passes": func(rt *rapid.T) {
				b.now = b.now.Add(time.Duration(rapid.IntRange(1, 30).Draw(rt, "hours")) * time.Hour)
				_, err := b.Expire(t.Context(), b.first, b.now)
				require.NoError(t, err)
				_, err = b.ReleaseDue(t.Context(), b.first, b.now)
				require.NoError(t, err)
				_, err = b.ParkDoubtful(t.Context(), b.first, b.now.Add(-ledger.DedupWindow))
				require.NoError(t, err)
			},
			"": func(*rapid.T) {
				if steps++; steps%6 == 0 {
					b.balanced(t)
				}
			},
		})
		b.balanced(t)
	})
}

// someEvents draws events of all kinds.
func (b *bench) someEvents(rt *rapid.T) []*ledger.Event {
	var events []*ledger.Event
	for range rapid.IntRange(1, 5).Draw(rt, "events") {
		e := b.event(rapid.SampledFrom([]string{"Lead", "Purchase"}).Draw(rt, "name"), fmt.Sprint("e", rapid.IntRange(0, 50).Draw(rt, "id")))
		e.Person = int64(1 + 8*rapid.IntRange(0, 1).Draw(rt, "person"))
		d := &e.Deliveries[0]
		d.Deadline = b.now.Add(time.Duration(rapid.IntRange(1, 100).Draw(rt, "deadline")) * time.Hour)
		switch rapid.IntRange(0, 5).Draw(rt, "kind") {
		case 0:
			d.State, d.Reason, d.Payload = ledger.Skipped, ledger.NoConsent, nil
		case 1:
			d.State, d.Reason, d.DueAt = ledger.Held, ledger.ClockAhead, b.now.Add(time.Hour)
		case 2:
			d.Priority = ledger.Valuable
		}
		events = append(events, e)
	}
	return events
}
