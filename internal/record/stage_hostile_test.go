package record_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
)

// What no database keeps, or what would stop all that comes after it.
func TestTextsThatNoDatabaseKeeps(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onWon)
		for i, amount := range []string{"1e999", "NaN", "-5", "0x10", "abc", "1_000", "185000"} {
			c := ledger.StageChange{
				Stage: "Won", StageLabel: "a\x00b\xff", Pipeline: strings.Repeat("я", 3000), DealID: "9\x00", Records: []string{fmt.Sprintf("deal:%d%s", i, strings.Repeat("r", 9000))}, By: "\xc3",
				Amount: amount, Currency: "KZT", Contact: ledger.Contact{Email: fmt.Sprintf("p%d@example.com", i)},
			}
			v, delivery := d.only(t, d.move(t, c))
			require.Equal(t, ledger.Waiting, delivery.State)
			require.Equal(t, amount == "185000", strings.Contains(string(delivery.Payload), `"value":185000`), v.Name)
		}
	})
}

func TestARecordCalledByAnEmailIsKeptByItsHash(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onQualified, onWon)
		records := []string{"contact:jane@example.com"}
		first := d.move(t, ledger.StageChange{Stage: "Qualified", Records: records, DealID: "jane@example.com", By: "boss@example.com", At: ago(time.Minute)})
		second := d.move(t, ledger.StageChange{Stage: "Won", Records: records})
		require.Equal(t, first.Lead, second.Lead)
		moves, err := d.store.Moves(t.Context(), first.Lead)
		require.NoError(t, err)
		require.NotContains(t, fmt.Sprint(moves), "@")
		require.Equal(t, "contact:jane@example.com", records[0], "the caller's list is left as it is")
	})
}
