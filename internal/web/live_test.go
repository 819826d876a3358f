package web_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/admin/admintest"
)

// next reads one server-sent event and returns its data.
func next(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	var data strings.Builder
	for {
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		line = strings.TrimSuffix(line, "\n")
		if line == "" && data.Len() > 0 {
			return data.String()
		}
		if text, ok := strings.CutPrefix(line, "data: "); ok {
			data.WriteString(text + "\n")
		} else {
			require.True(t, line == "" || line[0] == ':' || strings.HasPrefix(line, "retry: "), "a strange line: %q", line)
		}
	}
}

func TestTheBookKeepsItselfFresh(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	h := pages(t, w)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = host
		h.ServeHTTP(w, r)
	}))
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/live", nil)
	require.NoError(t, err)
	res, err := server.Client().Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, "text/event-stream; charset=utf-8", res.Header.Get("Content-Type"))
	lines := bufio.NewReader(res.Body)
	require.Contains(t, next(t, lines), "Nothing has come in yet.")

	w.Record(w.Make(admintest.Shop, admintest.First, "Lead\rdata: hostile\r\revent: x", "l1"))
	fresh := next(t, lines)
	require.Contains(t, fresh, "1 event came in: 1 is on the way.")
	require.NotContains(t, fresh, "\r")
	require.NotContains(t, fresh, "<!doctype")
	require.Contains(t, fresh, `<section id="book" data-part>`)

	h.Close()
	_, err = lines.ReadString('\n')
	require.Error(t, err, "a handler that closes ends its streams")
	h.Close()
}
