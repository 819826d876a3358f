package intake_test

import (
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/stretchr/testify/require"
)

// newPostgres makes a database that is dropped with the test.
func newPostgres(t *testing.T, server string) string {
	t.Helper()
	var random [6]byte
	_, err := rand.Read(random[:])
	require.NoError(t, err)
	name := "test_" + hex.EncodeToString(random[:])
	admin, err := sql.Open("pgx", server)
	require.NoError(t, err)
	_, err = admin.Exec("CREATE DATABASE " + name)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := admin.Exec("DROP DATABASE " + name + " WITH (FORCE)")
		require.NoError(t, err)
		require.NoError(t, admin.Close())
	})
	u, err := url.Parse(server)
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}

// What one database takes and the other does not must be refused or taken, never
// answered with a fault of ours: a caller would send it again for ever.
func TestNoTextMakesTheDatabaseStumble(t *testing.T) {
	t.Parallel()
	databases := map[string]string{"sqlite": filepath.Join(t.TempDir(), "door.db")}
	if server := os.Getenv("CAPILOOP_TEST_POSTGRES"); server != "" {
		databases["postgres"] = newPostgres(t, server)
	}
	texts := map[string]string{
		"nul": `a\u0000b`, "half a pair": `a\ud800b`, "long": strings.Repeat("x", 5000), "long and wide": "a" + strings.Repeat("ü", 3000),
		"100 bytes end inside a letter": strings.Repeat("x", 99) + "üüüüüüü", "controls": `\u0001\u001f\u007f\u0085`, "beyond the plane": "😀",
	}
	for kind, database := range databases {
		t.Run(kind, func(t *testing.T) {
			d := openOn(t, database)
			for name, text := range texts {
				for _, field := range []string{"event_name", "event_id", "action_source", "event_source_url", "test_event_code", "dataset", "x"} {
					for _, whole := range []string{"jane@example.com", ""} { // a good event, and one that is refused
						body := `{"event_name":"Lead","event_id":"1","action_source":"website","test_event_code":"T","x":"","dataset":"` + datasetOne +
							`","event_source_url":"https://www.example.com/","user_data":{"em":"` + whole + `"}}`
						before := map[string]string{"event_name": "Lead", "event_id": "1", "action_source": "website", "event_source_url": "https://www.example.com/", "test_event_code": "T", "dataset": datasetOne, "x": ""}[field]
						body = strings.Replace(body, `"`+field+`":"`+before+`"`, `"`+field+`":"`+text+`"`, 1)
						require.Contains(t, body, text)
						a := d.post(t, body)
						require.Less(t, a.Code, 500, "%s in %s: %s", name, field, a.Body.String())
						d.graph(t, `{"data":[`+body+`]}`)
						require.NotContains(t, d.log.String(), "could not be written", "%s in %s", name, field)
					}
				}
			}
			a := d.do(t, http.MethodPost, "/v26.0/"+datasetOne+"/events?test_event_code=%00%ff&access_token="+keyOne, strings.NewReader(`{"data":[`+lead("q")+`]}`))
			require.Equal(t, http.StatusBadRequest, a.Code)
			d.book(t)
		})
	}
}
