package crm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

func TestANationalIDGoesOnlyWhereAMappingNamesIt(t *testing.T) {
	t.Parallel()
	l := &ledger.Lead{Answers: []ledger.FormAnswer{
		{Question: "budget", Values: []string{"up to 10"}}, {Question: "id_cpf", Values: []string{"000.000.000-00"}, Private: true},
	}}
	require.Len(t, crm.Forwarded(l), 1)
	require.Len(t, l.Answers, 2, "it is kept")
	require.NotContains(t, crm.Value(crm.Account{}, l, "answers"), "000")
	require.Equal(t, "000.000.000-00", crm.Value(crm.Account{}, l, "answer:id_cpf"))
}
