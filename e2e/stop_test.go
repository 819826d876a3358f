package e2e_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

// SIGTERM during a hanging send: exit code 0 within ten seconds, nothing lost, sent
// after the next start under the same id.
func TestStoppingDuringAHangingSend(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, database string) {
		r := newRig(t, setup{database: database})
		r.graph.Fault(capitest.Fault{Mode: capitest.ModeHang, Count: 1})
		batch := r.leads(datasetA, "hang", 30)
		r.send(t, batch...)
		r.eventually(t, 5*time.Second, "it hangs", func() bool { return r.graph.Requests().Faults == 1 })
		r.stop(t) // wants exit code 0 within ten seconds
		r.start(t)
		r.drained(t, 20*time.Second)
		r.heldOnce(t, datasetA, ids(batch))
		require.EqualValues(t, 30, r.book(t, "").Sent)
	})
}

// A request that Graph answers within the grace is finished, not cut.
func TestStoppingLetsASlowSendFinish(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.graph.Fault(capitest.Fault{Mode: capitest.ModeSlow, DelayMS: 1500, Count: 1})
	r.send(t, r.leads(datasetA, "slow", 3)...)
	r.eventually(t, 5*time.Second, "it is under way", func() bool { return r.graph.Requests().Faults == 1 })
	r.stop(t)
	require.Len(t, r.graph.Kept(datasetA), 3)
	require.EqualValues(t, 3, r.recount(t)["sent"], "and the answer was written down")
	r.start(t)
	r.drained(t, 10*time.Second)
	require.Empty(t, r.graph.Twice())
}

// SIGTERM under load: every 2xx is kept.
func TestStoppingUnderLoad(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, database string) {
		c := &crash{rig: newRig(t, setup{database: database, speed: 20}), kept: make(map[string]bool), maybe: make(map[string]bool)}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		var senders sync.WaitGroup
		for i := range 8 {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			senders.Go(func() { c.sender(ctx, random) })
		}
		for range 3 {
			time.Sleep(250 * time.Millisecond)
			c.stop(t)
			c.start(t)
		}
		end()
		senders.Wait()
		c.judge(t)
	})
}
