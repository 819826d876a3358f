package store

import (
	"context"
	"fmt"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// RetryQuery says which deliveries a person asks for again.
type RetryQuery struct {
	Workspace   int64
	Destination int64 // 0: all
	Event       ledger.ID
	Reason      ledger.Reason // None: all
	Now         time.Time
}

const retryRows = 500

// RetryFailed puts failed deliveries that are not too old into the queue again,
// under the same event_id, and returns how many. What has come again meanwhile as a
// new event is left alone.
func (s *Store) RetryFailed(ctx context.Context, q RetryQuery) (int, error) {
	total, after := 0, ledger.ID(0)
	if q.Event != 0 {
		after = q.Event.Event()
	}
	for {
		n, last, err := s.retryStep(ctx, q, after)
		total += n
		if err != nil {
			return total, fmt.Errorf("retry failed events: %w", err)
		}
		if last == 0 {
			return total, nil
		}
		after = last
	}
}

type failedRow struct {
	row         ledger.Row
	destination int64
	eventID     string
	reason      ledger.Reason
}

func (s *Store) retryStep(ctx context.Context, q RetryQuery, after ledger.ID) (n int, last ledger.ID, err error) {
	before := int64(1<<63 - 1)
	if q.Event != 0 {
		before = int64(q.Event.Event()) + ledger.MaxDeliveries + 1
	}
	err = s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		n, last = 0, 0
		rows, err := tx.query(ctx, `SELECT r.id, d.destination, d.priority, d.deadline, d.test_code, d.agent, COALESCE(e.ws, l.ws), COALESCE(e.source, l.source),
				COALESCE(e.name, $8), COALESCE(e.event_id, ''), r.reason, r.tries, COALESCE(LENGTH(d.payload), 0)
			FROM results r JOIN deliveries d ON d.id = r.id
			LEFT JOIN events e ON e.id = r.id - r.id % 64
			LEFT JOIN leads l ON e.id IS NULL AND l.id = r.id - r.id % 64
			WHERE r.id > $1 AND r.id < $2 AND r.state = 'failed' AND COALESCE(e.ws, l.ws) = $3 AND d.deadline > $4
				AND (d.payload IS NOT NULL OR l.id IS NOT NULL AND l.cleared_at = 0)
				AND (CAST($5 AS bigint) = 0 OR d.destination = $5) AND ($6 = '' OR r.reason = $6) ORDER BY r.id LIMIT $7`,
			int64(after), before, q.Workspace, ledger.Micros(q.Now), q.Destination, string(q.Reason), retryRows, ledger.LeadName)
		list, err := collect(rows, err, scanFailed)
		if err != nil {
			return err
		}
		for _, f := range list {
			again, err := s.requeue(ctx, tx, f)
			if err != nil {
				return err
			}
			if again {
				n++
			}
		}
		if len(list) == retryRows {
			last = list[len(list)-1].row.ID
		}
		return nil
	})
	if err == nil {
		s.wakes.wakeAll()
	}
	return n, last, err
}

func scanFailed(row scanner) (f failedRow, err error) {
	var deadline int64
	err = row.Scan(&f.row.ID, &f.destination, &f.row.Priority, &deadline, &f.row.Envelope.TestCode, &f.row.Envelope.Agent, &f.row.Workspace, &f.row.Source, &f.row.Name,
		&f.eventID, &f.reason, &f.row.Tries, &f.row.Size)
	f.row.Deadline = ledger.FromMicros(deadline)
	return f, err
}

// requeue takes the event id back and queues the delivery; false says that the id
// was taken by a newer event, which is the repaired one.
func (s *Store) requeue(ctx context.Context, tx *tx, f failedRow) (bool, error) {
	if f.eventID == "" { // a lead
		return true, s.putBack(ctx, tx, f)
	}
	res, err := tx.exec(ctx, `UPDATE seen SET released = 0 WHERE key = $1 AND id = $2`, seenKey(f.destination, f.row.Name, f.eventID), int64(f.row.ID))
	if err != nil {
		return false, err
	}
	if k, err := res.RowsAffected(); err != nil || k == 0 {
		return false, err
	}
	return true, s.putBack(ctx, tx, f)
}

func (s *Store) putBack(ctx context.Context, tx *tx, f failedRow) error {
	if _, err := tx.exec(ctx, `DELETE FROM results WHERE id = $1`, int64(f.row.ID)); err != nil {
		return err
	}
	r := f.row
	tx.counts.moved(cellOf(f.destination, r), ledger.Failed, f.reason, ledger.Waiting, "")
	return s.dialect.bulk(ctx, tx, pendingTable, [][]any{{
		f.destination, int64(r.Priority), int64(r.ID), r.Workspace, r.Source, r.Name, int64(r.Size),
		int64(0), ledger.Micros(r.Deadline), int64(r.Tries), int64(0), int64(0), "", r.Envelope.TestCode, r.Envelope.Agent,
	}})
}

// Decide settles rows that are held by themselves and wait for a person: release
// sends them, otherwise they are skipped as dropped. It returns how many.
func (s *Store) Decide(ctx context.Context, q RetryQuery, release bool) (int, error) {
	total := 0
	for {
		n := 0
		err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
			n = 0
			byDestination, count, err := s.heldRows(ctx, tx, q)
			if err != nil {
				return err
			}
			n = count
			for destination, rows := range byDestination {
				if release {
					if err = unpark(ctx, tx, destination, rows); err == nil {
						err = s.learnReleased(ctx, tx, rows)
					}
				} else {
					changes := make([]ledger.Change, len(rows))
					for i, r := range rows {
						changes[i] = ledger.Change{Row: r, State: ledger.Skipped, Why: ledger.Dropped}
					}
					err = s.finish(ctx, tx, destination, 0, changes)
				}
				if err != nil {
					return err
				}
			}
			return s.closeDecided(ctx, tx, q.Now)
		})
		if err != nil {
			return total, fmt.Errorf("decide on held events: %w", err)
		}
		if total += n; n < retryRows {
			s.wakes.wakeAll()
			return total, nil
		}
	}
}

// heldRows finds parked rows that a person may decide on. What is only waiting for
// its time to come is not among them: Meta would refuse it. Nor is what waits for
// another event, unless it is asked for by name.
func (s *Store) heldRows(ctx context.Context, tx *tx, q RetryQuery) (map[int64][]ledger.Row, int, error) {
	rows, err := tx.query(ctx, `SELECT destination, `+rowColumns+` FROM pending WHERE priority = 9 AND ws = $1 AND held <> $2
		AND (held <> 'sequence' OR $4 = 'sequence' OR CAST($5 AS bigint) > 0)
		AND (CAST($3 AS bigint) = 0 OR destination = $3) AND ($4 = '' OR held = $4) AND (CAST($5 AS bigint) = 0 OR (id > $5 AND id < $5 + 64)) ORDER BY id LIMIT $6`,
		q.Workspace, string(ledger.ClockAhead), q.Destination, string(q.Reason), int64(q.Event.Event()), retryRows)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	found := make(map[int64][]ledger.Row)
	n := 0
	for rows.Next() {
		var r ledger.Row
		var destination, deadline, unknown, suspect int64
		if err := rows.Scan(&destination, &r.ID, &r.Workspace, &r.Source, &r.Name, &r.Size, &r.Priority, &deadline, &r.Tries, &unknown, &suspect, &r.Envelope.TestCode, &r.Envelope.Agent, &r.Held); err != nil {
			return nil, 0, err
		}
		found[destination] = append(found[destination], r)
		n++
	}
	return found, n, rows.Err()
}

// SkipRemoved skips what waits for a destination that was removed, once a person
// has confirmed it.
func (s *Store) SkipRemoved(ctx context.Context, destination int64) (int, error) {
	total := 0
	for {
		n := 0
		err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
			rows, err := queryRows(ctx, tx, `SELECT `+rowColumns+` FROM pending WHERE destination = $1 ORDER BY priority, id LIMIT $2`, destination, retryRows)
			if err != nil {
				return err
			}
			n = len(rows)
			changes := make([]ledger.Change, n)
			for i, r := range rows {
				changes[i] = ledger.Change{Row: r, State: ledger.Skipped, Why: ledger.WasRemoved}
			}
			return s.finish(ctx, tx, destination, 0, changes)
		})
		if err != nil {
			return total, fmt.Errorf("skip the rows of removed destination %d: %w", destination, err)
		}
		if total += n; n < retryRows {
			return total, nil
		}
	}
}
