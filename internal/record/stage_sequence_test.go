package record_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

var wonAfterQualified = ledger.Rule{Stage: "Won", Event: "Purchase", Value: ledger.ValueDeal, After: "QualifiedLead"}

// stateOf returns how the one delivery of the one event of a result stands now.
func (d *crmDesk) stateOf(t *testing.T, r ledger.ID) (ledger.State, ledger.Reason) {
	t.Helper()
	v, err := d.store.Event(t.Context(), d.ws.ID, r)
	require.NoError(t, err)
	return v.Deliveries[0].State, v.Deliveries[0].Reason
}

// send claims what is due and says that it was sent.
func (d *crmDesk) send(t *testing.T) int {
	t.Helper()
	destination := d.ws.Datasets[0].ID
	batch, lane, err := d.store.Claim(t.Context(), store.ClaimRequest{
		Destination: destination, Node: "n", Batch: ledger.IDAt(time.Now()), Now: time.Now(), Lease: time.Hour, MaxRows: 100, MaxBytes: 1 << 20,
	})
	require.NoError(t, err)
	if batch == nil {
		return 0
	}
	st := &ledger.Settlement{Batch: batch, Lane: lane, Outcome: "accepted"}
	for _, r := range batch.Rows {
		st.Changes = append(st.Changes, ledger.Change{Row: r, State: ledger.Sent})
	}
	require.NoError(t, d.store.Settle(t.Context(), st))
	return len(batch.Rows)
}

func TestWhatTheGuardReleasesStillWaitsForTheEventBefore(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onQualified, wonAfterQualified)
		d.lead(t, func(l *ledger.Lead) { l.Contact.FullName = "Test Test" })
		id := "1234567890123401"
		qualified := d.move(t, ledger.StageChange{LeadID: id, Stage: "Qualified", At: ago(20 * time.Minute)}).Events[0]
		won := d.move(t, ledger.StageChange{LeadID: id, Stage: "Won", At: ago(10 * time.Minute)}).Events[0]
		n, err := d.store.Decide(t.Context(), store.RetryQuery{Workspace: d.ws.ID, Now: time.Now()}, true)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		state, _ := d.stateOf(t, qualified)
		require.Equal(t, ledger.Waiting, state)
		state, why := d.stateOf(t, won)
		require.Equal(t, ledger.Held, state)
		require.Equal(t, ledger.Sequence, why)
		require.Equal(t, 1, d.send(t))
		require.Equal(t, 1, d.send(t))
		state, _ = d.stateOf(t, won)
		require.Equal(t, ledger.Sent, state)
		book, err := d.store.Book(t.Context(), store.BookQuery{Workspace: d.ws.ID})
		require.NoError(t, err)
		require.EqualValues(t, 2, book.Total(ledger.Sent))
		require.EqualValues(t, 2, book.Received)
		require.Zero(t, book.Total(ledger.Held))
	})
}

func TestWhatTheGuardDropsTakesItsFollowerAlong(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onQualified, wonAfterQualified)
		d.lead(t, func(l *ledger.Lead) { l.Contact.FullName = "Test Test" })
		id := "1234567890123401"
		qualified := d.move(t, ledger.StageChange{LeadID: id, Stage: "Qualified", At: ago(20 * time.Minute)}).Events[0]
		won := d.move(t, ledger.StageChange{LeadID: id, Stage: "Won", At: ago(10 * time.Minute)}).Events[0]
		_, err := d.store.Decide(t.Context(), store.RetryQuery{Workspace: d.ws.ID, Event: qualified, Now: time.Now()}, false)
		require.NoError(t, err)
		_, why := d.stateOf(t, won)
		require.Equal(t, ledger.SequenceBroken, why)
	})
}

// A follower of a lead that was merged finds the predecessor of the lead that was kept.
func TestAMergeTakesWhatWaitsAlong(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onQualified, wonAfterQualified)
		d.lead(t, nil)
		d.lead(t, nil)
		won := d.move(t, ledger.StageChange{LeadID: "1234567890123401", Records: []string{"contact:1"}, Stage: "Won", At: ago(10 * time.Minute)}).Events[0]
		d.move(t, ledger.StageChange{LeadID: "1234567890123402", Records: []string{"contact:2"}, Stage: "Qualified", At: ago(20 * time.Minute)})
		require.Equal(t, 1, d.send(t))
		require.NoError(t, d.Merge(t.Context(), d.ws, d.crm, ledger.Merge{Kept: "contact:2", Merged: []string{"contact:1"}}))
		state, _ := d.stateOf(t, won)
		require.Equal(t, ledger.Waiting, state)
	})
}
