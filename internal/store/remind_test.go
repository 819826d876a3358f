package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// handed records a lead of some time ago that a destination got.
func (b *bench) handed(t *testing.T, age time.Duration, change func(l *ledger.Lead)) ledger.ID {
	t.Helper()
	at := time.Now().Add(-age)
	id := ledger.NewIDs(0, func() time.Time { return at }).Next()
	l := ledger.Lead{ID: id, Workspace: b.ws, Source: "site", Kind: "website", CreatedAt: at}
	if change != nil {
		change(&l)
	}
	_, err := b.RecordLead(t.Context(), &store.LeadRecording{Lead: l, At: at, Wrapped: []byte("w"), Sealed: []byte("s"), Deliveries: []ledger.Delivery{
		{ID: id.Delivery(1), Destination: b.first, State: ledger.Waiting, Priority: ledger.Ordinary, Deadline: time.Now().Add(time.Hour)},
	}})
	require.NoError(t, err)
	batch, lane := b.claim(t)
	st := &ledger.Settlement{Batch: batch, Outcome: "sent", Lane: lane}
	for _, r := range batch.Rows {
		st.Changes = append(st.Changes, ledger.Change{Row: r, State: ledger.Sent})
	}
	require.NoError(t, b.Settle(t.Context(), st))
	return id
}

func (b *bench) mark(t *testing.T, lead ledger.ID, stage string) store.StageRecorded {
	t.Helper()
	done, err := b.ChangeStage(t.Context(), &store.StageWrite{
		ID: b.ids.Next(), Workspace: b.ws, Source: "mail", Hash: []byte(lead.String() + stage), Change: &ledger.StageChange{Lead: lead, Stage: stage, At: time.Now(), By: "link"},
		Decide: func(*store.StageFacts) (store.StageDecision, error) {
			id := b.ids.Next()
			e := &ledger.Event{ID: id, Workspace: b.ws, Source: "mail", Name: stage, EventID: lead.String() + stage, Time: time.Now(), Deliveries: []ledger.Delivery{
				{ID: id.Delivery(1), Destination: b.other, State: ledger.Waiting, Priority: ledger.Ordinary, Payload: []byte("{}"), DueAt: time.Now().Add(ledger.MarkUndo), Deadline: time.Now().Add(time.Hour)},
			}}
			return store.StageDecision{Effect: ledger.EffectEvent, Events: []store.LeadEvent{{Name: stage, At: time.Now(), Event: e}}}, nil
		},
	})
	require.NoError(t, err)
	return done
}

func TestOpenLeadsAreThoseThatPeopleGotAndNobodyMarked(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		const day = 24 * time.Hour
		b.handed(t, 15*day, nil)
		old := b.handed(t, 13*day, func(l *ledger.Lead) { l.Origin.FormName = "Bath" })
		marked := b.handed(t, 3*day, nil)
		b.handed(t, 3*day, func(l *ledger.Lead) { l.Test = true })
		young := b.handed(t, day, nil)
		list := func(limit int) ([]ledger.ID, int) {
			t.Helper()
			found, total, err := b.Unmarked(t.Context(), b.ws, b.first, time.Now().Add(-14*day), time.Now().Add(-2*day), limit)
			require.NoError(t, err)
			var ids []ledger.ID
			for _, u := range found {
				ids = append(ids, u.Lead)
			}
			return ids, total
		}
		ids, total := list(10)
		require.Equal(t, []ledger.ID{old, marked}, ids)
		require.Equal(t, 2, total)
		ids, total = list(1)
		require.Equal(t, []ledger.ID{old}, ids)
		require.Equal(t, 2, total)
		found, _, err := b.Unmarked(t.Context(), b.ws, b.first, time.Now().Add(-14*day), time.Now(), 10)
		require.NoError(t, err)
		require.Equal(t, "Bath", found[0].Form)
		require.Equal(t, young, found[2].Lead)
		require.Equal(t, "site", found[2].Form)
		none, _, err := b.Unmarked(t.Context(), b.ws, b.other, time.Now().Add(-14*day), time.Now(), 10)
		require.NoError(t, err)
		require.Empty(t, none, "it went to others")

		change := b.mark(t, marked, "Good").ID
		ids, _ = list(10)
		require.Equal(t, []ledger.ID{old}, ids)
		undo := &store.Undoing{Workspace: b.ws, Lead: marked, Changes: []ledger.ID{change}, Now: time.Now()}
		require.NoError(t, b.UndoStages(t.Context(), undo))
		require.NoError(t, b.UndoStages(t.Context(), undo), "twice is once")
		ids, _ = list(10)
		require.Equal(t, []ledger.ID{old, marked}, ids, "what was taken back was not said")

		again := b.mark(t, marked, "Good")
		require.False(t, again.Duplicate)
		require.NotEqual(t, change, again.ID)
		undo = &store.Undoing{Workspace: b.ws, Lead: marked, Changes: []ledger.ID{again.ID}, Now: time.Now().Add(ledger.MarkUndo)}
		require.ErrorIs(t, b.UndoStages(t.Context(), undo), store.ErrTooLate)
		for _, wrong := range []store.Undoing{
			{Workspace: b.ws + 1, Lead: marked, Changes: []ledger.ID{again.ID}},
			{Workspace: b.ws, Lead: old, Changes: []ledger.ID{again.ID}},
			{Workspace: b.ws, Lead: marked, Changes: []ledger.ID{again.ID + 64}},
		} {
			wrong.Now = time.Now()
			require.ErrorIs(t, b.UndoStages(t.Context(), &wrong), store.ErrNotFound)
		}
		b.balanced(t)
	})
}

func TestAReminderIsSentByOneAndOnceADay(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		now := time.Now()
		claim := func(day string, at time.Time) bool {
			t.Helper()
			mine, err := b.ClaimReminder(t.Context(), b.first, day, at)
			require.NoError(t, err)
			return mine
		}
		require.True(t, claim("2026-11-30", now))
		require.False(t, claim("2026-11-30", now.Add(time.Hour)), "who began it may be sending")
		require.NoError(t, b.EndReminder(t.Context(), b.first, "2026-11-30", now.Add(time.Hour)))
		require.False(t, claim("2026-11-30", now.Add(time.Minute)))
		require.True(t, claim("2026-11-30", now.Add(time.Hour)))
		require.NoError(t, b.EndReminder(t.Context(), b.first, "2026-11-30", time.Time{}))
		require.False(t, claim("2026-11-30", now.Add(9*time.Hour)))
		require.False(t, claim("2026-11-29", now), "no day comes back")
		require.True(t, claim("2026-12-01", now))
	})
}
