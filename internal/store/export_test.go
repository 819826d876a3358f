package store

import "context"

// PretendVersion marks the database as made by another version of the program.
func (s *Store) PretendVersion(ctx context.Context, version int64) error {
	return s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		_, err := tx.exec(ctx, `INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, true)`, version)
		return err
	})
}
