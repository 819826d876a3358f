package record_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/record"
)

// The source's clock is half a minute ahead of ours: Meta takes no time of the future.
func TestALeadWhoseClockIsAheadSendsNothingOfTheFuture(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onReceipt, onQualified)
		got := d.lead(t, func(l *ledger.Lead) { l.CreatedAt = time.Now().Add(30 * time.Second) })
		events, err := d.store.LeadEvents(t.Context(), got.ID)
		require.NoError(t, err)
		v, err := d.store.Event(t.Context(), d.ws.ID, events[0])
		require.NoError(t, err)
		require.Equal(t, ledger.Waiting, v.Deliveries[0].State)
		require.False(t, v.Time.After(time.Now()), "it was clamped to its receipt")
		require.NotContains(t, codes(v.Deliveries[0].Notes), record.ProblemBeforeLead)

		v, delivery := d.only(t, d.move(t, ledger.StageChange{LeadID: "1234567890123401", Stage: "Qualified", At: time.Now()}))
		require.Equal(t, ledger.Held, delivery.State)
		require.Equal(t, ledger.ClockAhead, delivery.Reason)
		require.True(t, v.Time.After(time.Now().Add(20*time.Second)), "just after its lead, once that time has come")
	})
}
