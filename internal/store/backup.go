package store

import (
	"context"
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
	if _, err := s.read.ExecContext(ctx, `VACUUM INTO $1`, file); err != nil {
		return errors.Join(fmt.Errorf("copy the database to %s: %w", file, err), os.Remove(file))
	}
	return nil
}
