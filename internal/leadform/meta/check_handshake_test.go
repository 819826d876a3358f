package meta_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/leadform/meta"
)

// callback serves a source's address and returns it.
func callback(t *testing.T, answer func(r leadform.Request) leadform.Answer) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := answer(leadform.Request{Method: r.Method, Query: r.URL.Query(), Header: r.Header})
		if a.Location != "" {
			w.Header().Set("Location", a.Location)
		}
		w.WriteHeader(a.Status)
		_, _ = w.Write(a.Body)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/webhooks/secretOfTheAddress"
}

func TestTheHandshakeIsTriedAsMetaTriesIt(t *testing.T) {
	t.Parallel()
	k := meta.New(meta.Config{})
	g := newGraph(t)
	ours := func(r leadform.Request) leadform.Answer { return k.Receive(r, g.source(nil), time.Now()).Answer }
	fixed := func(a leadform.Answer) func(leadform.Request) leadform.Answer {
		return func(leadform.Request) leadform.Answer { return a }
	}
	for name, c := range map[string]struct {
		address     string
		ok, warning bool
		says        string
	}{
		"as it should be":    {callback(t, ours), true, false, "answers Meta's handshake"},
		"not known":          {"", false, true, "not known at which address"},
		"nobody":             {"http://127.0.0.1:1/webhooks/secretOfTheAddress", false, false, "Nobody answers at http://127.0.0.1:1:"},
		"no address at all":  {"http://a b/webhooks/secretOfTheAddress", false, false, "it is no address"},
		"a login page":       {callback(t, fixed(leadform.Answer{Status: 200, Body: []byte("<html>")})), false, false, "Something else"},
		"a closed door":      {callback(t, fixed(leadform.Answer{Status: 403})), false, false, "status 403"},
		"a way to elsewhere": {callback(t, fixed(leadform.Answer{Status: 302, Location: "/"})), false, false, "status 302"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := g.source(nil)
			source.Address = c.address
			list := k.Check(t.Context(), source)
			line := list[len(list)-1]
			require.Equal(t, "handshake", line.Name)
			require.Equal(t, c.ok, line.OK, line)
			require.Equal(t, c.warning, line.Warning, line)
			require.Contains(t, line.Sentence, c.says)
			require.NotContains(t, line.Sentence+line.NextStep, verify)
			require.NotContains(t, line.Sentence+line.NextStep, "secretOfTheAddress")
			if !c.ok {
				require.NotEmpty(t, line.NextStep)
			}
		})
	}
}
