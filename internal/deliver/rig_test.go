package deliver_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/capi/capitest"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/deliver"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/platform"
	"github.com/capiloop/capiloop/internal/platform/meta"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
)

// rig is the whole way of an event in one process, from recording to the stand-in
// for Graph, in a bubble of its own time: hours pass in no time.
type rig struct {
	graph    *capitest.Graph
	store    *store.Store
	recorder *record.Recorder
	ws       *config.Workspace
	database string
	stop     func()
	starts   int
	sent     int
}

const (
	datasetA = "1111111111"
	datasetB = "2222222222"
)

// inBubble runs a test on a rig with two datasets.
func inBubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)))
		r := &rig{graph: capitest.New(capitest.Options{}), database: filepath.Join(t.TempDir(), "capiloop.db")}
		r.start(t)
		defer func() { r.stop() }()
		test(t, r)
	})
}

// start opens the store and begins to deliver, as a new process would.
func (r *rig) start(t *testing.T) {
	t.Helper()
	r.starts++
	s, err := store.Open(t.Context(), store.Config{Database: r.database})
	require.NoError(t, err)
	applied, err := s.ApplyFile(t.Context(), []store.FileWorkspace{{Name: "shop", Destinations: []store.FileDestination{
		{Kind: meta.Kind, Name: datasetA, Live: true}, {Kind: meta.Kind, Name: datasetB, Live: true},
	}}})
	require.NoError(t, err)
	r.ws = &config.Workspace{ID: applied.Workspaces["shop"], Name: "shop", Country: "KZ"}
	for _, id := range []string{datasetA, datasetB} {
		r.ws.Datasets = append(r.ws.Datasets, &config.Dataset{Destination: applied.Destinations["meta/"+id], Token: secret.New("token-of-" + id), URL: "http://graph.test"})
	}
	snapshot, err := config.NewSnapshot(r.ws)
	require.NoError(t, err)
	platforms := map[string]platform.Platform{meta.Kind: meta.New(meta.Config{Transport: capitest.Transport(r.graph)})}
	ids := ledger.NewIDs(s.Node(), time.Now)
	r.store = s
	r.recorder = record.New(record.Config{Store: s, Platforms: platforms, IDs: ids, Fingerprint: []byte("k")})
	d := deliver.New(deliver.Config{
		Store: s, Settings: config.NewLive(snapshot), Platforms: platforms, IDs: ids, Node: fmt.Sprint("node-", r.starts),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	r.stop = func() {
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, s.Close())
	}
}

// leads records n leads for dataset A and returns their event ids.
func (r *rig) leads(t *testing.T, n int) []string {
	t.Helper()
	return r.events(t, datasetA, n, func(int, *capi.Event) {})
}

func (r *rig) events(t *testing.T, dataset string, n int, change func(i int, e *capi.Event)) []string {
	t.Helper()
	ids := make([]string, n)
	items := make([]record.Item, n)
	for i := range n {
		r.sent++
		ids[i] = fmt.Sprint("e", r.sent)
		e := &capi.Event{
			EventName: "Lead", EventTime: time.Now().Unix(), EventID: ids[i], ActionSource: capi.ActionSourceSystemGenerated,
			UserData: capi.UserData{Email: []string{fmt.Sprintf("person%d@example.com", r.sent)}},
		}
		change(i, e)
		items[i] = record.Item{Event: e, Dataset: dataset}
	}
	out, err := r.recorder.Record(t.Context(), record.Request{Workspace: r.ws, Source: "api", Items: items})
	require.NoError(t, err)
	for _, res := range out.Results {
		require.Empty(t, res.Rejected)
	}
	return ids
}

// book returns the balanced book.
func (r *rig) book(t *testing.T) *ledger.Book {
	t.Helper()
	b, err := r.store.Book(t.Context(), store.BookQuery{Workspace: r.ws.ID})
	require.NoError(t, err)
	require.Zero(t, b.Unexplained())
	rows, err := r.store.Recount(t.Context(), r.ws.ID)
	require.NoError(t, err)
	for _, s := range ledger.States {
		require.Equal(t, rows.Total(s), b.Total(s), "state %s", s)
	}
	return b
}

// heldOnce checks that the stand-in counts each event exactly once.
func (r *rig) heldOnce(t *testing.T, dataset string, ids []string) {
	t.Helper()
	kept := make(map[string]int)
	for _, e := range r.graph.Kept(dataset) {
		kept[e.EventID]++
	}
	for _, id := range ids {
		require.Equal(t, 1, kept[id], "event %s", id)
	}
}

func (r *rig) openFindings(t *testing.T) []ledger.Finding {
	t.Helper()
	all, err := r.store.Findings(t.Context(), r.ws.ID)
	require.NoError(t, err)
	var open []ledger.Finding
	for _, f := range all {
		if f.FixedAt.IsZero() {
			open = append(open, f)
		}
	}
	return open
}

// requests returns how many requests Graph has seen.
func (r *rig) requests() int { return int(r.graph.Requests().Count) }
