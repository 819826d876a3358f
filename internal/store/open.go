package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // registers the driver "sqlite"
)

// ErrInUse says that another process has the SQLite file.
var ErrInUse = errors.New("another capiloop process is using this database")

// openSQLite opens the file for one writer and many readers, after locking it
// against other processes.
func (s *Store) openSQLite(ctx context.Context, path string) error {
	s.dialect, s.alone, s.path = &sqliteDialect, true, path
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	got, err := lock.TryLock()
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	if !got {
		return fmt.Errorf("%w: %s. Stop it first, or give this one its own --data folder", ErrInUse, path)
	}
	s.lock = lock
	// page_size must come before the file is made into WAL mode, or it is ignored. The
	// driver sorts the pragmas by name; _journal_mode comes after them all.
	if s.write, err = sql.Open("sqlite", sqliteDSN(path, "page_size(8192)", "synchronous(FULL)",
		"wal_autocheckpoint(4000)", "busy_timeout(10000)", "cache_size(-16000)", "foreign_keys(0)", "secure_delete(FAST)")+"&_journal_mode=WAL"); err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	s.write.SetMaxOpenConns(1)
	if err := s.write.PingContext(ctx); err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return fmt.Errorf("keep %s private: %w", path, err)
	}
	if s.read, err = sql.Open("sqlite", sqliteDSN(path, "query_only(1)", "busy_timeout(10000)", "cache_size(-8000)")); err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	s.read.SetMaxOpenConns(4)
	s.read.SetMaxIdleConns(4)
	return nil
}

func sqliteDSN(path string, pragmas ...string) string {
	q := url.Values{"_pragma": pragmas}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

// openPostgres opens a pool for reading and one connection for the writer.
func (s *Store) openPostgres(ctx context.Context, address string) error {
	s.dialect = &postgresDialect
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return errors.New("the database URL cannot be read: want postgres://user:password@host:5432/name")
	}
	// A commit must be on disk before it is answered, whatever the server's default.
	config.RuntimeParams["synchronous_commit"] = "on"
	config.RuntimeParams["application_name"] = "capiloop"
	s.write, s.read = stdlib.OpenDB(*config), stdlib.OpenDB(*config)
	s.write.SetMaxOpenConns(2) // the writer's, and one while it connects again
	s.read.SetMaxOpenConns(8)
	s.read.SetMaxIdleConns(4)
	if err := s.write.PingContext(ctx); err != nil {
		return fmt.Errorf("connect to PostgreSQL at %s:%d, database %s: %w", config.Host, config.Port, config.Database, err)
	}
	return nil
}
