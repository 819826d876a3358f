package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

func TestWhatIsSoonTooLate(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		made := func(name, id string, left time.Duration, state ledger.State, why ledger.Reason) *ledger.Event {
			e := b.event(name, id)
			e.Deliveries[0].Deadline = b.now.Add(left).Truncate(time.Second)
			e.Deliveries[0].State, e.Deliveries[0].Reason = state, why
			return e
		}
		b.record(t,
			made("Lead", "1", 2*time.Hour, ledger.Waiting, ledger.None), made("Lead", "2", time.Hour, ledger.Waiting, ledger.None),
			made("Lead", "3", 25*time.Hour, ledger.Waiting, ledger.None), made("Lead", "4", -time.Minute, ledger.Waiting, ledger.None),
			made("Purchase", "5", 90*time.Minute, ledger.Held, ledger.BulkChange),
		)
		list, err := b.Deadlines(t.Context(), b.ws, b.now, b.now.Add(24*time.Hour))
		require.NoError(t, err)
		require.Equal(t, []store.Deadline{
			{Destination: "1", Name: "Lead", State: ledger.Waiting, Reason: ledger.Queued, Count: 2, First: b.now.Add(time.Hour).Truncate(time.Second)},
			{Destination: "1", Name: "Purchase", State: ledger.Held, Reason: ledger.BulkChange, Count: 1, First: b.now.Add(90 * time.Minute).Truncate(time.Second)},
		}, inZone(list, b.now.Location()))
		batch, lane := b.claim(t)
		require.NotNil(t, batch)
		lane.Held, lane.HeldSince = ledger.TokenInvalid, b.now
		st := &ledger.Settlement{Batch: batch, Outcome: "held", Lane: lane}
		for _, r := range batch.Rows {
			st.Changes = append(st.Changes, ledger.Change{Row: r, State: ledger.Waiting, Why: ledger.Retrying})
		}
		require.NoError(t, b.Settle(t.Context(), st))
		list, err = b.Deadlines(t.Context(), b.ws, b.now, b.now.Add(24*time.Hour))
		require.NoError(t, err)
		require.Equal(t, ledger.TokenInvalid, list[0].Reason, "the lane's")
		require.Equal(t, ledger.BulkChange, list[1].Reason, "the row's own")
	})
}

func inZone(list []store.Deadline, zone *time.Location) []store.Deadline {
	for i := range list {
		list[i].First = list[i].First.In(zone)
	}
	return list
}

func TestTrafficIsMeasured(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		for i, platform := range []string{"meta", "meta", "google", "meta"} {
			r := b.ofLead([]string{string(rune('a' + i))}, nil)
			r.Lead.Platform, r.Lead.LeadID, r.Lead.Test = platform, string(rune('1'+i)), i == 3
			if i == 0 {
				e := b.event("Lead", "x")
				r.Events = []store.LeadEvent{{Name: "Lead", At: b.now, Event: e}}
			}
			b.recordLead(t, r)
		}
		b.moves(t, "b", b.other, ledger.StageChange{Stage: "Won", At: b.now})
		leads, covered, err := b.MetaLeads(t.Context(), b.ws, b.now.Add(-time.Hour))
		require.NoError(t, err)
		require.EqualValues(t, 2, leads)
		require.EqualValues(t, 1, covered, "history is no event")
		leads, _, err = b.MetaLeads(t.Context(), b.ws, b.now.Add(time.Hour))
		require.NoError(t, err)
		require.Zero(t, leads)

		lag, n, err := b.MoveLag(t.Context(), b.ws, b.now.Add(-time.Hour))
		require.NoError(t, err)
		require.Zero(t, n, "history is no news")
		require.Zero(t, lag)
		for i, hours := range []int{1, 30, 50} {
			change := ledger.StageChange{Stage: string(rune('A' + i)), At: b.now.Add(-time.Duration(hours) * time.Hour)}
			_, err := b.ChangeStage(t.Context(), &store.StageWrite{
				ID: b.ids.Next(), Workspace: b.ws, Source: "crm", Change: &change, Hash: []byte{byte(i)}, IDs: [][]byte{[]byte("b")},
				Decide: func(*store.StageFacts) (store.StageDecision, error) {
					return store.StageDecision{Effect: ledger.EffectNoRule}, nil
				},
			})
			require.NoError(t, err)
		}
		lag, n, err = b.MoveLag(t.Context(), b.ws, b.now.Add(-time.Hour))
		require.NoError(t, err)
		require.Equal(t, 3, n)
		require.InDelta(t, 30, lag.Hours(), 0.1)

		hour := b.now.Unix() / 3600
		moved, err := b.HourlyMoves(t.Context(), b.ws, b.now.Add(-time.Hour))
		require.NoError(t, err)
		require.Equal(t, []store.HourCount{{Source: "crm", Name: "A", Hour: hour, N: 1}, {Source: "crm", Name: "B", Hour: hour, N: 1}, {Source: "crm", Name: "C", Hour: hour, N: 1}}, moved)
		two := b.event("Contact", "to two")
		second := two.Deliveries[0]
		second.ID, second.Destination = two.ID.Delivery(2), b.first+100
		two.Deliveries = append(two.Deliveries, second)
		b.record(t, two, b.event("Contact", "to one"))
		came, err := b.Hourly(t.Context(), b.ws, b.now.Add(-time.Hour))
		require.NoError(t, err)
		require.Contains(t, came, store.HourCount{Source: two.Source, Name: "Contact", Hour: hour, N: 2}, "what goes to two came once")
		came, err = b.Hourly(t.Context(), b.ws, b.now.Add(time.Hour))
		require.NoError(t, err)
		require.Empty(t, came)
	})
}
