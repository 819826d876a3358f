// Package admintest makes a ledger for tests of admin and its faces: a real SQLite
// file with events in every state, recorded through the store.
package admintest

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/platform"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
)

// Now is when the tests' clock stands still.
var Now = time.Date(2026, 11, 30, 14, 0, 0, 500_000_000, time.UTC)

var fingerprintKey = []byte("k")

// Prints are those of sightings.
var Prints = ledger.NewFingerprints(fingerprintKey)

// The names of a World.
const (
	Shop      = "shop"
	Neighbour = "neighbour"
	First     = "1001" // datasets of the shop
	Second    = "1002"
	Other     = "2001" // of the neighbour
	Token     = "not-a-token-of-anybody"
)

// World is a ledger with two workspaces. Its clock stands still at Now.
type World struct {
	*admin.Admin
	T         testing.TB
	Store     *store.Store
	Settings  *config.Live
	Platforms map[string]platform.Platform
	IDs       *ledger.IDs
	Reloads   int
	Recorder  *record.Recorder
	Rules     []ledger.Rule // of the shop, once it is connected; see Connect

	Workspaces map[string]int64
	Targets    map[string]ledger.Destination // by dataset id

	connected bool
	ring      *secret.Ring
}

// New returns a world without events.
func New(tb testing.TB) *World {
	tb.Helper()
	// A billionth of the real speed: no test lives to see the clock move.
	clock := ledger.TestClock(time.Until(Now), 1e-9)
	s, err := store.Open(tb.Context(), store.Config{Database: filepath.Join(tb.TempDir(), "capiloop.db"), Clock: clock})
	must(tb, err)
	tb.Cleanup(func() { must(tb, s.Close()) })
	w := &World{T: tb, Store: s, IDs: ledger.NewIDs(s.Node(), func() time.Time { return Now }), Platforms: make(map[string]platform.Platform)}
	w.Apply(First, Second)
	w.Recorder = record.New(record.Config{Store: s, Platforms: w.Platforms, IDs: w.IDs, Clock: clock, Fingerprint: fingerprintKey})
	w.Admin = admin.New(admin.Config{
		Store: s, Settings: w.Settings, Platforms: w.Platforms, Clock: clock, Recorder: w.Recorder, Prints: Prints,
		Reload: func(context.Context) error { w.Reloads++; return nil },
	})
	return w
}

// Apply puts settings in force in which the shop has these datasets.
func (w *World) Apply(datasets ...string) {
	w.T.Helper()
	files := []store.FileWorkspace{{Name: Shop}, {Name: Neighbour, Destinations: []store.FileDestination{{Kind: config.Meta, Name: Other, Live: true}}}}
	for _, d := range datasets {
		files[0].Destinations = append(files[0].Destinations, store.FileDestination{Kind: config.Meta, Name: d, Live: true})
	}
	if w.connected {
		files[0].CRMs = []store.FileCRM{{Kind: "pipedrive", Name: CRM}}
	}
	applied, err := w.Store.ApplyFile(w.T.Context(), files)
	must(w.T, err)
	w.Workspaces = applied.Workspaces
	w.Targets = make(map[string]ledger.Destination)
	list := make([]*config.Workspace, 0, len(files))
	for _, f := range files {
		ws := &config.Workspace{ID: applied.Workspaces[f.Name], Name: f.Name, APIKeys: []config.APIKey{config.NewAPIKey("web", "key-of-"+f.Name)}}
		for _, d := range f.Destinations {
			destination := applied.Destinations[d.Kind+"/"+d.Name]
			w.Targets[d.Name] = destination
			ws.Datasets = append(ws.Datasets, &config.Dataset{Destination: destination, Token: secret.New(Token)})
		}
		if w.connected && f.Name == Shop {
			w.connect(ws, applied.CRMs[Shop+"/"+CRM])
		}
		list = append(list, ws)
	}
	snapshot, err := config.NewSnapshot(list...)
	must(w.T, err)
	if w.Settings == nil {
		w.Settings = config.NewLive(snapshot)
	}
	w.Settings.Set(snapshot)
}

// Make returns an event of a workspace for a dataset; it waits unless changed.
func (w *World) Make(workspace, dataset, name, eventID string, change ...func(*ledger.Event)) *ledger.Event {
	id := w.IDs.Next()
	payload, err := json.Marshal(map[string]any{"event_name": name, "event_id": eventID, "user_data": map[string]string{"em": "f660ab912ec121d1b1e928a0bb4bc61b15f5ad44d5efdc4e1c92a25e99b8e44a"}})
	must(w.T, err)
	came := capi.KeySet(0).Add(capi.KeyEmail)
	e := &ledger.Event{
		ID: id, Workspace: w.Workspaces[workspace], Source: "web", Name: name, EventID: eventID, Time: Now.Add(-time.Minute).Truncate(time.Second),
		ActionSource: "website", Came: came.Add(capi.KeyPhone), Person: 1,
		Deliveries: []ledger.Delivery{{
			ID: id.Delivery(1), Destination: w.Targets[dataset].ID, State: ledger.Waiting, Payload: payload, Kept: came,
			Notes:    capi.Problems{{Field: "user_data.ph", Code: "no_country", Reason: "the number has no country code", Fix: "write it as +7 701 000 00 00"}},
			Priority: ledger.Ordinary, Deadline: Now.Add(6 * 24 * time.Hour).Truncate(time.Second),
		}},
	}
	for _, f := range change {
		f(e)
	}
	return e
}

// In makes an event's delivery begin in a state.
func In(state ledger.State, why ledger.Reason) func(*ledger.Event) {
	return func(e *ledger.Event) {
		d := &e.Deliveries[0]
		d.State, d.Reason = state, why
		if state == ledger.Skipped {
			d.Payload, d.Kept, d.Notes = nil, 0, nil
		}
	}
}

// Record records events.
func (w *World) Record(events ...*ledger.Event) {
	w.T.Helper()
	_, err := w.Store.Record(w.T.Context(), &store.Recording{Workspace: events[0].Workspace, Events: events})
	must(w.T, err)
}

// Settle claims what waits for a dataset and gives it an end; held is the lane's
// reason from then on.
func (w *World) Settle(dataset string, state ledger.State, why, held ledger.Reason, answer ledger.Answer) {
	w.T.Helper()
	destination := w.Targets[dataset].ID
	b, lane, err := w.Store.Claim(w.T.Context(), store.ClaimRequest{
		Destination: destination, Node: "test", Batch: w.IDs.Next(), Now: Now, Lease: time.Minute, MaxRows: 1000, MaxBytes: 1 << 20, Probe: true,
	})
	must(w.T, err)
	if b == nil {
		w.T.Fatal("nothing waits")
	}
	lane.Held, lane.Answer = held, answer
	outcome := map[ledger.State]string{ledger.Sent: "sent", ledger.Failed: "refused", ledger.Waiting: "retry", ledger.Held: "lost"}[state]
	switch {
	case held != ledger.None:
		lane.HeldSince, lane.DueAt, outcome = Now, Now.Add(30*time.Second), "held"
	case state == ledger.Waiting:
		lane.Failures, lane.Paused, lane.DueAt = lane.Failures+1, ledger.Backlog, Now.Add(time.Minute)
	default:
		lane.AcceptedAt = Now
	}
	st := &ledger.Settlement{Batch: b, Outcome: outcome, Answer: answer, Lane: lane}
	for _, r := range b.Rows {
		st.Changes = append(st.Changes, ledger.Change{Row: r, State: state, Why: why})
	}
	must(w.T, w.Store.Settle(w.T.Context(), st))
}

// Fill records events of the shop in every state, and one of the neighbour, and
// returns them by a word for each: sent, failed, clock, doubtful, skipped, held,
// neighbour.
func (w *World) Fill() map[string]*ledger.Event {
	w.T.Helper()
	all := map[string]*ledger.Event{
		"failed":    w.Make(Shop, First, "Purchase", "order-1"),
		"sent":      w.Make(Shop, First, "Lead", "lead-1"),
		"clock":     w.Make(Shop, First, "Lead", "lead-from-tomorrow", In(ledger.Held, ledger.ClockAhead)),
		"doubtful":  w.Make(Shop, First, "Schedule", "visit-1", In(ledger.Held, ledger.MaybeSent)),
		"skipped":   w.Make(Shop, First, "Lead", "lead-without-consent", In(ledger.Skipped, ledger.NoConsent)),
		"held":      w.Make(Shop, Second, "Contact", "call-1"),
		"neighbour": w.Make(Neighbour, Other, "Lead", "lead-of-the-neighbour"),
	}
	w.Record(all["failed"])
	w.Settle(First, ledger.Failed, ledger.Refused, ledger.None, ledger.Answer{
		Status: 400, Code: 100, Subcode: 2804009, TraceID: "TRACE-BAD", Message: "Your purchase event does not include a currency.",
	})
	w.Record(all["sent"])
	w.Settle(First, ledger.Waiting, ledger.Retrying, ledger.None, ledger.Answer{Status: 503, Message: "Service temporarily unavailable"})
	must(w.T, w.Store.TryNow(w.T.Context(), w.Targets[First].ID))
	w.Settle(First, ledger.Sent, ledger.None, ledger.None, ledger.Answer{Status: 200, TraceID: "TRACE-GOOD"})
	w.Record(all["clock"], all["doubtful"], all["skipped"])
	w.Record(all["held"])
	w.Settle(Second, ledger.Waiting, ledger.Retrying, ledger.DatasetOutOfReach, ledger.Answer{
		Status: 400, Code: 100, Subcode: 33, TraceID: "TRACE-HELD", Message: "Unsupported post request. Object with ID '1002' does not exist.",
	})
	w.Record(all["neighbour"])
	w.Record(w.Make(Shop, First, "Lead", "lead-1")) // a repeat
	_, err := w.Store.Record(w.T.Context(), &store.Recording{Workspace: w.Workspaces[Shop], Refused: []store.Refused{{At: Now, Source: "web", Name: "Lead"}}})
	must(w.T, err)
	return all
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
