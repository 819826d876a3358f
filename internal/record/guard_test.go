package record_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

func TestTheGuardAsksOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onQualified)
		at := ago(30 * time.Minute)
		held := 0
		for i := range ledger.UnknownNorm + 5 {
			got := d.move(t, ledger.StageChange{Stage: "Qualified", At: at.Add(time.Duration(i) * time.Second), Contact: ledger.Contact{Email: fmt.Sprintf("p%d@example.com", i)}})
			if _, delivery := d.only(t, got); delivery.Reason == ledger.BulkChange {
				held++
			}
		}
		require.Equal(t, 5, held)
		findings, err := d.store.Findings(t.Context(), d.ws.ID)
		require.NoError(t, err)
		require.Len(t, findings, 1)
		require.Equal(t, ledger.FindingGuard, findings[0].Kind)
		n, err := d.store.Decide(t.Context(), store.RetryQuery{Workspace: d.ws.ID, Reason: ledger.BulkChange, Now: time.Now()}, true)
		require.NoError(t, err)
		require.Equal(t, 5, n)
		findings, err = d.store.Findings(t.Context(), d.ws.ID)
		require.NoError(t, err)
		require.False(t, findings[0].FixedAt.IsZero())

		d.ws.Guard.Without = []string{"crm"}
		_, delivery := d.only(t, d.move(t, ledger.StageChange{Stage: "Qualified", At: at, Contact: ledger.Contact{Email: "late@example.com"}}))
		require.Equal(t, ledger.Waiting, delivery.State)
	})
}

func TestTheGuardHoldsSlipsOfTheKeyboard(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onWon)
		for i := range 12 {
			d.only(t, d.move(t, ledger.StageChange{Stage: "Won", Currency: "KZT", Amount: strconv.Itoa(180000 + i), At: ago(time.Duration(i+1) * time.Hour), CreatedAt: ago(48 * time.Hour), Contact: ledger.Contact{Email: fmt.Sprintf("p%d@example.com", i)}}))
		}
		_, delivery := d.only(t, d.move(t, ledger.StageChange{Stage: "Won", Currency: "KZT", Amount: "18500000", Contact: ledger.Contact{Email: "a@example.com"}}))
		require.Equal(t, ledger.ValueOutlier, delivery.Reason)
		_, delivery = d.only(t, d.move(t, ledger.StageChange{Stage: "Won", Currency: "KZT", Amount: "3000000", Contact: ledger.Contact{Email: "b@example.com"}}))
		require.Equal(t, ledger.Waiting, delivery.State, "sixteen times is no slip")
		_, delivery = d.only(t, d.move(t, ledger.StageChange{Stage: "Won", Contact: ledger.Contact{Email: "c@example.com", FullName: "Test Test"}}))
		require.Equal(t, ledger.TestName, delivery.Reason)
		_, delivery = d.only(t, d.move(t, ledger.StageChange{Stage: "Won", Contact: ledger.Contact{Email: "d@example.com", FullName: "Ana Testa"}}))
		require.Equal(t, ledger.Waiting, delivery.State)
	})
}
