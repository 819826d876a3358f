package meta_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/leadform/meta"
	"github.com/capiloop/capiloop/internal/secret"
)

const (
	page      = "100000000000001"
	formA     = "200000000000002"
	token     = "page-token-0001-synthetic"
	appSecret = "meta-app-secret-0001"
	verify    = "verify-token-0001"
)

// graph is the stand-in for Graph behind a listener, with answers of the samples put
// in front of it by path, behind the version.
type graph struct {
	*capitest.Graph
	url       string
	formReads atomic.Int32
	samples   map[string]string // path -> file of testdata, or JSON
}

func newGraph(t *testing.T) *graph {
	t.Helper()
	g := &graph{Graph: capitest.New(capitest.Options{AppSecret: appSecret}), samples: map[string]string{}}
	g.url = server(t, g)
	return g
}

func server(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func (g *graph) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if strings.HasSuffix(path, "/leadgen_forms") {
		g.formReads.Add(1)
	}
	sample, ok := g.samples[path]
	if !ok {
		g.Graph.ServeHTTP(w, r)
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+token || r.URL.Query().Get("appsecret_proof") == "" {
		http.Error(w, `{"error":{"code":190,"type":"OAuthException","message":"synthetic"}}`, http.StatusUnauthorized)
		return
	}
	if strings.HasSuffix(sample, ".json") {
		b, err := os.ReadFile("testdata/" + sample)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		sample = string(b)
	}
	if strings.HasSuffix(path, "/leadgen_forms") {
		sample = `{"data":[` + sample + `]}`
	}
	if strings.HasPrefix(sample, `{"error"`) {
		w.WriteHeader(http.StatusBadRequest)
	}
	_, _ = io.WriteString(w, sample)
}

// source is the Page's, with the settings changed as said; "" takes one away.
func (g *graph) source(change map[string]string) leadform.Source {
	texts := map[string]string{"page_id": page, "page_token": token, "app_secret": appSecret, "verify_token": verify}
	if g != nil {
		texts["url"] = g.url
	}
	maps.Copy(texts, change)
	return leadform.Source{
		ID: 1, Workspace: 7, Kind: meta.Name, Name: "leads", Country: "US",
		CreatedAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Options: secret.NewOptions(texts, nil, nil),
	}
}

// deliver sends a webhook as Meta does: it repeats whatever is not answered with 200,
// and now and then what was.
func deliver(t *testing.T, k *meta.Kind, s leadform.Source, body []byte) []leadform.Notice {
	t.Helper()
	var list []leadform.Notice
	for range 2 {
		got := k.Receive(post(body, capitest.Sign(appSecret, body)), s, time.Now())
		require.Equal(t, http.StatusOK, got.Answer.Status)
		require.Empty(t, got.Leads)
		if list != nil {
			require.Equal(t, list, got.Notices, "a repeat says the same")
		}
		list = got.Notices
	}
	return list
}

func post(body []byte, signature string) leadform.Request {
	h := http.Header{}
	if signature != "" {
		h.Set("X-Hub-Signature-256", signature)
	}
	return leadform.Request{Method: http.MethodPost, Header: h, Body: body}
}

func get(query string) leadform.Request {
	q, _ := url.ParseQuery(query)
	return leadform.Request{Method: http.MethodGet, Query: q, Header: http.Header{}}
}

// sample reads a file of testdata without its indentation, as it goes over the wire.
func sample(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, json.Compact(&b, raw))
	return b.Bytes()
}
