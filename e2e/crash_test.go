package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

// crash is a server under load that is killed again and again.
type crash struct {
	*rig
	random *rand.Rand
	next   atomic.Int64
	mu     sync.Mutex
	kept   map[string]bool // orders of requests that were answered 2xx
	maybe  map[string]bool // orders of requests that never got an answer
	wrong  error
}

// A kill at any moment under load: whatever was answered 2xx is at Graph afterwards,
// exactly once and under one event_id, and the book equals a recount.
func TestCrash(t *testing.T) {
	t.Parallel()
	kills := number(t, "CAPILOOP_SOAK_KILLS", 5)
	onEach(t, func(t *testing.T, database string) {
		seed := uint64(number(t, "CAPILOOP_SOAK_SEED", int(time.Now().UnixNano()&0xffffffff)))
		t.Logf("CAPILOOP_SOAK_SEED=%d repeats this run's choices", seed)
		c := &crash{
			rig: newRig(t, setup{database: database, speed: 20, graph: capitest.Options{KeepRecords: 20_000_000}}), random: rand.New(rand.NewPCG(seed, 0)),
			kept: make(map[string]bool), maybe: make(map[string]bool),
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var senders sync.WaitGroup
		for i := range 8 {
			random := rand.New(rand.NewPCG(seed, uint64(i+1)))
			senders.Go(func() { c.sender(ctx, random) })
		}
		for i := range kills {
			c.trouble(i)
			time.Sleep(time.Duration(20+c.random.IntN(600)) * time.Millisecond)
			c.kill()
			if database == "postgres" { // it gives a dead node's lane to the next after 90 seconds
				c.clock.set(20, 91*20*time.Second)
			}
			c.start(t)
			if i%10 == 9 {
				t.Logf("%d kills, %d events answered", i+1, c.answered())
			}
		}
		time.Sleep(300 * time.Millisecond)
		stop()
		senders.Wait()
		c.judge(t)
	})
}

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return n
}

// trouble lets Graph break connections, before or after it took the events in, and
// be slow or out of order, while the kill comes.
func (c *crash) trouble(round int) {
	n := 1 + c.random.IntN(3)
	switch round % 5 { // each of them even in a short run
	case 0:
		c.graph.Fault(capitest.Fault{Mode: capitest.ModeReset, Count: n})
	case 1:
		c.graph.Fault(capitest.Fault{Mode: capitest.ModeSlow, DelayMS: 300, Count: n})
	case 2:
		c.graph.Fault(capitest.Fault{Mode: capitest.ModeCut, Count: n})
	case 3:
		c.graph.Fault(capitest.Fault{Code: 500, Count: n})
	}
}

// sender sends one request after the other, each until it is answered; now and then
// it gives one up.
func (c *crash) sender(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		n := 1
		if random.IntN(3) == 0 {
			n = 2 + random.IntN(40)
		}
		orders, body, headers := c.orders(n, random)
		for c.once(ctx, orders, body, headers) && random.IntN(10) > 0 {
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// orders makes a request: some events have an id of their own, some get one from
// their order; some requests carry an idempotency key.
func (c *crash) orders(n int, random *rand.Rand) (orders []string, body []byte, headers []string) {
	var events []event
	for range n {
		order := fmt.Sprint("order-", c.next.Add(1))
		e := c.lead(datasetA, order)
		e["event_name"], e["custom_data"] = "Purchase", event{"order_id": order, "value": 10, "currency": "KZT"}
		if random.IntN(4) == 0 {
			delete(e, "event_id")
		}
		orders, events = append(orders, order), append(events, e)
	}
	body, err := json.Marshal(event{"data": events})
	if err != nil {
		c.fail(err)
	}
	if random.IntN(2) == 0 {
		headers = []string{"Idempotency-Key", "key-" + orders[0]}
	}
	return orders, body, headers
}

// once tries once and returns whether to try again.
func (c *crash) once(ctx context.Context, orders []string, body []byte, headers []string) (again bool) {
	status, answer, err := c.try(http.MethodPost, "/v1/events", body, headers...)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil && status == http.StatusAccepted:
		for _, o := range orders {
			c.kept[o] = true
			delete(c.maybe, o)
		}
		return false
	case err == nil && status != http.StatusServiceUnavailable && c.wrong == nil:
		c.wrong = fmt.Errorf("answered %d: %s", status, answer)
		return false
	}
	for _, o := range orders {
		c.maybe[o] = true
	}
	return ctx.Err() == nil
}

func (c *crash) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = err
}

func (c *crash) answered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.kept)
}

// judge compares what was answered with what the stand-in, the book and the rows hold.
func (c *crash) judge(t *testing.T) {
	require.NoError(t, c.wrong)
	c.graph.ClearFaults()
	c.drained(t, 150*time.Second)
	times, second := make(map[string]int), make(map[string]string)
	for _, e := range c.graph.Kept(datasetA) {
		times[e.OrderID]++
		second[e.OrderID] = e.EventID
	}
	for order := range c.kept {
		require.Equal(t, 1, times[order], "%s was answered 2xx and counts %d times (as %s)", order, times[order], second[order])
	}
	for order, n := range times {
		require.Equal(t, 1, n, order)
		require.True(t, c.kept[order] || c.maybe[order], "nobody sent %s", order)
	}
	require.Empty(t, c.graph.SecondIDs(), "nothing under a second event_id")
	b := c.book(t, "")
	require.EqualValues(t, len(times), b.Received)
	require.EqualValues(t, len(times), b.Sent)
	c.stop(t)
	rows := c.recount(t)
	require.Equal(t, b.Sent, rows["sent"])
	require.Equal(t, b.Received, rows["deliveries"])
	require.Zero(t, rows["pending"])
	require.NotEmpty(t, c.kept)
	t.Logf("%d events answered, %d not answered of which some were kept, %d at Graph, %d sent more than once under their id",
		len(c.kept), len(c.maybe), len(times), len(c.graph.Twice()))
}
