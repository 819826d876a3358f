package store_test

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/store"
)

func TestASecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "capiloop.db")
	open(t, path)
	_, err := store.Open(t.Context(), store.Config{Database: path})
	require.ErrorIs(t, err, store.ErrInUse)
	require.ErrorContains(t, err, "Stop it first")
}

func TestBackupOfARunningDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := newBench(t, filepath.Join(dir, "capiloop.db"))
	b.record(t, b.event("Lead", "l1"), b.event("Lead", "l2"))
	copied := filepath.Join(dir, "backup.db")
	require.NoError(t, b.Backup(t.Context(), copied))
	require.Error(t, b.Backup(t.Context(), copied), "an existing file is never overwritten")
	info, err := os.Stat(copied)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	b.record(t, b.event("Lead", "l3"))

	restored := open(t, copied)
	book, err := restored.Book(t.Context(), store.BookQuery{Workspace: b.ws})
	require.NoError(t, err)
	require.EqualValues(t, 2, book.Received)
	require.Zero(t, book.Unexplained())
}

func TestANewerDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "capiloop.db")
	s, err := store.Open(t.Context(), store.Config{Database: path})
	require.NoError(t, err)
	require.NoError(t, s.PretendVersion(t.Context(), 999))
	require.NoError(t, s.Close())
	_, err = store.Open(t.Context(), store.Config{Database: path})
	require.ErrorContains(t, err, "use the newer program")
}

// The SQLite driver works only with the libc it was made with; see its
// documentation, "Fragile modernc.org/libc dependency".
func TestTheDriverHasItsOwnLibc(t *testing.T) {
	t.Parallel()
	info, ok := debug.ReadBuildInfo()
	require.True(t, ok)
	versions := make(map[string]string)
	for _, m := range info.Deps {
		versions[m.Path] = m.Version
	}
	require.Equal(t, "v1.62.0", versions["modernc.org/sqlite"])
	require.Equal(t, "v1.80.1", versions["modernc.org/libc"], "raise it only together with modernc.org/sqlite, to the version its go.mod names")
}

// The page size is set before WAL mode is, and a store that is closed leaves one
// file: whoever copies it then has everything.
func TestSQLiteFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	s, err := store.Open(t.Context(), store.Config{Database: path})
	require.NoError(t, err)
	require.NoError(t, s.Ping(t.Context()))
	require.NoError(t, s.Close())
	require.NoFileExists(t, path+"-wal")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, []byte{0x20, 0}, raw[16:18], "8192")
}
