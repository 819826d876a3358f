package crm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/secret"
)

func TestWatchedFieldsAreEachNamedOnce(t *testing.T) {
	t.Parallel()
	option := crm.WatchOption("help")
	require.Equal(t, crm.Option{Name: "watch", Type: crm.List, Help: "help"}, option)
	a := crm.Account{Options: secret.NewOptions(nil, map[string][]string{option.Name: {" Score ", "", "id:900003", "Score"}}, nil)}
	require.Equal(t, []string{"Score", "900003"}, crm.Watched(a))
	require.Empty(t, crm.Watched(crm.Account{Options: secret.NewOptions(nil, nil, nil)}))
}
