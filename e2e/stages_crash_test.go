package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

// moveCrash is a server that hears of stages and is killed again and again.
type moveCrash struct {
	*leadRig
	next  atomic.Int64
	hooks atomic.Int64
	mu    sync.Mutex
	kept  map[string]bool // "event of lead", answered 2xx
	lost  int             // requests without an answer
}

// A kill at any moment between the CRM's hook and Meta: each mapped change that was
// answered 2xx arrives, once, however often the CRM has told of it.
func TestCrashBetweenStageAndMeta(t *testing.T) {
	t.Parallel()
	kills := number(t, "CAPILOOP_SOAK_KILLS", 5)
	onEach(t, func(t *testing.T, database string) {
		seed := uint64(number(t, "CAPILOOP_SOAK_SEED", int(time.Now().UnixNano()&0xffffffff)))
		t.Logf("CAPILOOP_SOAK_SEED=%d repeats this run's choices", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		c := &moveCrash{kept: make(map[string]bool), leadRig: newLeadRig(t, setup{
			database: database, speed: 20, rules: schoolRules + "    guard: {off: true}\n", graph: capitest.Options{Rules: capitest.Rules{PurchaseValue: capitest.Warn}},
		})}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var senders sync.WaitGroup
		for i := range 6 {
			random := rand.New(rand.NewPCG(seed, uint64(i+1)))
			senders.Go(func() { c.sender(ctx, t, i, random) })
		}
		for i := range kills {
			c.graph.ClearFaults()
			if mode := []capitest.Mode{capitest.ModeReset, capitest.ModeSlow, capitest.ModeError}[i%3]; random.IntN(2) == 0 {
				c.graph.Fault(capitest.Fault{Mode: mode, Code: 2, Count: 3, DelayMS: 200})
			}
			time.Sleep(time.Duration(200+random.IntN(1200)) * time.Millisecond)
			c.kill()
			if database == "postgres" { // it gives a dead node's lane to the next after 90 seconds
				c.clock.set(20, 91*20*time.Second)
			}
			c.start(t)
		}
		stop()
		senders.Wait()
		c.graph.ClearFaults()
		c.judge(t)
	})
}

// sender moves one lead after the other through its stages, each change told until it is
// answered, and some again.
func (c *moveCrash) sender(ctx context.Context, t *testing.T, way int, random *rand.Rand) {
	for ctx.Err() == nil {
		id := strconv.FormatInt(1_800_000_000_000_000+c.next.Add(1), 10)
		created := c.clock.Now() // what lies before the connection is history
		for i, stage := range []string{"New", "Qualified", "Contract"} {
			at := created.Add(time.Duration(i) * time.Second)
			times := 1 + random.IntN(2)
			for tries := 0; times > 0 && ctx.Err() == nil; tries++ {
				err := c.tell(t, way, id, stage, at)
				c.mu.Lock()
				switch {
				case err != nil:
					c.lost++
				case stage != "New":
					c.kept[map[string]string{"Qualified": "QualifiedLead", "Contract": "Purchase"}[stage]+" of "+id] = true
				}
				c.mu.Unlock()
				if err == nil {
					times--
					continue
				}
				time.Sleep(30 * time.Millisecond)
			}
		}
		time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
	}
}

func (c *moveCrash) tell(t *testing.T, way int, id, stage string, at time.Time) error {
	m := event{"lead_id": id, "platform": "meta", "stage": stage, "occurred_at": at.UTC().Format(time.RFC3339Nano), "value": 5}
	if way%2 == 0 {
		return c.signed(t, fmt.Sprint("msg_", c.hooks.Add(1)), []event{m})
	}
	status, answer, err := c.try(http.MethodPost, "/v1/stages", encode(t, m))
	if err == nil && status != http.StatusCreated && status != http.StatusOK {
		err = fmt.Errorf("POST /v1/stages: %d %s", status, answer)
	}
	return err
}

func (c *moveCrash) judge(t *testing.T) {
	t.Helper()
	have := func() map[string]int {
		count := make(map[string]int)
		for _, e := range c.graph.Kept(datasetA) {
			count[e.EventName+" of "+e.LeadID]++
		}
		return count
	}
	missing := func() (list []string) {
		got := have()
		for what := range c.kept {
			if got[what] == 0 {
				list = append(list, what)
			}
		}
		return list
	}
	for began := time.Now(); len(missing()) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > 150*time.Second {
			t.Fatalf("answered 2xx, and never with Meta: %v", missing())
		}
	}
	time.Sleep(time.Second)
	for what, n := range have() {
		require.Equal(t, 1, n, what)
	}
	require.Empty(t, c.graph.SecondIDs(), "an event under a second event_id")
	require.NotEmpty(t, c.kept)
	require.Zero(t, c.book(t, "").Unexplained)
	t.Logf("%d changes answered, %d requests without an answer, %d events with Meta", len(c.kept), c.lost, len(have()))
}
