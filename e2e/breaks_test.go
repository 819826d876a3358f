package e2e_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

// The database breaks its connections under load, again and again: what was answered
// 2xx is kept, the rest is refused with a word, and nobody need restart anything.
func TestTheDatabaseBreaksItsConnections(t *testing.T) {
	t.Parallel()
	if os.Getenv("CAPILOOP_TEST_POSTGRES") == "" {
		t.Skip("CAPILOOP_TEST_POSTGRES is not set; scripts/with-postgres.sh sets it")
	}
	c := &crash{rig: newRig(t, setup{database: "postgres", speed: 20}), kept: make(map[string]bool), maybe: make(map[string]bool)}
	db := c.look(t)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var senders sync.WaitGroup
	for i := range 8 {
		random := rand.New(rand.NewPCG(2, uint64(i)))
		senders.Go(func() { c.sender(ctx, random) })
	}
	for range 8 {
		time.Sleep(200 * time.Millisecond)
		_, err := db.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'capiloop'`)
		require.NoError(t, err)
	}
	c.eventually(t, 10*time.Second, "it is ready again", func() bool {
		status, _ := c.request(t, http.MethodGet, "/readyz", nil)
		return status == http.StatusOK
	})
	time.Sleep(200 * time.Millisecond)
	end()
	senders.Wait()
	c.judge(t)
}

// The disk becomes full between sending a batch and writing down that it was taken:
// it goes again under its ids once there is room, and counts once.
func TestAFullDiskBetweenSendingAndWritingItDown(t *testing.T) {
	t.Parallel()
	disk := newDisk(t, 24)
	r := newRig(t, setup{data: disk.path, speed: 20})
	r.graph.Fault(capitest.Fault{Mode: capitest.ModeSlow, DelayMS: 700, Count: 1})
	batch := r.leads(datasetA, "between", 30)
	r.send(t, batch...)
	r.eventually(t, 5*time.Second, "it is under way", func() bool { return r.graph.Requests().Faults == 1 })
	disk.fill(t)
	// SQLite may find room in its log's old pages; events use it up.
	for i, status := 0, 0; status != http.StatusServiceUnavailable; i++ {
		require.Less(t, i, 2000, "the disk never becomes full")
		e := r.leads(datasetA, "fill-"+time.Now().Format("150405.000000000"), 5)
		if status, _ = r.request(t, http.MethodPost, "/v1/events", bodyOf(t, e...)); status == http.StatusAccepted {
			batch = append(batch, e...)
		}
	}
	r.eventually(t, 5*time.Second, "Graph has the batch", func() bool { return r.graph.Times(datasetA, "Lead", "between-000") == 1 })
	time.Sleep(300 * time.Millisecond) // the answer cannot be written down
	disk.empty(t)
	r.drained(t, 30*time.Second)
	r.heldOnce(t, datasetA, ids(batch))
	require.EqualValues(t, len(batch), r.book(t, "").Sent)
}
