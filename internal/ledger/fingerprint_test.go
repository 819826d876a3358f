package ledger_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/ledger"
)

func TestFingerprints(t *testing.T) {
	t.Parallel()
	f, other := ledger.NewFingerprints([]byte("one")), ledger.NewFingerprints([]byte("two"))
	const cookie = "fb.1.1700000000000.123456789"
	hash := strings.Repeat("ab", 32)

	require.Zero(t, f.Person(capi.KeyEmail, nil))
	require.Zero(t, f.FBP(""))
	require.Zero(t, f.External(""))
	require.Zero(t, f.Visitor("", "Mozilla/5.0"))
	require.Positive(t, f.FBP(cookie))
	require.NotEqual(t, f.FBP(cookie), other.FBP(cookie), "the key counts")
	require.NotEqual(t, f.External(cookie), f.FBP(cookie), "kinds are kept apart")
	require.NotEqual(t, f.FBP(cookie), f.Person(capi.KeyFBP, []byte(cookie)))

	require.Equal(t, f.FBP(cookie), f.FBP(cookie+".AQYCAQMB"), "Meta's appendix tells nobody apart")
	require.Equal(t, f.External(hash), f.External(strings.ToUpper(hash)+".AQQCAQMC"))
	require.NotEqual(t, f.Visitor("203.0.113.7", "a"), f.Visitor("203.0.113.7", "b"))
}

// Of two copies of one event the shop's server knows the e-mail and the tag the browser:
// that makes no two people of one.
func TestOtherPerson(t *testing.T) {
	t.Parallel()
	f := ledger.NewFingerprints([]byte("one"))
	jane, john := f.Person(capi.KeyEmail, []byte("jane")), f.Person(capi.KeyEmail, []byte("john"))
	require.Positive(t, jane)
	require.True(t, ledger.OtherPerson(jane, john))
	require.False(t, ledger.OtherPerson(jane, f.Person(capi.KeyEmail, []byte("jane"))))
	require.False(t, ledger.OtherPerson(jane, f.Person(capi.KeyFBP, []byte("fb.1.1.2"))))
	require.False(t, ledger.OtherPerson(jane, 0))
}
