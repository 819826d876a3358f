package ledger_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
)

func TestFingerprints(t *testing.T) {
	t.Parallel()
	f, other := ledger.NewFingerprints([]byte("one")), ledger.NewFingerprints([]byte("two"))
	const cookie = "fb.1.1700000000000.123456789"
	hash := strings.Repeat("ab", 32)

	require.Zero(t, f.Person(nil))
	require.Zero(t, f.FBP(""))
	require.Zero(t, f.External(""))
	require.Zero(t, f.Visitor("", "Mozilla/5.0"))
	require.Positive(t, f.FBP(cookie))
	require.NotEqual(t, f.FBP(cookie), other.FBP(cookie), "the key counts")
	require.NotEqual(t, f.External(cookie), f.FBP(cookie), "kinds are kept apart")
	require.NotEqual(t, f.FBP(cookie), f.Person([]byte(cookie)))

	require.Equal(t, f.FBP(cookie), f.FBP(cookie+".AQYCAQMB"), "Meta's appendix tells nobody apart")
	require.Equal(t, f.External(hash), f.External(strings.ToUpper(hash)+".AQQCAQMC"))
	require.NotEqual(t, f.Visitor("203.0.113.7", "a"), f.Visitor("203.0.113.7", "b"))
}
