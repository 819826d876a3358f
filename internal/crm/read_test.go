package crm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

func TestDecimal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1500.50": "1500.50", "1500.5": "1500.5", "-12.30": "-12.30", "0": "0", "1e3": "1000", "1.5E+3": "1500", "15e-1": "1.5", "+7": "7", ".5": "0.5", "7.": "7",
		"": "", "null": "", "abc": "", "1,500.50": "", "1e999999999": "", "1e-999": "", "e3": "", "1e": "", "0x10": "", "1/3": "", "--1": "", "1e+-1": "", "NaN": "",
	} {
		require.Equal(t, want, crm.Decimal(text), text)
	}
}

func TestUnread(t *testing.T) {
	t.Parallel()
	require.NoError(t, crm.Unread("the deal", ledger.Accepted{}))
	gone := ledger.Hold{Reason: ledger.AddressGone, Answer: ledger.Answer{Status: 404, Message: "not found"}}
	var e *crm.ReadError
	require.ErrorAs(t, crm.Unread("the stages", gone), &e)
	require.IsType(t, ledger.Hold{}, e.Outcome)
	require.ErrorAs(t, crm.UnreadRecord("the deal", gone), &e)
	require.IsType(t, ledger.Refusal{}, e.Outcome)
	require.True(t, crm.IsGone(e))
	require.EqualError(t, e, "read the deal: 404: not found")
	require.ErrorAs(t, crm.UnreadRecord("the deal", ledger.Lost{Answer: ledger.Answer{Message: "cut"}}), &e)
	require.Equal(t, ledger.Backlog, e.Outcome.(ledger.RetryAt).Reason)
	require.EqualError(t, e, "read the deal: cut")
	require.False(t, crm.IsGone(e))
	require.False(t, crm.IsGone(nil))
}
