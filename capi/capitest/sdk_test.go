package capitest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

// captured is a request of one of Meta's official SDKs, as it went over the wire.
type captured struct {
	Name        string            `json:"name"`
	Path        string            `json:"path"`
	Query       map[string]string `json:"query"`
	ContentType string            `json:"content_type"`
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

func TestRequestsOfMetasSDKsAreAccepted(t *testing.T) {
	t.Parallel()
	for _, c := range readCaptured(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			g := capitest.New(capitest.Options{Now: func() time.Time { return time.Unix(1759270100, 0) }})
			g.AddLead(capitest.Lead{ID: "1234567890123456", Created: time.Unix(1759260000, 0)})
			q := url.Values{}
			for k, v := range c.Query {
				q.Set(k, v)
			}
			r := httptest.NewRequest(http.MethodPost, c.Path+"?"+q.Encode(), strings.NewReader(c.Body))
			r.Header.Set("Content-Type", c.ContentType)
			w := httptest.NewRecorder()
			g.ServeHTTP(w, r)
			require.Equal(t, http.StatusOK, w.Code, w.Body.String())

			var answer map[string]any
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
			require.Positive(t, answer["events_received"])
			require.Equal(t, []any{}, answer["messages"])
			require.NotEmpty(t, answer["fbtrace_id"])
			require.Len(t, g.Received(), int(answer["events_received"].(float64)))
			require.Equal(t, "1234567890", g.Received()[0].Dataset)
			require.NotEmpty(t, g.Received()[0].Keys)
		})
	}
}
