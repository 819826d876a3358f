package e2e_test

import (
	"bytes"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // to make databases and to look into them
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // to look into the database from outside
)

// Every person of these tests has an address of this domain and this number, so that
// one search finds any raw value wherever it turns up.
const (
	rawDomain = "@people.example.com"
	rawPhone  = "77015550142"
)

// unwanted is what must be found nowhere.
func (r *rig) unwanted() []string {
	return append([]string{metaToken, appSecret, apiKey, rawDomain, rawPhone}, r.private...)
}

// searchSaid looks through logs, outputs and answers.
func (r *rig) searchSaid(t *testing.T) {
	t.Helper()
	said := r.seen.String()
	if strings.Contains(said, "panic") || strings.Contains(said, "goroutine ") {
		t.Errorf("the server panicked:\n%s", said[max(0, len(said)-20000):])
	}
	for _, s := range r.unwanted() {
		if i := strings.Index(said, s); i >= 0 {
			t.Errorf("%q was said: …%s…", s, said[max(0, i-200):min(len(said), i+200)])
		}
	}
}

// searchStored looks through the bytes on disk, those of free pages and of the
// write-ahead log included, and through every row of PostgreSQL.
func (r *rig) searchStored(t *testing.T) {
	t.Helper()
	var unwanted [][]byte
	for _, s := range r.unwanted() {
		unwanted = append(unwanted, []byte(s), []byte(hex.EncodeToString([]byte(s))))
	}
	check := func(place string, b []byte) {
		for _, s := range unwanted {
			if i := bytes.Index(b, s); i >= 0 {
				t.Errorf("%s holds %q: …%q…", place, s, b[max(0, i-100):min(len(b), i+100)])
			}
		}
	}
	err := filepath.WalkDir(r.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		check(path, b)
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Errorf("search the data folder: %v", err)
	}
	if r.postgres == "" {
		return
	}
	db := r.look(t)
	for _, table := range texts(t, db, `SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'`) {
		for _, row := range texts(t, db, `SELECT x::text FROM `+table+` x`) {
			check(table, []byte(row))
		}
	}
}

func texts(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	rows, err := db.Query(query)
	require.NoError(t, err)
	defer rows.Close()
	var list []string
	for rows.Next() {
		var s string
		require.NoError(t, rows.Scan(&s))
		list = append(list, s)
	}
	require.NoError(t, rows.Err())
	return list
}

// look opens the database beside the product, for reading.
func (r *rig) look(t *testing.T) *sql.DB {
	t.Helper()
	driver, source := "pgx", r.postgres
	if r.postgres == "" {
		driver, source = "sqlite", "file:"+filepath.Join(r.data, "capiloop.db")+"?mode=ro"
	}
	db, err := sql.Open(driver, source)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// recount counts the rows themselves, while the server is stopped.
func (r *rig) recount(t *testing.T) map[string]int64 {
	t.Helper()
	db := r.look(t)
	n := make(map[string]int64)
	rows, err := db.Query(`SELECT state, COUNT(*) FROM results GROUP BY state
		UNION ALL SELECT 'pending', COUNT(*) FROM pending UNION ALL SELECT 'deliveries', COUNT(*) FROM deliveries
		UNION ALL SELECT 'unsettled', COUNT(*) FROM batches WHERE settled_at = 0`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var state string
		var count int64
		require.NoError(t, rows.Scan(&state, &count))
		n[state] = count
	}
	require.NoError(t, rows.Err())
	return n
}

// newDatabase makes a PostgreSQL database for one test.
func newDatabase(t *testing.T) string {
	t.Helper()
	server := os.Getenv("CAPILOOP_TEST_POSTGRES")
	var random [6]byte
	_, _ = rand.Read(random[:])
	name := "e2e_" + hex.EncodeToString(random[:])
	db, err := sql.Open("pgx", server)
	require.NoError(t, err)
	_, err = db.Exec("CREATE DATABASE " + name)
	require.NoError(t, err)
	t.Cleanup(func() {
		if _, err := db.Exec(fmt.Sprintf("DROP DATABASE %s WITH (FORCE)", name)); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
		_ = db.Close()
	})
	u, err := url.Parse(server)
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}
