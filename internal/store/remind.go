package store

import (
	"context"
	"fmt"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// Unmarked is a lead of which nobody has said yet what became of it.
type Unmarked struct {
	Lead       ledger.ID
	Form       string
	ReceivedAt time.Time
}

// Unmarked lists the leads that a CRM got between two times and that have not moved
// since, oldest first, and how many there are in all.
func (s *Store) Unmarked(ctx context.Context, ws, destination int64, from, to time.Time, limit int) (list []Unmarked, total int, err error) {
	const which = ` FROM leads l JOIN deliveries d ON d.id > l.id AND d.id < l.id + 64 AND d.destination = $2 JOIN results r ON r.id = d.id AND r.state = 'sent'
		WHERE l.ws = $1 AND l.id >= $3 AND l.id < $4 AND l.test = 0 AND l.history = 0 AND l.merged_into = 0 AND l.cleared_at = 0
			AND NOT EXISTS (SELECT 1 FROM stage_changes c WHERE c.lead = l.id AND c.effect <> 'undone')`
	args := []any{ws, destination, int64(ledger.IDAt(from)), int64(ledger.IDAt(to))}
	if err := s.read.QueryRowContext(ctx, `SELECT COUNT(*)`+which, args...).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count unmarked leads: %w", err)
	}
	rows, err := s.read.QueryContext(ctx, `SELECT l.id, COALESCE(NULLIF(l.form_name, ''), NULLIF(l.form_id, ''), l.source)`+which+` ORDER BY l.id LIMIT $5`, append(args, limit)...)
	list, err = collect(rows, err, func(row scanner) (u Unmarked, err error) {
		err = row.Scan(&u.Lead, &u.Form)
		u.ReceivedAt = u.Lead.Time()
		return u, err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("list unmarked leads: %w", err)
	}
	return list, total, nil
}

// ClaimReminder tells whether the reminder of a day is the caller's to send: nobody has
// begun it, or it failed and its time has come again. One that was begun and not ended,
// for the process died, may have arrived and is not sent again.
func (s *Store) ClaimReminder(ctx context.Context, destination int64, day string, now time.Time) (bool, error) {
	var n int64
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		res, err := tx.exec(ctx, `INSERT INTO reminders (destination, day, state, due_at, tries) VALUES ($1, $2, 'sending', 0, 1)
			ON CONFLICT (destination) DO UPDATE SET day = excluded.day, state = 'sending', tries = CASE WHEN reminders.day = excluded.day THEN reminders.tries + 1 ELSE 1 END
			WHERE reminders.day < excluded.day OR reminders.day = excluded.day AND reminders.state = 'failed' AND reminders.due_at <= $3`,
			destination, day, ledger.Micros(now))
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err
	})
	if err != nil {
		return false, fmt.Errorf("begin a reminder: %w", err)
	}
	return n == 1, nil
}

// EndReminder says what became of a reminder that was begun; again is when one that
// failed is tried again, zero if it went out or may have.
func (s *Store) EndReminder(ctx context.Context, destination int64, day string, again time.Time) error {
	state := "done"
	if !again.IsZero() {
		state = "failed"
	}
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		_, err := tx.exec(ctx, `UPDATE reminders SET state = $3, due_at = $4 WHERE destination = $1 AND day = $2`, destination, day, state, ledger.Micros(again))
		return err
	})
	if err != nil {
		return fmt.Errorf("end a reminder: %w", err)
	}
	return nil
}
