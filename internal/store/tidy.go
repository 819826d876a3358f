package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// Ages after which rows may go. The seven days are those of the API's promise.
const (
	seenAge        = 7 * 24 * time.Hour
	idempotencyAge = 7 * 24 * time.Hour
	tidyRows       = 500 // per transaction, so that no request waits long behind it
)

// Expire fails the rows whose deadline has passed, whether their lane is held or
// not, and returns how many there were.
func (s *Store) Expire(ctx context.Context, destination int64, now time.Time) (int, error) {
	total := 0
	for {
		n := 0
		err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
			rows, err := queryRows(ctx, tx, `SELECT `+rowColumns+` FROM pending WHERE destination = $1 AND deadline <= $2 ORDER BY deadline LIMIT $3`,
				destination, ledger.Micros(now), tidyRows)
			if err != nil {
				return err
			}
			n = len(rows)
			changes := make([]ledger.Change, n)
			for i, r := range rows {
				changes[i] = ledger.Change{Row: r, State: ledger.Failed, Why: ledger.Expired}
			}
			return s.finish(ctx, tx, destination, 0, changes)
		})
		if err != nil {
			return total, fmt.Errorf("expire rows of destination %d: %w", destination, err)
		}
		if total += n; n < tidyRows {
			return total, nil
		}
	}
}

// ReleaseDue puts rows back into the lane that were held until their time came.
func (s *Store) ReleaseDue(ctx context.Context, destination int64, now time.Time) (int, error) {
	n := 0
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		rows, err := queryRows(ctx, tx, `SELECT `+rowColumns+` FROM pending
			WHERE destination = $1 AND priority = 9 AND held = $2 AND due_at <= $3 ORDER BY id LIMIT $4`,
			destination, string(ledger.ClockAhead), ledger.Micros(now), tidyRows)
		if err != nil {
			return err
		}
		n = len(rows)
		if err := unpark(ctx, tx, destination, rows); err != nil {
			return err
		}
		return clockCaughtUp(ctx, tx, destination, rows, now)
	})
	if err != nil {
		return 0, fmt.Errorf("release rows of destination %d: %w", destination, err)
	}
	return n, nil
}

// clockCaughtUp closes the findings about a clock that is ahead, once none of the
// source's events waits for its time any more.
func clockCaughtUp(ctx context.Context, tx *tx, destination int64, released []ledger.Row, now time.Time) error {
	done := make(map[ledger.Finding]bool)
	for _, r := range released {
		f := clockFinding(r.Workspace, r.Source, r.Name)
		if done[f] {
			continue
		}
		done[f] = true
		var left int64
		err := tx.row(ctx, `SELECT COUNT(*) FROM pending WHERE destination = $1 AND priority = 9 AND held = $2 AND ws = $3 AND source = $4 AND name = $5`,
			[]any{destination, string(ledger.ClockAhead), r.Workspace, r.Source, r.Name}, &left)
		if err != nil {
			return fmt.Errorf("look for events of the future: %w", err)
		}
		if left > 0 {
			continue
		}
		f.At = now
		if err := fix(ctx, tx, f); err != nil {
			return err
		}
	}
	return nil
}

// unpark puts parked rows back into the lane, with a clean slate: doubts that a
// person has settled are forgotten. What must also wait for another event goes on
// waiting for that; after it it still keeps its own time.
func unpark(ctx context.Context, tx *tx, destination int64, rows []ledger.Row) error {
	for _, r := range rows {
		waits := int64(0)
		var err error
		if r.Held == ledger.Sequence {
			_, err = tx.exec(ctx, `DELETE FROM sequences WHERE id = $1`, int64(r.ID))
		} else {
			err = tx.row(ctx, `SELECT COUNT(*) FROM sequences WHERE id = $1`, []any{int64(r.ID)}, &waits)
		}
		if err != nil {
			return fmt.Errorf("release a row: %w", err)
		}
		if waits > 0 {
			if _, err := tx.exec(ctx, `UPDATE pending SET held = $3 WHERE destination = $1 AND priority = 9 AND id = $2`, destination, int64(r.ID), string(ledger.Sequence)); err != nil {
				return fmt.Errorf("hold a row for another: %w", err)
			}
			tx.counts.moved(cellOf(destination, r), ledger.Held, r.Held, ledger.Held, ledger.Sequence)
			continue
		}
		_, err = tx.exec(ctx, `UPDATE pending SET priority = (SELECT priority FROM deliveries WHERE deliveries.id = pending.id),
			held = '', due_at = CASE WHEN held IN ('sequence', 'value_outlier') THEN due_at ELSE 0 END, tries = 0, unknown_since = 0, suspect_since = 0 WHERE destination = $1 AND priority = 9 AND id = $2`, destination, int64(r.ID))
		if err != nil {
			return fmt.Errorf("release a row: %w", err)
		}
		tx.counts.moved(cellOf(destination, r), ledger.Held, r.Held, ledger.Waiting, "")
	}
	return nil
}

// ParkDoubtful holds rows whose answer was lost before the given time and did not
// come since: the destination has forgotten their ids, and a person decides.
func (s *Store) ParkDoubtful(ctx context.Context, destination int64, before time.Time) (int, error) {
	n := 0
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		rows, err := queryRows(ctx, tx, `SELECT `+rowColumns+` FROM pending
			WHERE destination = $1 AND priority < 9 AND unknown_since > 0 AND unknown_since <= $2 ORDER BY priority, id LIMIT $3`,
			destination, ledger.Micros(before), tidyRows)
		if err != nil {
			return err
		}
		n = len(rows)
		changes := make([]ledger.Change, n)
		for i, r := range rows {
			changes[i] = ledger.Change{Row: r, State: ledger.Held, Why: ledger.MaybeSent, UnknownSince: r.UnknownSince}
		}
		return s.change(ctx, tx, &ledger.Batch{Destination: destination}, changes)
	})
	if err != nil {
		return 0, fmt.Errorf("park rows of destination %d: %w", destination, err)
	}
	return n, nil
}

// Tidy removes what has served its time: recognised event ids older than seven
// days, kept answers of Idempotency-Keys, findings whose cause is gone. It works in
// small steps and may be stopped at any time.
func (s *Store) Tidy(ctx context.Context, now time.Time) error {
	for {
		n, err := s.forgetSeen(ctx, ledger.IDAt(now.Add(-seenAge)))
		if err != nil {
			return err
		}
		if n < tidyRows {
			break
		}
	}
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		_, err := tx.exec(ctx, `DELETE FROM idempotency WHERE at < $1`, ledger.Micros(now.Add(-idempotencyAge)))
		return err
	})
	if err != nil {
		return fmt.Errorf("forget old Idempotency-Keys: %w", err)
	}
	if err := s.forgetSightings(ctx, now.Add(-SightingAge)); err != nil {
		return err
	}
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	if err := s.forgetUsual(ctx, now); err != nil {
		return err
	}
	return s.closeStale(ctx, now)
}

// forgetSeen removes the keys of events older than before. It walks the events in
// order, from where it stopped last: the keys themselves have no order, and an index
// by time would cost every insert.
func (s *Store) forgetSeen(ctx context.Context, before ledger.ID) (int, error) {
	n := 0
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		var from int64
		if err := tx.row(ctx, `SELECT CAST(value AS bigint) FROM installation WHERE name = 'seen_forgotten_to'`, nil, &from); err != nil {
			return err
		}
		type old struct {
			id, destination int64
			name, eventID   string
		}
		rows, err := tx.query(ctx, `SELECT d.id, d.destination, e.name, e.event_id FROM events e JOIN deliveries d ON d.id > e.id AND d.id < e.id + 64
			WHERE e.id > $1 AND e.id < $2 ORDER BY e.id, d.id LIMIT $3`, from, int64(before), tidyRows)
		list, err := collect(rows, err, func(row scanner) (o old, err error) {
			err = row.Scan(&o.id, &o.destination, &o.name, &o.eventID)
			return o, err
		})
		if err != nil {
			return err
		}
		n = len(list)
		for _, o := range list {
			if _, err := tx.exec(ctx, `DELETE FROM seen WHERE key = $1 AND id = $2`, seenKey(o.destination, o.name, o.eventID), o.id); err != nil {
				return err
			}
		}
		if n == 0 {
			return nil
		}
		// The last event may have more deliveries: it is looked at again, unless it
		// alone filled the step.
		to := int64(ledger.ID(list[n-1].id).Event())
		if n == tidyRows && to-1 > from {
			to--
		}
		_, err = tx.exec(ctx, `UPDATE installation SET value = $1 WHERE name = 'seen_forgotten_to'`, strconv.FormatInt(to, 10))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("forget old event ids: %w", err)
	}
	return n, nil
}
