package record_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/record"
)

// two takes two leads in, each with a record of the CRM's and an event that waits.
func (d *crmDesk) two(t *testing.T) (one ledger.ID, events []ledger.ID) {
	t.Helper()
	one = d.lead(t, nil).ID
	d.lead(t, nil)
	events = append(events, d.move(t, ledger.StageChange{LeadID: "1234567890123401", Records: []string{"contact:1"}, Stage: "Qualified", At: ago(20 * time.Minute)}).Events...)
	events = append(events, d.move(t, ledger.StageChange{LeadID: "1234567890123402", Records: []string{"contact:2"}, Stage: "Qualified", At: ago(20 * time.Minute)}).Events...)
	require.Len(t, events, 2)
	return one, events
}

var oneIntoOther = ledger.Merge{Kept: "contact:2", Merged: []string{"contact:1"}}

func TestAWithdrawalWinsInAMerge(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onQualified)
		_, events := d.two(t)
		done, err := d.Consent(t.Context(), d.ws, record.Decision{Email: "jane1@example.com"})
		require.NoError(t, err)
		require.Equal(t, record.ConsentResult{Leads: 1, Events: 1}, done)
		require.NoError(t, d.Merge(t.Context(), d.ws, d.crm, oneIntoOther))
		for _, id := range events {
			_, why := d.stateOf(t, id)
			require.Equal(t, ledger.NoConsent, why)
		}
	})
}

func TestAWithdrawalHoldsForAllThatWasMerged(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onQualified, onWon)
		_, events := d.two(t)
		require.NoError(t, d.Merge(t.Context(), d.ws, d.crm, oneIntoOther))
		done, err := d.Consent(t.Context(), d.ws, record.Decision{Email: "jane1@example.com"})
		require.NoError(t, err)
		require.Equal(t, record.ConsentResult{Leads: 2, Events: 2}, done)
		for _, id := range events {
			_, why := d.stateOf(t, id)
			require.Equal(t, ledger.NoConsent, why)
		}
		_, delivery := d.only(t, d.move(t, ledger.StageChange{LeadID: "1234567890123402", Stage: "Won"}))
		require.Equal(t, ledger.NoConsent, delivery.Reason)
	})
}

func TestAnErasedLeadsEventsStandWithTheOneItWasMergedInto(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onQualified, onWon)
		one, _ := d.two(t)
		require.NoError(t, d.Merge(t.Context(), d.ws, d.crm, oneIntoOther))
		won := d.move(t, ledger.StageChange{LeadID: "1234567890123401", Stage: "Won", At: ago(time.Minute)}).Events[0]
		require.NoError(t, d.store.EraseLead(t.Context(), d.ws.ID, one, time.Now()))
		_, why := d.stateOf(t, won)
		require.Equal(t, ledger.Cleared, why)
	})
}

// Its payload is sealed under the lead's key: without that it could not be sent.
func TestALeadIsKeptWhileAnEventOfItWaits(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onQualified)
		d.ws.CRMs = nil
		got := d.lead(t, nil)
		event := d.move(t, ledger.StageChange{LeadID: "1234567890123401", Stage: "Qualified", At: ago(time.Minute)}).Events[0]
		purge := func() int {
			n, err := d.store.PurgeContacts(t.Context(), d.ws.ID, time.Now().Add(time.Hour), time.Now())
			require.NoError(t, err)
			return n
		}
		require.Zero(t, purge())
		require.Equal(t, 1, d.send(t))
		state, _ := d.stateOf(t, event)
		require.Equal(t, ledger.Sent, state)
		require.Equal(t, 1, purge())
		row, err := d.store.LeadFor(t.Context(), 0, got.ID)
		require.NoError(t, err)
		require.False(t, row.ClearedAt.IsZero())
	})
}
