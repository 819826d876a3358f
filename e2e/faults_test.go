package e2e_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

// faultCase is one trouble of one dataset.
type faultCase struct {
	name   string
	faults []capitest.Fault // met in this order
	held   string           // the reason the book gives while the last one stands; "": it waits
	passes bool             // the faults use themselves up, nothing is to be repaired
	failed int              // how many of the events end as failed: the poison
	events int              // 0: 3
}

func fault(code, subcode int) []capitest.Fault {
	return []capitest.Fault{{Code: code, Subcode: subcode}}
}

// ours are all troubles of Graph, each by itself, then some together.
func faultCases() []faultCase {
	list := []faultCase{
		{name: "100/33", faults: fault(100, 33), held: "dataset_out_of_reach"},
		{name: "803", faults: fault(803, 0), held: "dataset_out_of_reach"},
		{name: "plain 100", faults: fault(100, 0), held: "unclear_refusal"},
		{name: "270", faults: fault(270, 0), held: "permission_missing"},
		{name: "200", faults: fault(200, 0), held: "permission_missing"},
		{name: "294", faults: fault(294, 0), held: "permission_missing"},
		{name: "10", faults: fault(10, 0), held: "permission_missing"},
		{name: "3", faults: fault(3, 0), held: "permission_missing"},
		{name: "102", faults: fault(102, 0), held: "token_invalid"},
		{name: "368", faults: fault(368, 0), held: "blocked_by_policy"},
		{name: "unknown code", faults: fault(5, 12), held: "unclear_refusal"},
		{name: "localised", faults: []capitest.Fault{{Mode: capitest.ModeLocalised, Code: 190, Subcode: 463}}, held: "token_invalid"},
		{name: "html 503", faults: []capitest.Fault{{Mode: capitest.ModeHTML}}},
		{name: "html 200", faults: []capitest.Fault{{Mode: capitest.ModeHTML, Status: 200}}},
		{name: "empty", faults: []capitest.Fault{{Mode: capitest.ModeEmpty}}},
		{name: "empty 200", faults: []capitest.Fault{{Mode: capitest.ModeEmpty, Status: 200}}},
		{name: "error is null", faults: []capitest.Fault{{Mode: capitest.ModeBody, Body: `{"error":null}`}}},
		{name: "cut", faults: []capitest.Fault{{Mode: capitest.ModeCut}}},
		{name: "reset after it was stored", faults: []capitest.Fault{{Mode: capitest.ModeReset}}},
		{name: "hang", faults: []capitest.Fault{{Mode: capitest.ModeHang}}},
		{name: "slow", faults: []capitest.Fault{{Mode: capitest.ModeSlow, DelayMS: 700, Count: 2}}, passes: true},
		{name: "partial", faults: []capitest.Fault{{Mode: capitest.ModePartial, Received: 1, Count: 1}}, passes: true},
		{name: "500, throttled, then poison", passes: true, failed: 1, events: 50, faults: []capitest.Fault{
			{Code: 500, Count: 2}, {Code: 80004, Count: 2}, {Mode: capitest.ModePoison, Code: 100, Subcode: 2804050},
		}},
		{name: "reset, then cut, then expired token", held: "token_invalid", faults: []capitest.Fault{
			{Mode: capitest.ModeReset, Count: 1}, {Mode: capitest.ModeCut, Count: 1}, {Code: 190, Subcode: 463},
		}},
		{name: "reset, then 500 for a while", passes: true, faults: []capitest.Fault{{Mode: capitest.ModeReset, Count: 1}, {Code: 500, Count: 3}}},
		{name: "poison with a plain 100", passes: true, failed: 1, events: 20, faults: []capitest.Fault{{Mode: capitest.ModePoison, Code: 100, Subcode: 0}}},
	}
	for _, subcode := range []int{0, 458, 459, 460, 463, 464, 467, 492} {
		list = append(list, faultCase{name: fmt.Sprint("190/", subcode), faults: fault(190, subcode), held: "token_invalid"})
	}
	for _, code := range []int{1, 2, 500, 502, 503, 4, 17, 32, 341, 613, 80004} {
		list = append(list, faultCase{name: strconv.Itoa(code), faults: fault(code, 0)})
	}
	for _, n := range []int{0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16, 19, 36, 50} {
		poison := []capitest.Fault{{Mode: capitest.ModePoison, Code: 100, Subcode: 2804000 + n}}
		list = append(list, faultCase{name: fmt.Sprint("100/", 2804000+n), faults: poison, passes: true, failed: 1})
	}
	return list
}

// Each fault of Graph meets a dataset of its own, all in one server: while it lasts
// the book says why, nothing else is touched, and once it is over everything has
// arrived exactly once by itself.
func TestFaultByFault(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, database string) {
		cases := faultCases()
		speed := 200.0
		if database == "postgres" {
			speed = 50 // every lane asks the database every two seconds of this clock
		}
		f := &faultTest{cases: cases, sent: make([][]event, len(cases))}
		for i := range cases {
			f.datasets = append(f.datasets, strconv.Itoa(3000000001+i))
		}
		f.rig = newRig(t, setup{database: database, speed: speed, datasets: append([]string{datasetA}, f.datasets...)})
		f.begin(t)
		f.during(t)
		f.graph.ClearFaults()
		f.after(t)
	})
}

type faultTest struct {
	*rig
	cases    []faultCase
	datasets []string
	sent     [][]event
}

func (f *faultTest) begin(t *testing.T) {
	for i, c := range f.cases {
		n := max(c.events, 3)
		f.sent[i] = f.leads(f.datasets[i], fmt.Sprint("f", i), n)
		for _, x := range c.faults {
			x.Dataset = f.datasets[i]
			if x.Mode == capitest.ModePoison {
				x.EventID = f.poison(i)
			}
			f.graph.Fault(x)
		}
	}
	for i := range f.cases {
		f.send(t, f.sent[i]...)
	}
	f.send(t, f.lead(datasetA, "untouched"))
}

// poison is the event of a case that Graph refuses: the one in the middle.
func (f *faultTest) poison(i int) string {
	return f.sent[i][len(f.sent[i])/2]["event_id"].(string)
}

// during looks while what needs a repair is not repaired.
func (f *faultTest) during(t *testing.T) {
	f.eventually(t, 5*time.Second, "the dataset without a fault gets its event", func() bool { return f.graph.Times(datasetA, "Lead", "untouched") == 1 })
	held := 0
	for i, c := range f.cases {
		n := int64(len(f.sent[i]))
		switch {
		case c.passes:
			f.eventually(t, 60*time.Second, c.name+" passes by itself", func() bool {
				b, err := f.tryBook(f.datasets[i])
				return err == nil && b.Waiting+b.Held == 0
			})
			continue
		case c.held != "":
			held++
			f.eventually(t, 30*time.Second, c.name+" is held as "+c.held, func() bool {
				b, err := f.tryBook(f.datasets[i])
				return err == nil && b.by("held", c.held) == n
			})
		default:
			f.eventually(t, 30*time.Second, c.name+" was met", func() bool { return f.hits(f.datasets[i]) > 0 })
			require.Equal(t, n, f.book(t, f.datasets[i]).Waiting, c.name)
		}
	}
	require.Len(t, f.findings(t, "access", "open"), held, "one finding for each held dataset")
	require.Empty(t, f.findings(t, "access", "fixed"))
	f.book(t, "")
}

// hits is how many requests met the faults of a dataset that still stand.
func (f *faultTest) hits(dataset string) (n int) {
	for _, x := range f.graph.Faults() {
		if x.Dataset == dataset {
			n += x.Hits
		}
	}
	return n
}

// after looks when all is repaired; nobody pressed a button.
func (f *faultTest) after(t *testing.T) {
	f.drained(t, 75*time.Second) // an hour of back-off takes 72 seconds of a clock that is 50 times as fast
	var all, failed int
	for i, c := range f.cases {
		b := f.book(t, f.datasets[i])
		all, failed = all+len(f.sent[i]), failed+c.failed
		require.EqualValues(t, len(f.sent[i]), b.Received, c.name)
		require.EqualValues(t, c.failed, b.by("failed", "refused"), "%s: %+v", c.name, b)
		want := ids(f.sent[i])
		if c.failed > 0 {
			middle := len(want) / 2
			want = append(want[:middle], want[middle+1:]...)
		}
		f.heldOnce(t, f.datasets[i], want)
	}
	b := f.book(t, "")
	require.EqualValues(t, all+1, b.Received)
	require.EqualValues(t, all+1-failed, b.Sent)
	require.EqualValues(t, failed, b.Failed)
	require.Empty(t, f.findings(t, "access", "open"), "what is repaired is no finding any more")
	f.stop(t)
	rows := f.recount(t)
	require.Equal(t, b.Sent, rows["sent"])
	require.Equal(t, b.Failed, rows["failed"])
	require.Zero(t, rows["pending"])
	require.Zero(t, rows["unsettled"])
}

// A dataset that hangs costs thirty seconds a try. Meanwhile the callers and the
// other datasets notice nothing, and what may have arrived is sent under its id.
func TestAHangingDatasetHoldsUpNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{datasets: []string{datasetA, datasetB}, speed: 4})
	// Graph takes the events in, but the answer comes after the client went away.
	r.graph.Fault(capitest.Fault{Mode: capitest.ModeSlow, DelayMS: 31_000, Dataset: datasetA, Count: 1})
	began := time.Now()
	r.send(t, r.lead(datasetA, "hangs"))
	r.eventually(t, 5*time.Second, "the request hangs", func() bool { return r.graph.Requests().Faults == 1 })
	slowest := time.Duration(0)
	for i := range 50 {
		at := time.Now()
		r.send(t, r.lead(datasetB, fmt.Sprint("quick-", i)), r.lead(datasetA, fmt.Sprint("behind-", i)))
		slowest = max(slowest, time.Since(at))
	}
	require.Less(t, slowest, 10*time.Second, "the caller waits for our disk alone") // 50 ms on a quiet machine
	r.eventually(t, 10*time.Second, "the other dataset gets its events", func() bool { return len(r.graph.Kept(datasetB)) == 50 })
	require.EqualValues(t, 51, r.book(t, datasetA).Waiting)
	r.drained(t, 60*time.Second)
	require.Greater(t, time.Since(began), 29*time.Second, "it did hang")
	r.eventually(t, 10*time.Second, "the late one arrives as well", func() bool { return r.graph.Times(datasetA, "Lead", "hangs") == 2 })
	require.Len(t, r.graph.Kept(datasetA), 51)
	require.Empty(t, r.graph.SecondIDs())
	require.EqualValues(t, 101, r.book(t, "").Sent)
}

// Removing a dataset from the file neither loses its events nor sends them anywhere
// else; putting it back sends them.
func TestADatasetThatVanishesFromTheFile(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{datasets: []string{datasetA, datasetB}})
	r.graph.Fault(capitest.Fault{Code: 500, Dataset: datasetB})
	r.send(t, r.leads(datasetB, "stay", 3)...)
	r.stop(t)
	r.configure(t, datasetA)
	r.start(t)
	require.EqualValues(t, 3, r.book(t, "").by("held", "destination_removed"))
	status, _ := r.post(t, r.lead(datasetB, "late"))
	require.Equal(t, http.StatusUnprocessableEntity, status)
	r.stop(t)
	r.graph.ClearFaults()
	r.configure(t, datasetA, datasetB)
	r.start(t)
	r.drained(t, 15*time.Second)
	require.Len(t, r.graph.Kept(datasetB), 3)
	require.Empty(t, r.graph.Kept(datasetA))
}
