package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

// night is the rig of the journey with what was sent so far.
type night struct {
	*rig
	good []string // must arrive, once
}

// The night of failures: a kill in the middle of a batch, Graph out of order for 26
// hours, then rate-limited, then one bad event among fifty; a sender whose clock is
// ahead; two processes on one store. The full disk has a test of its own.
func TestJourneyNightOfFailures(t *testing.T) {
	t.Parallel()
	n := &night{rig: newRig(t, setup{})}
	n.clockAhead(t)
	n.secondProcess(t)
	n.killInTheMiddle(t)
	n.outage(t)
	n.rateLimitAndPoison(t)
	n.morning(t)
}

// Future-dated events are clamped (up to 60 s) or held, with a clock finding.
func (n *night) clockAhead(t *testing.T) {
	ahead, slightly := n.lead(datasetA, "ahead-11m"), n.lead(datasetA, "ahead-45s")
	ahead["event_time"] = n.clock.Now().Add(11 * time.Minute).Unix()
	slightly["event_time"] = n.clock.Now().Add(45 * time.Second).Unix()
	a := n.send(t, ahead, slightly)
	require.Equal(t, "held", a.Events[0].State)
	require.Equal(t, "clock", a.Events[0].Reason)
	require.Contains(t, a.Events[0].Sentence, "future")
	require.Equal(t, "waiting", a.Events[1].State)
	n.eventually(t, 5*time.Second, "the clamped one arrives", func() bool { return n.graph.Times(datasetA, "Lead", "ahead-45s") == 1 })
	require.LessOrEqual(t, n.graph.Kept(datasetA)[0].EventTime, n.clock.Now().Unix(), "clamped to the receipt")
	require.Len(t, n.findings(t, "clock", "open"), 1)
	n.good = append(n.good, "ahead-11m", "ahead-45s")
}

// The second process refuses to start, with a clear message.
func (n *night) secondProcess(t *testing.T) {
	second := n.serve(t)
	require.Equal(t, 1, second.wait(t, 10*time.Second))
	n.keep(second)
	require.Contains(t, second.errOut.String(), "another capiloop process is using this database")
	require.Contains(t, second.errOut.String(), "capiloop.db")
	require.Contains(t, second.errOut.String(), "--data")
	require.NotContains(t, second.errOut.String(), "is running")
	n.send(t, n.lead(datasetA, "after-the-second")) // the first is not disturbed
	n.good = append(n.good, "after-the-second")
}

// kill -9 in the middle of a batch: Graph has it, and the answer never came.
func (n *night) killInTheMiddle(t *testing.T) {
	n.eventually(t, 5*time.Second, "the lane is idle", func() bool { return n.book(t, "").Waiting == 0 })
	n.graph.Fault(capitest.Fault{Mode: capitest.ModeSlow, DelayMS: 500, Count: 1})
	n.graph.Fault(capitest.Fault{Code: 500})
	batch := n.leads(datasetA, "mid", 50)
	n.send(t, batch...)
	n.good = append(n.good, ids(batch)...)
	n.eventually(t, 5*time.Second, "the batch is under way", func() bool { return n.graph.Requests().Faults >= 1 })
	n.kill()
	n.eventuallyDown(t)
	n.clock.set(7200, 0) // 26 hours pass in 13 seconds
	n.start(t)
	b := n.book(t, "")
	require.EqualValues(t, 53, b.Received)
	require.EqualValues(t, 50, b.Waiting, "%+v", b)
}

// eventuallyDown waits until Graph has taken in what the dead process had sent.
func (n *night) eventuallyDown(t *testing.T) {
	for began := time.Now(); n.graph.Times(datasetA, "Lead", "mid-000") == 0; time.Sleep(10 * time.Millisecond) {
		require.Less(t, time.Since(began), 10*time.Second)
	}
}

// Attempts keep coming at growing distance for the 26 hours; nothing is given up
// before its deadline, and what passed it says so.
func (n *night) outage(t *testing.T) {
	began, first := n.clock.Now(), n.graph.Requests().Count
	// A sender's clock on so fast a clock: a quarter of an hour is two ticks.
	old, fresh := n.lead(datasetA, "six-days-old"), n.lead(datasetA, "fresh")
	old["event_time"] = began.Add(-6 * 24 * time.Hour).Unix()
	fresh["event_time"] = began.Add(-15 * time.Minute).Unix()
	a := n.send(t, old, fresh)
	n.good = append(n.good, "fresh")
	at := func(d time.Duration) uint64 {
		n.eventually(t, 60*time.Second, "hours pass", func() bool { return n.clock.Now().Sub(began) > d })
		return n.graph.Requests().Count - first
	}
	hour, day, end := at(time.Hour), at(24*time.Hour), at(26*time.Hour)
	require.GreaterOrEqual(t, hour, uint64(5), "many tries at first")
	require.GreaterOrEqual(t, day-hour, uint64(18), "and about one an hour later")
	require.LessOrEqual(t, day-hour, uint64(36))
	require.Greater(t, end, day, "they go on")
	b := n.book(t, "")
	require.EqualValues(t, 1, b.by("failed", "expired"))
	require.EqualValues(t, 1, b.Failed, "nothing else was given up")
	require.EqualValues(t, 52, b.Waiting, "fifty of the batch, the fresh one, and that of the sender whose clock was ahead")
	var e struct{ State, Reason, Sentence string }
	n.get(t, a.Events[0].URL, &e)
	require.Equal(t, "failed", e.State)
	require.Equal(t, "expired", e.Reason)
	require.Contains(t, e.Sentence, "Too late")
}

// Rate-limited, then one bad event in a batch of fifty: the 49 good ones go out, the
// bad one is named.
func (n *night) rateLimitAndPoison(t *testing.T) {
	limited := func() int { return n.graph.Requests().Refused["80004"] }
	n.graph.ClearFaults()
	n.graph.Fault(capitest.Fault{Code: 80004, Regain: 20, Count: 3})
	n.graph.Fault(capitest.Fault{Mode: capitest.ModePoison, Code: 100, Subcode: 2804036, EventID: "fifty-025"})
	n.eventually(t, 30*time.Second, "it is rate-limited", func() bool { return limited() > 0 })
	batch := n.leads(datasetA, "fifty", 50)
	for i := range batch {
		batch[i]["event_time"] = n.clock.Now().Add(-15 * time.Minute).Unix()
	}
	a := n.send(t, batch...)
	all := ids(batch)
	n.good = append(append(n.good, all[:25]...), all[26:]...)
	n.drained(t, 60*time.Second)
	require.Equal(t, 3, limited())
	var bad struct {
		State, Reason string
		Deliveries    []struct {
			Answer struct {
				Code, Subcode int
				Message       string
			}
		}
	}
	n.get(t, a.Events[25].URL, &bad)
	require.Equal(t, "failed", bad.State)
	require.Equal(t, "refused", bad.Reason)
	require.Equal(t, 2804036, bad.Deliveries[0].Answer.Subcode)
	require.NotEmpty(t, bad.Deliveries[0].Answer.Message, "in Meta's own words")
}

// No event lost, none doubled: the same event_id on each re-send.
func (n *night) morning(t *testing.T) {
	n.heldOnce(t, datasetA, n.good)
	require.Empty(t, n.findings(t, "clock", "open"), "its time has come")
	require.Equal(t, 2, n.graph.Times(datasetA, "Lead", "mid-000"), "sent again under its id, for nobody knew")
	b := n.book(t, "")
	require.EqualValues(t, len(n.good)+2, b.Received)
	require.EqualValues(t, len(n.good), b.Sent)
	require.EqualValues(t, 2, b.Failed)
	n.stop(t)
	rows := n.recount(t)
	require.Equal(t, b.Sent, rows["sent"])
	require.Equal(t, b.Received, rows["deliveries"])
}

// The disk is full: nothing is answered 2xx that is not kept, /readyz says so, and it
// goes on by itself once there is room.
func TestJourneyNightOfFailuresDiskFull(t *testing.T) {
	t.Parallel()
	disk := newDisk(t, 24)
	r := newRig(t, setup{data: disk.path})
	r.graph.Fault(capitest.Fault{Code: 500})
	var taken []string
	sendOne := func(id string) int {
		status, body := r.request(t, http.MethodPost, "/v1/events", bodyOf(t, r.lead(datasetA, id)))
		switch status {
		case http.StatusAccepted:
			taken = append(taken, id)
		case http.StatusServiceUnavailable:
			require.Contains(t, string(body), `"fix"`, "never a bare 503")
		default:
			t.Fatalf("answered %d: %s", status, body)
		}
		return status
	}
	for _, e := range ids(r.leads(datasetA, "before", 5)) {
		require.Equal(t, http.StatusAccepted, sendOne(e))
	}
	disk.fill(t)
	status := 0
	for i := 0; status != http.StatusServiceUnavailable; i++ { // what SQLite has still room for is kept
		require.Less(t, i, 2000, "the disk never becomes full")
		status = sendOne("full-" + strings.Repeat("x", i%7) + time.Now().Format("150405.000000000"))
	}
	r.eventually(t, 5*time.Second, "/readyz says so", func() bool { // it looks once a second
		ready, said := r.request(t, http.MethodGet, "/readyz", nil)
		return ready == http.StatusServiceUnavailable && strings.Contains(string(said), "disk")
	})
	alive, _ := r.request(t, http.MethodGet, "/healthz", nil)
	require.Equal(t, http.StatusOK, alive)
	refused := r.leads(datasetA, "refused", 40)
	status, _ = r.request(t, http.MethodPost, "/v1/events", bodyOf(t, refused...))
	require.Equal(t, http.StatusServiceUnavailable, status, "a batch is taken whole or not at all")

	disk.empty(t)
	r.graph.ClearFaults()
	r.eventually(t, 10*time.Second, "it is ready again", func() bool {
		status, _ := r.request(t, http.MethodGet, "/readyz", nil)
		return status == http.StatusOK
	})
	require.Equal(t, http.StatusAccepted, sendOne("after"))
	require.EqualValues(t, len(taken), r.book(t, "").Received, "nothing half-written")
	r.stop(t) // a start tries at once, so that the back-off need not be waited for
	r.start(t)
	r.drained(t, 20*time.Second)
	r.heldOnce(t, datasetA, taken)
	r.send(t, refused...) // the caller comes again, as it was told
	r.drained(t, 20*time.Second)
	r.heldOnce(t, datasetA, append(taken, ids(refused)...))
}
