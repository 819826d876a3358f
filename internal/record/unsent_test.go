package record_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/store"
)

// What goes nowhere is a line in the book with its reason, and nothing of the person.
func TestWhatGoesNowhereIsWrittenDown(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newDeskOn(t, database())
		robot := func(e *capi.Event) {
			e.EventID, e.ActionSource, e.UserData.ClientUserAgent = "robot", capi.ActionSourceWebsite, "facebookexternalhit/1.1"
		}
		for _, c := range []struct {
			item  record.Item
			state ledger.State
			why   ledger.Reason
		}{
			{record.Item{Event: lead(robot), Consent: ledger.Decision{Consent: ledger.ConsentDenied, By: "tcf"}}, ledger.Skipped, ledger.Crawler},
			{record.Item{Event: lead(func(e *capi.Event) { e.EventID, e.EventName = "no", "Purchase" }), Unsent: ledger.NoConsent}, ledger.Skipped, ledger.NoConsent},
			{record.Item{Event: lead(func(e *capi.Event) { e.EventID = "old" }), Unsent: ledger.Expired}, ledger.Failed, ledger.Expired},
		} {
			res := d.one(t, c.item)
			require.Nil(t, res.Rejected)
			require.Equal(t, c.state, res.State)
			require.Equal(t, c.why, res.Reason)
			v, err := d.store.Event(t.Context(), d.ws.ID, res.ID)
			require.NoError(t, err)
			require.Equal(t, c.item.Consent.String(), v.Consent)
			require.Zero(t, v.Came)
			require.Len(t, v.Deliveries, 2)
			for _, x := range v.Deliveries {
				require.Equal(t, c.why, x.Reason)
				require.Nil(t, x.Payload)
			}
		}
		require.NotNil(t, d.one(t, record.Item{Event: lead(func(e *capi.Event) { e.EventName = " " }), Unsent: ledger.NoConsent}).Rejected, "without a name it is nothing")
		d.ws.Datasets = nil
		require.Equal(t, ledger.NoDestination, d.one(t, record.Item{Event: lead(func(e *capi.Event) { e.EventID = "none" }), Unsent: ledger.NoConsent}).Reason)
		book, err := d.store.Book(t.Context(), store.BookQuery{Workspace: d.ws.ID})
		require.NoError(t, err)
		require.EqualValues(t, 7, book.Received)
		require.Zero(t, book.Unexplained())
	})
}
