package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

const (
	// The secrets that must never be seen in anything the product says.
	metaToken = "EAAnobodymayeverseethistoken0123456789"
	appSecret = "nobodymayeverseethissecretofanapp"
	apiKey    = "key-of-the-shop-that-nobody-may-see"

	datasetA = "1111111111"
	datasetB = "2222222222"
)

// setup says what a rig is made of; the zero value is one dataset on SQLite at the
// pace of the world.
type setup struct {
	database string // "postgres", else SQLite
	datasets []string
	speed    float64
	graph    capitest.Options
	data     string // the data folder; "": a new one
	country  string // of the workspace; "": KZ
	lines    string // further lines of the workspace's configuration
	rules    string // of a leadRig: the lines about its stages
	private  []string
}

// rig is a server with the stand-in for Graph in Meta's place.
type rig struct {
	t        *testing.T
	graph    *capitest.Graph
	graphURL string
	clock    *clock
	home     string // where the configuration lies
	data     string
	postgres string // URL of its own database; "": SQLite
	config   string
	server   atomic.Pointer[process]
	seen     *buffer // every answer and output
	country  string
	lines    string   // further ones of the workspace
	private  []string // what must never be seen, beside the usual
}

// newRig makes a rig and starts its server. When the test ends, everything that was
// said and stored is searched for what must not be there.
func newRig(t *testing.T, s setup) *rig {
	t.Helper()
	if s.speed == 0 {
		s.speed = 1
	}
	if s.datasets == nil {
		s.datasets = []string{datasetA}
	}
	home := folder(t)
	r := &rig{t: t, clock: newClock(s.speed), home: home, data: filepath.Join(home, "data"), config: filepath.Join(home, "shop.yaml"), seen: &buffer{}}
	r.country, r.lines, r.private = s.country, s.lines, s.private
	if r.country == "" {
		r.country = "KZ"
	}
	if s.data != "" {
		r.data = s.data
	}
	if s.database == "postgres" {
		r.postgres = newDatabase(t)
	}
	s.graph.Now, s.graph.AppSecret = r.clock.Now, appSecret
	if s.graph.Rules.UnknownLead == capitest.Default {
		s.graph.Rules.UnknownLead = capitest.Warn
	}
	r.graph = capitest.New(s.graph)
	server := httptest.NewServer(r.graph)
	r.graphURL = server.URL
	t.Cleanup(func() {
		r.graph.ClearFaults()
		server.Close()
	})
	r.configure(t, s.datasets...)
	t.Cleanup(func() { r.end(t) })
	r.start(t)
	return r
}

// folder makes a folder whose path is short, for a socket's path must be.
func folder(t *testing.T) string {
	t.Helper()
	path, err := os.MkdirTemp("", "e2e-") //nolint:usetesting // t.TempDir has the test's name in it
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(path) })
	return path
}

// configure writes the configuration for these datasets.
func (r *rig) configure(t *testing.T, datasets ...string) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "listen: 127.0.0.1:0\ngraph: {url: %q}\nworkspaces:\n  - name: shop\n    country: %s\n    currency: KZT\n", r.graphURL, r.country)
	fmt.Fprintf(&b, "    api_keys: [\"${SHOP_KEY}\"]\n    datasets:\n")
	for _, id := range datasets {
		fmt.Fprintf(&b, "      - {id: %q, token: \"${SHOP_TOKEN}\", app_secret: \"${SHOP_SECRET}\"}\n", id)
	}
	b.WriteString(strings.ReplaceAll(r.lines, "GRAPH", r.graphURL))
	require.NoError(t, os.WriteFile(r.config, []byte(b.String()), 0o600))
}

// env is what the configuration needs.
func (r *rig) env() []string {
	env := []string{"SHOP_KEY=" + apiKey, "SHOP_TOKEN=" + metaToken, "SHOP_SECRET=" + appSecret}
	if r.postgres != "" {
		// Nodes with data folders of their own share the master key; not a secret.
		env = append(env, "CAPILOOP_DATABASE="+r.postgres, "CAPILOOP_MASTER_KEY=6d6164652d75702d6d61737465722d6b65792d666f722d74657374732d6f6e6c")
	}
	return env
}

// serve launches a server without waiting for it.
func (r *rig) serve(t *testing.T, args ...string) *process {
	t.Helper()
	// At this level most is said, and what must not be said would be too.
	args = append([]string{"serve", "--config", r.config, "--data", r.data, "--log-level", "debug", "--test-clock", r.clock.flag()}, args...)
	return launch(t, r.home, r.env(), args...)
}

// start starts the server and waits until it is ready.
func (r *rig) start(t *testing.T) {
	t.Helper()
	p := r.serve(t)
	p.addr = p.said(t, p.errOut, `capiloop is running.* listen=(\S+)`)
	r.server.Store(p)
	r.eventually(t, 10*time.Second, "readyz", func() bool {
		status, _ := r.request(t, "GET", "/readyz", nil)
		return status == 200
	})
}

func (r *rig) url() string { return "http://" + r.server.Load().addr }

// kill ends the server without a warning.
func (r *rig) kill() {
	p := r.server.Load()
	p.kill()
	r.keep(p)
}

// stop ends the server in an orderly way.
func (r *rig) stop(t *testing.T) {
	t.Helper()
	p := r.server.Load()
	p.stop(t)
	r.keep(p)
}

func (r *rig) keep(p *process) {
	_, _ = r.seen.Write([]byte(p.out.String() + p.errOut.String()))
}

// run runs a command beside the server, with its configuration.
func (r *rig) run(t *testing.T, args ...string) result {
	t.Helper()
	res := command(t, r.home, append(r.env(), "CAPILOOP_CONFIG="+r.config, "CAPILOOP_DATA="+r.data), args...)
	_, _ = r.seen.Write([]byte(res.out + res.errOut))
	return res
}

// end stops what still runs and searches all that was said and stored.
func (r *rig) end(t *testing.T) {
	t.Helper()
	r.graph.ClearFaults()
	if p := r.server.Load(); p != nil && p.running() {
		for _, path := range []string{"/metrics", "/v1/findings", "/v1/destinations", "/v1/ledger", "/"} {
			if status, body, err := r.try(http.MethodGet, path, nil); err != nil || status != http.StatusOK {
				t.Errorf("GET %s: %d %s %v", path, status, body, err)
			}
		}
		p.stop(t)
		r.keep(p)
	} else if p != nil { // it ended by itself, or a test has stopped it
		r.keep(p)
	}
	if t.Failed() {
		said := r.seen.String()
		t.Logf("what was said (the last part):\n%s", said[max(0, len(said)-20000):])
	}
	r.searchSaid(t)
	r.searchStored(t)
}

// eventually waits until something is true, twice as long as it should take: other
// tests want the processor too.
func (r *rig) eventually(t *testing.T, limit time.Duration, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(15 * time.Millisecond) {
		if time.Since(began) > 2*limit {
			book, _ := r.tryBook("")
			t.Fatalf("after %s still not: %s\nbook: %+v", limit, what, book)
		}
	}
}

// onEach runs a test on SQLite, and on PostgreSQL where there is one.
func onEach(t *testing.T, test func(t *testing.T, database string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, "sqlite")
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		if os.Getenv("CAPILOOP_TEST_POSTGRES") == "" {
			t.Skip("CAPILOOP_TEST_POSTGRES is not set; scripts/with-postgres.sh sets it")
		}
		test(t, "postgres")
	})
}
