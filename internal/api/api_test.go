package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/admin/admintest"
	"github.com/capiloop/capiloop/internal/api"
	"github.com/capiloop/capiloop/internal/ledger"
)

var update = flag.Bool("update", false, "write the golden files anew")

func handler(w *admintest.World) http.Handler {
	mux := http.NewServeMux()
	api.Register(mux, api.Config{Actions: w, Authenticate: func(key string) (string, bool) {
		ws, _, ok := w.Settings.Get().Authenticate(key)
		if !ok {
			return "", false
		}
		return ws.Name, true
	}})
	mux.HandleFunc("POST /v1/events", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	return mux
}

func get(t *testing.T, h http.Handler, path, authorization string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, "application/json; charset=utf-8", w.Header().Get("Content-Type"))
	require.True(t, json.Valid(w.Body.Bytes()))
	return w
}

const shopKey = "Bearer key-of-shop"

// fractions of a second are the test machine's: its clock is set with an error.
var fractions = regexp.MustCompile(`\.\d+Z"`)

func TestTheContract(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	all := w.Fill()
	golden(t, handler(w), map[string]string{
		"event_sent":    "/v1/events/" + all["sent"].ID.String(),
		"event_failed":  "/v1/events/" + all["failed"].ID.String(),
		"event_held":    "/v1/events/" + all["held"].ID.String(),
		"event_skipped": "/v1/events/" + all["skipped"].ID.String(),
		"event_clock":   "/v1/events/" + all["clock"].ID.String(),
		"ledger":        "/v1/ledger",
		"ledger_part":   "/v1/ledger?from=2026-11-30T14:00:00Z&to=2026-12-01&source=web&destination=1001&event=Lead",
		"findings":      "/v1/findings",
		"destinations":  "/v1/destinations",
	})
}

func TestTheContractOfLeads(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	w.Connect(ledger.Rule{Stage: ledger.StageReceived, Event: "Lead"}, ledger.Rule{Stage: "Qualified", Event: "QualifiedLead"})
	w.Take(1, time.Hour, nil)
	w.Move(ledger.StageChange{LeadID: admintest.LeadID(1), Pipeline: "1", Stage: "7", StageLabel: "Qualified", At: admintest.Now.Add(-time.Minute)})
	w.Move(ledger.StageChange{LeadID: admintest.LeadID(1), Pipeline: "1", Stage: "8", At: admintest.Now.Add(-time.Minute)})
	golden(t, handler(w), map[string]string{
		"stages": "/v1/stages",
		"funnel": "/v1/funnel?from=2026-11-01&to=2026-12-01&by=source",
	})
	w.Record(w.Make(admintest.Shop, admintest.First, "Purchase", "held-1", admintest.In(ledger.Held, ledger.BulkChange), func(e *ledger.Event) {
		e.Deliveries[0].Deadline = admintest.Now.Add(2 * time.Hour)
	}))
	golden(t, handler(w), map[string]string{
		"deadlines": "/v1/deadlines?within=3h",
	})
}

func TestTheContractOfDedup(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	for n, id := range []string{"1764511100000", "1764511100001", "lead-1"} {
		g := ledger.Sighting{
			UID: [16]byte{byte(n)}, ID: w.IDs.Next(), Workspace: w.Workspaces[admintest.Shop], Source: "site", Dataset: admintest.First, Name: "Lead", EventID: id,
			At: admintest.Now.Add(-time.Duration(n+1) * time.Hour), Page: "/contact",
		}
		_, err := w.Store.AddSightings(t.Context(), []ledger.Sighting{g})
		require.NoError(t, err)
		if n > 0 {
			w.Record(w.Make(admintest.Shop, admintest.First, "Lead", []string{"", "4711", "lead-1"}[n], func(e *ledger.Event) { e.Time = g.At.Add(time.Second) }))
		}
	}
	golden(t, handler(w), map[string]string{"dedup": "/v1/dedup?days=3&dataset=1001&event=Lead"})
}

// golden compares answers with those on file.
func golden(t *testing.T, h http.Handler, paths map[string]string) {
	t.Helper()
	for name, path := range paths {
		res := get(t, h, path, shopKey)
		require.Equal(t, http.StatusOK, res.Code, "%s: %s", path, res.Body)
		var b bytes.Buffer
		require.NoError(t, json.Indent(&b, fractions.ReplaceAll(res.Body.Bytes(), []byte(`Z"`)), "", "  "))
		file := filepath.Join("testdata", name+".json")
		if *update {
			require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), b.String(), name)
	}
}

func TestThePayloadIsByteForByte(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	all := w.Fill()
	res := get(t, handler(w), "/v1/events/"+all["sent"].ID.String(), shopKey)
	require.Contains(t, res.Body.String(), `"payload":`+string(all["sent"].Deliveries[0].Payload)+`}`)
}

func TestWhoMayNot(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	all := w.Fill()
	h := handler(w)
	for name, c := range map[string]struct {
		path, key string
		status    int
		code      admin.Code
	}{
		"no key":            {"/v1/findings", "", 401, admin.NoKey},
		"wrong key":         {"/v1/findings", "Bearer key-of-nobody", 401, admin.NoKey},
		"other scheme":      {"/v1/findings", "Basic a2V5LW9mLXNob3A=", 401, admin.NoKey},
		"only the scheme":   {"/v1/findings", "Bearer ", 401, admin.NoKey},
		"neighbour's event": {"/v1/events/" + all["neighbour"].ID.String(), shopKey, 404, admin.NotFound},
		"no event":          {"/v1/events/0000000000000", shopKey, 404, admin.NotFound},
		"no id":             {"/v1/events/lead-1", shopKey, 404, admin.NotFound},
		"neighbour's place": {"/v1/ledger?destination=2001", shopKey, 404, admin.NotFound},
		"bad from":          {"/v1/ledger?from=yesterday", shopKey, 400, admin.Invalid},
		"bad to":            {"/v1/ledger?to=2026-13-01", shopKey, 400, admin.Invalid},
		"plus in zone":      {"/v1/ledger?from=2026-11-30T14:00:00+05:00", shopKey, 400, admin.Invalid},
		"wrong way round":   {"/v1/ledger?from=2026-12-01&to=2026-11-01", shopKey, 400, admin.Invalid},
		"misspelt":          {"/v1/ledger?form=2026-12-01", shopKey, 400, admin.Invalid},
		"twice":             {"/v1/ledger?from=2026-12-01&from=2026-11-01", shopKey, 400, admin.Invalid},
		"bad cut":           {"/v1/funnel?by=phone", shopKey, 400, admin.Invalid},
		"bad span":          {"/v1/deadlines?within=soon", shopKey, 400, admin.Invalid},
		"takes none":        {"/v1/findings?from=2026-12-01", shopKey, 400, admin.Invalid},
		"not a query":       {"/v1/ledger?%zz", shopKey, 400, admin.Invalid},
	} {
		res := get(t, h, c.path, c.key)
		require.Equal(t, c.status, res.Code, name)
		var body struct{ Error admin.Error }
		require.NoError(t, json.Unmarshal(res.Body.Bytes(), &body))
		require.Equal(t, c.code, body.Error.Code, name)
		require.NotEmpty(t, body.Error.Fix, name)
		if c.status == http.StatusUnauthorized {
			require.Contains(t, res.Header().Get("WWW-Authenticate"), "Bearer")
		}
	}
}

func TestTheMuxIsShared(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	handler(admintest.New(t)).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/events", nil))
	require.Equal(t, http.StatusAccepted, w.Code)
}

type broken struct{ admin.Actions }

func (broken) Findings(context.Context, admin.Actor, string) ([]admin.Finding, error) {
	return nil, errors.New("disk I/O error at /data/secret")
}

func TestAFaultTellsNothingOfItself(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	api.Register(mux, api.Config{Actions: broken{}, Authenticate: func(string) (string, bool) { return "shop", true }})
	res := get(t, mux, "/v1/findings", shopKey)
	require.Equal(t, http.StatusServiceUnavailable, res.Code)
	require.Equal(t, "1", res.Header().Get("Retry-After"))
	require.NotContains(t, res.Body.String(), "disk")
}
