package admin_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/admin/admintest"
	"github.com/capiloop/capiloop/internal/ledger"
)

func TestRulesAreTriedOut(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	w.Connect(onReceipt, onQualified)
	for n := range 3 {
		w.Take(n, 48*time.Hour, nil)
		w.Move(ledger.StageChange{LeadID: admintest.LeadID(n), Stage: "Qualified", At: admintest.Now.Add(-time.Hour)})
	}
	w.Move(ledger.StageChange{LeadID: admintest.LeadID(0), Stage: "Won", At: admintest.Now.Add(-time.Minute), Amount: "7"})
	c, _ := serve(t, w.Admin)
	for _, a := range []admin.Actions{w.Admin, c} {
		r, err := a.DryRun(t.Context(), operator, admintest.Shop, admin.DryRunQuery{Days: 90})
		require.NoError(t, err)
		require.Equal(t, 90, r.Days)
		require.Nil(t, r.Changes)
		require.Len(t, r.Events, 2)
		require.Equal(t, 3, r.Events[1].WouldSend)
		require.Equal(t, "Won", r.NoRule[0].Stage)

		r, err = a.DryRun(t.Context(), operator, admintest.Shop, admin.DryRunQuery{Days: 90, Rules: []ledger.Rule{onReceipt, onWon}, Other: true})
		require.NoError(t, err)
		require.Equal(t, []admin.DryChange{{Event: "Lead", Now: 3, Then: 3}, {Event: "Purchase", Then: 1}, {Event: "QualifiedLead", Now: 3}}, r.Changes)
		require.Equal(t, 1, r.Events[1].WithValue)
		require.Equal(t, 3, r.NoRule[0].Moves)

		r, err = a.DryRun(t.Context(), operator, admintest.Shop, admin.DryRunQuery{Days: 1, Other: true})
		require.NoError(t, err)
		require.Empty(t, r.Events)
		require.Len(t, r.Changes, 2, "without any rule nothing is left")

		failed(t, second(a.DryRun(t.Context(), operator, admintest.Shop, admin.DryRunQuery{})), admin.Invalid)
		failed(t, second(a.DryRun(t.Context(), operator, admintest.Shop, admin.DryRunQuery{Days: 401})), admin.Invalid)
	}
}
