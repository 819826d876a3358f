package intake_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/intake"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/platform"
	"github.com/capiloop/capiloop/internal/platform/meta"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
)

// Keys and datasets of the two workspaces that a door stands before. They open
// nothing anywhere.
const (
	keyOne     = "not-a-real-key-of-one-0001"
	keyTwo     = "not-a-real-key-of-two-0002"
	datasetOne = "1234567890"
	datasetTwo = "2234567890"

	fingerprintKey = "a fingerprint's key for tests"
)

// the moment at which the captured requests of the SDKs were sent.
const now = 1759270100

// door is a handler with everything behind it.
type door struct {
	*intake.Handler
	store    *store.Store
	recorder *record.Recorder
	one, two *config.Workspace
	log      *buffer
	metrics  *prometheus.Registry
	config   intake.Config
}

// buffer is a log that several goroutines write.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func open(tb testing.TB, change ...func(*intake.Config)) *door {
	tb.Helper()
	return openOn(tb, filepath.Join(tb.TempDir(), "door.db"), change...)
}

func openOn(tb testing.TB, database string, change ...func(*intake.Config)) *door {
	tb.Helper()
	clock := ledger.TestClock(time.Until(time.Unix(now, 0)), 1)
	s, err := store.Open(tb.Context(), store.Config{Database: database, Clock: clock})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	applied, err := s.ApplyFile(tb.Context(), []store.FileWorkspace{
		{Name: "one", Destinations: []store.FileDestination{{Kind: config.Meta, Name: datasetOne, Live: true}}, Sources: fileSources("one"), CRMs: fileCRMs()},
		{Name: "two", Destinations: []store.FileDestination{{Kind: config.Meta, Name: datasetTwo, Live: true}}, Sources: fileSources("two")},
	})
	require.NoError(tb, err)
	master, err := secret.LoadMaster(filepath.Join(tb.TempDir(), "master.key"), os.LookupEnv)
	require.NoError(tb, err)
	workspace := func(name, key, dataset string) *config.Workspace {
		ring, _ := master.NewRing(applied.Workspaces[name])
		return &config.Workspace{
			ID: applied.Workspaces[name], Name: name, Country: "US", APIKeys: []config.APIKey{config.NewAPIKey("shop", key)},
			Datasets: []*config.Dataset{{Destination: applied.Destinations[config.Meta+"/"+dataset]}},
			Ring:     ring, MergeWindow: time.Hour, Sources: sourcesOf(name, applied),
		}
	}
	d := &door{store: s, one: workspace("one", keyOne, datasetOne), two: workspace("two", keyTwo, datasetTwo), log: &buffer{}, metrics: prometheus.NewRegistry()}
	d.one.CRMs = crmsOf(applied)
	settings, err := config.NewSnapshot(d.one, d.two)
	require.NoError(tb, err)
	ids := ledger.NewIDs(s.Node(), clock.Now)
	d.recorder = record.New(record.Config{
		Store: s, Platforms: map[string]platform.Platform{config.Meta: meta.New(meta.Config{})},
		IDs: ids, Clock: clock, Fingerprint: []byte(fingerprintKey),
	})
	d.config = intake.Config{
		Recorder: d.recorder, Leads: d.recorder, Stages: d.recorder, Inbox: s, IDs: ids, Forms: kinds(), CRMs: crmKinds(), Account: account,
		Settings: config.NewLive(settings), Clock: clock, Metrics: d.metrics,
		Log: slog.New(slog.NewTextHandler(d.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&d.config)
	}
	d.Handler = intake.New(d.config)
	return d
}

// answer is what came back.
type answer struct {
	*httptest.ResponseRecorder
	parsed map[string]any
}

// do sends a request; headers are pairs. Every answer must be JSON.
func (d *door) do(tb testing.TB, method, target string, body io.Reader, headers ...string) answer {
	tb.Helper()
	a := d.call(method, target, body, headers...)
	if method != http.MethodHead {
		require.NoError(tb, json.Unmarshal(a.Body.Bytes(), &a.parsed), a.Body.String())
	}
	return a
}

// call is do for answers that need not be JSON.
func (d *door) call(method, target string, body io.Reader, headers ...string) answer {
	r := httptest.NewRequest(method, target, body)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	a := answer{ResponseRecorder: httptest.NewRecorder()}
	d.ServeHTTP(a, r)
	return a
}

// post sends JSON to /v1/events with the key of workspace one.
func (d *door) post(tb testing.TB, body string, headers ...string) answer {
	tb.Helper()
	headers = append([]string{"Authorization", "Bearer " + keyOne, "Content-Type", "application/json"}, headers...)
	return d.do(tb, http.MethodPost, "/v1/events", strings.NewReader(body), headers...)
}

// graph sends JSON as Meta's SDK for Node does.
func (d *door) graph(tb testing.TB, body string) answer {
	tb.Helper()
	return d.do(tb, http.MethodPost, "/v26.0/"+datasetOne+"/events?access_token="+keyOne, strings.NewReader(body), "Content-Type", "application/json")
}

// at digs in the answer: names and indexes.
func (a answer) at(path ...any) any {
	var v any = a.parsed
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			list, _ := v.([]any)
			if p >= len(list) {
				return nil
			}
			v = list[p]
		}
	}
	return v
}

// codes lists the member code of a list's elements.
func (a answer) codes(path ...any) []string {
	list, _ := a.at(path...).([]any)
	out := []string{}
	for _, v := range list {
		out = append(out, v.(map[string]any)["code"].(string))
	}
	return out
}

// book returns the book of workspace one, after checking that it balances and that
// the counters say what the rows say.
func (d *door) book(tb testing.TB) *ledger.Book {
	tb.Helper()
	b, err := d.store.Book(tb.Context(), store.BookQuery{Workspace: d.one.ID})
	require.NoError(tb, err)
	require.Zero(tb, b.Unexplained())
	again, err := d.store.Recount(tb.Context(), d.one.ID)
	require.NoError(tb, err)
	require.Equal(tb, again.Received, b.Received)
	return b
}

func (d *door) views(tb testing.TB) []*store.EventView {
	tb.Helper()
	list, err := d.store.Latest(tb.Context(), d.one.ID, 100)
	require.NoError(tb, err)
	return list
}

// captured is a request of one of Meta's official SDKs, as it went over the wire.
type captured struct {
	Name        string            `json:"name"`
	Method      string            `json:"method"`
	Path        string            `json:"path"`
	Query       map[string]string `json:"query"`
	ContentType string            `json:"content_type"`
	UserAgent   string            `json:"user_agent"`
	Events      int               `json:"events"`
	Body        string            `json:"body"`
}

func readCaptured(tb testing.TB) []captured {
	tb.Helper()
	raw, err := os.ReadFile("testdata/sdk.jsonl")
	require.NoError(tb, err)
	var all []captured
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c captured
		require.NoError(tb, json.Unmarshal(lines.Bytes(), &c))
		all = append(all, c)
	}
	require.NotEmpty(tb, all)
	return all
}

// lead is a good event; more members may follow.
func lead(id string, more ...string) string {
	return `{"event_name":"Lead","event_time":1759270000,"event_id":"` + id + `","action_source":"website",` +
		`"event_source_url":"https://www.example.com/","user_data":{"em":"jane@example.com","client_user_agent":"Mozilla/5.0"}` + strings.Join(more, "") + `}`
}

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// claim takes the first batch of workspace one's dataset, as deliver would.
func (d *door) claim(tb testing.TB) *ledger.Batch {
	tb.Helper()
	batch, _, err := d.store.Claim(tb.Context(), store.ClaimRequest{
		Destination: d.one.Datasets[0].ID, Node: "test", Batch: ledger.NewIDs(9, d.config.Clock.Now).Next(), Lease: time.Minute, Now: d.config.Clock.Now(), MaxRows: 100, MaxBytes: 1 << 20,
	})
	require.NoError(tb, err)
	require.NotNil(tb, batch)
	return batch
}
