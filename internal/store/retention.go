package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// PurgePayloads clears what was sent for events of a workspace that were received
// before the given time and are done with. The rows stay, so the book keeps its
// figures; only what left can no longer be shown or sent again. It remembers how far
// it came and what it had to leave because it still waits, and returns how many
// payloads it cleared.
func (s *Store) PurgePayloads(ctx context.Context, ws int64, before time.Time) (int, error) {
	mark := "payloads_purged_to_" + strconv.FormatInt(ws, 10)
	total, err := s.purgeLate(ctx, ws)
	if err != nil {
		return total, err
	}
	for {
		n, cleared := 0, 0
		err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
			var from, to int64
			err := tx.row(ctx, `SELECT CAST(value AS bigint) FROM installation WHERE name = $1`, []any{mark}, &from)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			if err := tx.row(ctx, `SELECT COUNT(*), COALESCE(MAX(id), 0) FROM
					(SELECT id FROM events WHERE id > $1 AND id < $2 ORDER BY id LIMIT $3) AS step`,
				[]any{from, int64(ledger.IDAt(before)), tidyRows}, &n, &to); err != nil || n == 0 {
				return err
			}
			if _, err := tx.exec(ctx, `INSERT INTO unpurged (id, ws) SELECT d.id, e.ws FROM events e JOIN deliveries d ON d.id > e.id AND d.id < e.id + 64
					WHERE e.id > $1 AND e.id <= $2 AND e.ws = $3 AND d.payload IS NOT NULL
						AND NOT EXISTS (SELECT 1 FROM results r WHERE r.id = d.id) ON CONFLICT (id) DO NOTHING`, from, to, ws); err != nil {
				return err
			}
			res, err := tx.exec(ctx, `UPDATE deliveries SET payload = NULL WHERE id > $1 AND id < CAST($2 AS bigint) + 64 AND payload IS NOT NULL
					AND EXISTS (SELECT 1 FROM results r WHERE r.id = deliveries.id)
					AND EXISTS (SELECT 1 FROM events e WHERE e.id = deliveries.id - deliveries.id % 64 AND e.ws = $3)`, from, to, ws)
			if err != nil {
				return err
			}
			if k, err := res.RowsAffected(); err == nil {
				cleared = int(k)
			}
			_, err = tx.exec(ctx, `INSERT INTO installation (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
				mark, strconv.FormatInt(to, 10))
			return err
		})
		if err != nil {
			return total, fmt.Errorf("clear old payloads: %w", err)
		}
		if total += cleared; n < tidyRows {
			return total, nil
		}
	}
}

// purgeLate clears the payloads that were left because they still waited, as far as
// they are done with now.
func (s *Store) purgeLate(ctx context.Context, ws int64) (int, error) {
	cleared := int64(0)
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		const done = `SELECT u.id FROM unpurged u JOIN results r ON r.id = u.id WHERE u.ws = $1`
		res, err := tx.exec(ctx, `UPDATE deliveries SET payload = NULL WHERE id IN (`+done+`)`, ws)
		if err != nil {
			return err
		}
		if cleared, err = res.RowsAffected(); err != nil {
			return err
		}
		_, err = tx.exec(ctx, `DELETE FROM unpurged WHERE id IN (`+done+`)`, ws)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("clear old payloads: %w", err)
	}
	return int(cleared), nil
}
