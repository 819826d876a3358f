package store

import "context"

// MaxContents is maxContents.
const MaxContents = maxContents

// Usual returns how many contents of a workspace are known.
func (s *Store) Usual(ctx context.Context, ws int64) (n int64, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT COUNT(*) FROM usual WHERE ws = $1`, ws).Scan(&n)
	return n, err
}

// PretendVersion marks the database as made by another version of the program.
func (s *Store) PretendVersion(ctx context.Context, version int64) error {
	return s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		_, err := tx.exec(ctx, `INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, true)`, version)
		return err
	})
}
