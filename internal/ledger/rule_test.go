package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
)

// What a field reaches may be named by its id or by its label, as a stage may.
func TestARuleNamesTheValueOfAField(t *testing.T) {
	t.Parallel()
	change := &ledger.StageChange{Field: "temperature", Stage: "29"}
	for is, want := range map[string]bool{"29": true, "Hot": true, "hot": true, "Cold": false, "28": false} {
		rule := ledger.Rule{Field: "Temperature", Is: is}
		require.Equal(t, want, rule.Matches("sales", change, []string{"", "Hot"}, nil), is)
	}
	rule := ledger.Rule{Field: "score", Is: "29"}
	require.False(t, rule.Matches("sales", change, nil, nil), "another field")
	rule = ledger.Rule{Stage: "Hot"}
	require.False(t, rule.Matches("sales", change, []string{"Hot"}, nil), "a stage is no field's value")
}
