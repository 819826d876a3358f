package record_test

import (
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
)

// onBoth runs a test on SQLite and, where CAPILOOP_TEST_POSTGRES names a server, on
// PostgreSQL as well. database makes a new one at each call.
func onBoth(t *testing.T, test func(t *testing.T, database func() string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, func() string { return filepath.Join(t.TempDir(), "capiloop.db") })
	})
	onPostgres(t, test)
}

// onPostgres runs a test of what only several nodes can bring about.
func onPostgres(t *testing.T, test func(t *testing.T, database func() string)) {
	t.Helper()
	if server := os.Getenv("CAPILOOP_TEST_POSTGRES"); server != "" {
		t.Run("postgres", func(t *testing.T) {
			t.Parallel()
			test(t, func() string { return newPostgres(t, server) })
		})
	}
}

// newPostgres makes a database that is dropped with the test.
func newPostgres(t *testing.T, server string) string {
	t.Helper()
	var random [6]byte
	_, err := rand.Read(random[:])
	require.NoError(t, err)
	name := "record_" + hex.EncodeToString(random[:])
	admin, err := sql.Open("pgx", server)
	require.NoError(t, err)
	_, err = admin.ExecContext(t.Context(), "CREATE DATABASE "+name)
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
