package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

// Two nodes on one PostgreSQL database: events come in at both, each leaves once, and
// when one stops the other goes on with its lane.
func TestTwoNodesOnOneDatabase(t *testing.T) {
	t.Parallel()
	if os.Getenv("CAPILOOP_TEST_POSTGRES") == "" {
		t.Skip("CAPILOOP_TEST_POSTGRES is not set; scripts/with-postgres.sh sets it")
	}
	r := newRig(t, setup{database: "postgres", datasets: []string{datasetA, datasetB}})
	first := r.server.Load()
	second := r.serve(t, "--data", filepath.Join(r.home, "second"))
	second.addr = second.said(t, second.errOut, `capiloop is running.* listen=(\S+)`)
	t.Cleanup(func() {
		if second.running() {
			second.stop(t)
			r.keep(second)
		}
	})
	var want []string
	for i := range 60 {
		r.server.Store([]*process{first, second}[i%2])
		e := r.lead(datasetA, fmt.Sprint("n-", i))
		r.send(t, e, r.lead(datasetB, fmt.Sprint("n-", i)))
		want = append(want, fmt.Sprint("n-", i))
		if i%10 == 0 { // the same event at the other node is a repeat
			r.server.Store([]*process{second, first}[i%2])
			require.Equal(t, 1, r.send(t, e).Duplicates)
		}
	}
	r.drained(t, 20*time.Second)
	r.heldOnce(t, datasetA, want)
	r.heldOnce(t, datasetB, want)
	require.Empty(t, r.graph.Twice(), "the lane is one node's at a time")

	// The node with the lane stops while Graph is away; the other takes over.
	r.graph.Fault(capitest.Fault{Code: 500, Count: 1})
	r.server.Store(first)
	r.send(t, r.lead(datasetA, "handed-over"))
	first.stop(t)
	r.keep(first)
	r.server.Store(second)
	r.drained(t, 30*time.Second)
	r.heldOnce(t, datasetA, append(want, "handed-over"))
	b := r.book(t, "")
	require.EqualValues(t, 121, b.Sent)
	require.EqualValues(t, 6, b.Beside.Duplicates)
}

// A key that is made at one node opens the other within seconds, without a restart.
func TestAKeyOfOneNodeOpensTheOther(t *testing.T) {
	t.Parallel()
	if os.Getenv("CAPILOOP_TEST_POSTGRES") == "" {
		t.Skip("CAPILOOP_TEST_POSTGRES is not set; scripts/with-postgres.sh sets it")
	}
	r := newRig(t, setup{database: "postgres"})
	first := r.server.Load()
	second := r.serve(t, "--data", filepath.Join(r.home, "second"))
	second.addr = second.said(t, second.errOut, `capiloop is running.* listen=(\S+)`)
	made := r.run(t, "key", "website") // by the socket in the first one's folder
	require.Zero(t, made.code, made.errOut)
	for _, p := range []*process{first, second} {
		r.server.Store(p)
		for began := time.Now(); ; time.Sleep(500 * time.Millisecond) { // a guesser would be slowed down
			status, _ := r.request(t, http.MethodPost, "/v1/events", bodyOf(t, r.lead(datasetA, p.addr)), "Authorization", "Bearer "+strings.TrimSpace(made.out))
			if status == http.StatusAccepted {
				break
			}
			require.Less(t, time.Since(began), 15*time.Second)
		}
	}
	second.stop(t)
	r.keep(second)
	r.server.Store(first)
}
