package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

// Case C161 of the public reports: a webhook is answered at once, however slow Graph is,
// and the lead is read later.
func TestASlowGraphDoesNotSlowTheWebhook(t *testing.T) {
	t.Parallel()
	l := newLeadRig(t, setup{})
	p := somebody(1)
	l.meta(p, l.clock.Now())
	l.graph.Fault(capitest.Fault{Mode: capitest.ModeSlow, DelayMS: 20_000, Count: 1})
	began := time.Now()
	require.NoError(t, l.announce(t, p))
	require.Less(t, time.Since(began), time.Second)
	l.arrived(t, 1, 60*time.Second)
	l.once(t, []person{p})
}
