package capiloop_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/app"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/secret"
)

// TestCurlExamplesAreAccepted sends the README's requests, as curl would send them,
// to a server like the demo's.
func TestCurlExamplesAreAccepted(t *testing.T) {
	t.Parallel()
	address := demoServer(t)
	id := "missing"
	sent := 0
	for _, page := range []string{"README.md", "docs/operations.md"} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		list, _ := blocks(string(text))
		for _, b := range list {
			if b.language != "sh" || !strings.HasPrefix(b.text, "curl ") {
				continue
			}
			r := curl(t, strings.ReplaceAll(b.text, "$ID", id), address)
			answer, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			body, err := io.ReadAll(answer.Body)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Less(t, answer.StatusCode, 300, "%s: %s\n%s", page, b.text, body)
			sent++
			var taken struct{ Events []struct{ ID string } }
			if json.Unmarshal(body, &taken) == nil && len(taken.Events) > 0 {
				id = taken.Events[0].ID
			}
		}
	}
	require.GreaterOrEqual(t, sent, 2)
}

func demoServer(t *testing.T) string {
	t.Helper()
	file := config.Default()
	require.NoError(t, file.Apply(config.Overrides{Listen: "127.0.0.1:0", DataDir: t.TempDir()}))
	file.Workspaces[0].APIKeys = []secret.Secret{secret.New("demo-key-of-avto-start")}
	a, err := app.New(app.Options{File: file, Version: "docs"})
	require.NoError(t, err)
	require.NoError(t, a.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, a.Stop(t.Context())) })
	return a.Addr()
}

// curl reads a command line as curl does, as far as the pages need it: -d makes it a
// POST of a form unless a header says otherwise.
func curl(t *testing.T, line, address string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address, nil)
	require.NoError(t, err)
	words := shellWords(strings.ReplaceAll(line, "\\\n", " "))
	for i := 1; i < len(words); i++ {
		switch w := words[i]; w {
		case "-H":
			i++
			name, value, ok := strings.Cut(words[i], ": ")
			require.True(t, ok, words[i])
			r.Header.Set(name, value)
		case "-d":
			i++
			r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(strings.NewReader(words[i])), int64(len(words[i]))
			if r.Header.Get("Content-Type") == "" {
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			}
		case "-s", "-i":
		default:
			r.URL, err = r.URL.Parse(strings.Replace(w, "http://127.0.0.1:8080", "http://"+address, 1))
			require.NoError(t, err)
			require.Equal(t, address, r.URL.Host, "the page's address is not the demo's: %s", w)
		}
	}
	return r
}

var wordPattern = regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`)

func shellWords(line string) []string {
	var words []string
	for _, m := range wordPattern.FindAllStringSubmatch(line, -1) {
		words = append(words, m[1]+m[2]+m[3])
	}
	return words
}
