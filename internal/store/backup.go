package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
)

// ErrNotSQLite says that the database has its own tools for this.
var ErrNotSQLite = errors.New("this database is PostgreSQL: back it up with pg_dump")

// Backup writes a consistent copy of the running database into a new file, which
// must not exist. Writing goes on meanwhile.
func (s *Store) Backup(ctx context.Context, file string) error {
	if !s.alone {
		return ErrNotSQLite
	}
	// The file is made first, readable by us alone; SQLite takes an empty one.
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make the backup file: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("make the backup file: %w", err)
	}
	// The readers' connections refuse every write, also that into another file.
	db, err := sql.Open("sqlite", sqliteDSN(s.path, "busy_timeout(10000)"))
	if err != nil {
		return errors.Join(fmt.Errorf("open %s: %w", s.path, err), os.Remove(file))
	}
	if _, err := db.ExecContext(ctx, `VACUUM INTO $1`, file); err != nil {
		return errors.Join(fmt.Errorf("copy the database to %s: %w", file, err), db.Close(), os.Remove(file))
	}
	return db.Close()
}
