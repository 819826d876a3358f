package app_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/app"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
)

const key = "a-key-of-at-least-twenty-characters"

var owner = admin.Actor{Name: "test", Right: admin.Own}

func fileOf(t *testing.T, graph, token string) *config.File {
	t.Helper()
	f, err := config.Parse("capiloop.yaml", fmt.Appendf(nil, `
listen: 127.0.0.1:0
graph: {url: %q}
workspaces:
  - name: shop
    api_keys: [%q]
    datasets: [{id: "1234567890", token: %q}]
`, graph, key, token), func(string) (string, bool) { return "", false })
	require.NoError(t, err)
	return f
}

func start(t *testing.T, f *config.File, dir string) *app.App {
	t.Helper()
	require.NoError(t, f.Apply(config.Overrides{DataDir: dir}))
	a, err := app.New(app.Options{File: f, Version: "test"})
	require.NoError(t, err)
	require.NoError(t, a.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, a.Stop(context.WithoutCancel(t.Context()))) })
	return a
}

func post(t *testing.T, a *app.App, bearer, eventID string) int {
	t.Helper()
	body := fmt.Sprintf(`{"event_name":"Lead","event_id":%q,"action_source":"other","user_data":{"em":"jane@example.com"}}`, eventID)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+a.Addr()+"/v1/events", bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+bearer)
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
	return res.StatusCode
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 20*time.Second, 20*time.Millisecond, what)
}

// A token is replaced in the file of a running server: what was held goes out by
// itself.
func TestANewTokenIsInForceWithoutARestart(t *testing.T) {
	t.Parallel()
	graph := capitest.New(capitest.Options{})
	server := httptest.NewServer(graph)
	t.Cleanup(server.Close)
	a := start(t, fileOf(t, server.URL, "bad-463"), t.TempDir())
	require.Equal(t, http.StatusAccepted, post(t, a, key, "e1"))
	book := func() *admin.Ledger {
		b, err := a.Actions().Ledger(t.Context(), owner, "shop", admin.LedgerQuery{})
		require.NoError(t, err)
		require.Zero(t, b.Unexplained)
		return b
	}
	eventually(t, "held", func() bool { return book().Held == 1 })
	require.NoError(t, a.Reload(t.Context(), fileOf(t, server.URL, "EAAgood")))
	eventually(t, "sent", func() bool { return book().Sent == 1 })
	require.Equal(t, 1, graph.Times("1234567890", "Lead", "e1"))
}

func TestAMadeKeyOpensAtOnceAndAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	graph := httptest.NewServer(capitest.New(capitest.Options{}))
	t.Cleanup(graph.Close)
	f := fileOf(t, graph.URL, "EAAgood")
	require.NoError(t, f.Apply(config.Overrides{DataDir: dir}))
	a, err := app.New(app.Options{File: f})
	require.NoError(t, err)
	require.NoError(t, a.Start(t.Context()))
	made, err := a.Actions().CreateAPIKey(t.Context(), owner, "shop", "website")
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, post(t, a, made.Key, "e1"))
	require.Equal(t, http.StatusUnauthorized, post(t, a, made.Key+"x", "e2"))
	require.NoError(t, a.Stop(t.Context()))
	require.Equal(t, http.StatusAccepted, post(t, start(t, fileOf(t, graph.URL, "EAAgood"), dir), made.Key, "e3"))
}

func TestARemovedDatasetHoldsWhatWaits(t *testing.T) {
	t.Parallel()
	graph := httptest.NewServer(capitest.New(capitest.Options{}))
	t.Cleanup(graph.Close)
	a := start(t, fileOf(t, graph.URL, "bad-463"), t.TempDir())
	require.Equal(t, http.StatusAccepted, post(t, a, key, "e1"))
	without := fileOf(t, graph.URL, "EAAgood")
	without.Workspaces[0].Datasets = nil
	require.NoError(t, a.Reload(t.Context(), without))
	list, err := a.Actions().Destinations(t.Context(), owner, "shop")
	require.NoError(t, err)
	require.Equal(t, ledger.DestinationGone, list[0].Reason)
	n, err := a.Actions().SkipRemoved(t.Context(), owner, "shop", "1234567890")
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

func TestATestClockNeverSendsToTheRealGraph(t *testing.T) {
	t.Parallel()
	f := fileOf(t, "https://graph.facebook.com", "EAAreal")
	_, err := app.New(app.Options{File: f, Clock: ledger.TestClock(0, 10)})
	require.ErrorContains(t, err, "--test-clock")
}

func TestASecondServerOnTheFolderIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, fileOf(t, "http://127.0.0.1:1", "EAAgood"), dir)
	f := fileOf(t, "http://127.0.0.1:1", "EAAgood")
	require.NoError(t, f.Apply(config.Overrides{DataDir: filepath.Clean(dir)}))
	b, err := app.New(app.Options{File: f})
	require.NoError(t, err)
	require.ErrorContains(t, b.Start(t.Context()), "another capiloop process")
}

func TestHealthIsAnswered(t *testing.T) {
	t.Parallel()
	a := start(t, fileOf(t, "http://127.0.0.1:1", "EAAgood"), t.TempDir())
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/": 200, "/v1/nonsense": 404, "/nonsense": 404} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.Addr()+path, nil)
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, want, res.StatusCode, path)
	}
}

// POST /v1/stages is for machines that tell of stages; GET is for who asks for them.
func TestWhoAsksForStagesIsAnswered(t *testing.T) {
	t.Parallel()
	a := start(t, fileOf(t, "http://127.0.0.1:1", "EAAgood"), t.TempDir())
	for method, want := range map[string]int{http.MethodGet: 200, http.MethodHead: 200, http.MethodDelete: 405, http.MethodPost: 415} {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+a.Addr()+"/v1/stages", http.NoBody)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Content-Type", "text/html")
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, want, res.StatusCode, method)
	}
}
