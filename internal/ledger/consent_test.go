package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
)

func TestDecisionsAreWritten(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]ledger.Decision{
		"":                   {},
		"granted:tcf":        {Consent: ledger.ConsentGranted, By: "tcf"},
		"denied:gcm":         {Consent: ledger.ConsentDenied, By: "gcm"},
		"granted:site+gpc":   {Consent: ledger.ConsentGranted, By: "site", GPC: true},
		"undecided:none":     {By: ledger.ByNone},
		"undecided:none+gpc": {By: ledger.ByNone, GPC: true},
		"undecided+gpc":      {GPC: true},
		"granted":            {Consent: ledger.ConsentGranted},
	} {
		require.Equal(t, want, d.String())
	}
	require.Empty(t, ledger.Decision{By: ledger.ByCaller}.String(), "a caller who said nothing")
	require.Empty(t, ledger.Decision{By: ledger.ByLead}.String())
}

// The server lets through what the site's settings let the tag send, and nothing else.
func TestWaitAdmits(t *testing.T) {
	t.Parallel()
	granted, denied := ledger.Decision{Consent: ledger.ConsentGranted, By: "tcf"}, ledger.Decision{Consent: ledger.ConsentDenied, By: "gcm"}
	plain, none := ledger.Decision{By: ledger.ByPlain}, ledger.Decision{By: ledger.ByNone}
	for _, w := range []ledger.Wait{ledger.WaitHold, ledger.WaitDrop, ledger.WaitPlain, ledger.WaitSend} {
		for _, required := range []bool{false, true} {
			require.True(t, w.Admits(granted, required))
			require.False(t, w.Admits(denied, required))
			require.False(t, w.Admits(ledger.Decision{}, required))
			require.Equal(t, w == ledger.WaitPlain && !required, w.Admits(plain, required))
			require.Equal(t, w == ledger.WaitSend && !required, w.Admits(none, required))
		}
	}
}
