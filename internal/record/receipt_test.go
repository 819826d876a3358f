package record_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// The CRM has its own way to Meta's form, and told of the lead before we had read it.
func TestALeadThatACRMToldOfFirstIsALeadToo(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onReceipt, onQualified)
		moved := d.move(t, ledger.StageChange{LeadID: "1234567890123401", Stage: "Qualified"})
		require.True(t, moved.NewLead)
		for range 2 {
			d.n = 0
			require.Equal(t, moved.Lead, d.lead(t, nil).ID)
		}
		book, err := d.store.Book(t.Context(), store.BookQuery{Workspace: d.ws.ID})
		require.NoError(t, err)
		require.EqualValues(t, 2, book.Received, "QualifiedLead and Lead")
	})
}
