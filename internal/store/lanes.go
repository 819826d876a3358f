package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/capiloop/capiloop/internal/ledger"
)

const laneColumns = `owner, epoch, lease_until, due_at, failures, paused, held, held_since, probes, accepted_at, status, code, subcode, trace_id, message`

func scanLane(row scanner, l *ledger.Lane) error {
	var lease, due, since, accepted int64
	if err := row.Scan(&l.Owner, &l.Epoch, &lease, &due, &l.Failures, &l.Paused, &l.Held, &since, &l.Probes, &accepted,
		&l.Answer.Status, &l.Answer.Code, &l.Answer.Subcode, &l.Answer.TraceID, &l.Answer.Message); err != nil {
		return err
	}
	l.LeaseUntil, l.DueAt = ledger.FromMicros(lease), ledger.FromMicros(due)
	l.HeldSince, l.AcceptedAt = ledger.FromMicros(since), ledger.FromMicros(accepted)
	return nil
}

// Lane returns the state of a destination's queue.
func (s *Store) Lane(ctx context.Context, destination int64) (ledger.Lane, error) {
	l := ledger.Lane{Destination: destination}
	err := scanLane(s.read.QueryRowContext(ctx, `SELECT `+laneColumns+` FROM lanes WHERE destination = $1`, destination), &l)
	if err != nil {
		return l, fmt.Errorf("read the lane of destination %d: %w", destination, err)
	}
	return l, nil
}

func (s *Store) lockLane(ctx context.Context, tx *tx, destination int64) (ledger.Lane, error) {
	l := ledger.Lane{Destination: destination}
	st, err := tx.stmt(ctx, `SELECT `+laneColumns+` FROM lanes WHERE destination = $1`+s.dialect.lock) //nolint:sqlclosecheck // it stays prepared as long as the connection lives
	if err != nil {
		return l, err
	}
	err = scanLane(st.QueryRowContext(ctx, destination), &l)
	if errors.Is(err, sql.ErrNoRows) {
		return l, fmt.Errorf("destination %d has no lane", destination)
	}
	return l, err
}

func updateLane(ctx context.Context, tx *tx, l ledger.Lane) error {
	_, err := tx.exec(ctx, `UPDATE lanes SET due_at = $2, failures = $3, held = $4, held_since = $5, probes = $6, accepted_at = $7,
		status = $8, code = $9, subcode = $10, trace_id = $11, message = $12, paused = $13 WHERE destination = $1`,
		l.Destination, ledger.Micros(l.DueAt), l.Failures, string(l.Held), ledger.Micros(l.HeldSince), l.Probes, ledger.Micros(l.AcceptedAt),
		l.Answer.Status, l.Answer.Code, l.Answer.Subcode, l.Answer.TraceID, l.Answer.Message, string(l.Paused))
	if err != nil {
		return fmt.Errorf("update the lane: %w", err)
	}
	return nil
}

// TryNow lets a lane that waits or is held try again at once: someone pressed test,
// or changed the destination. The rows keep their place.
func (s *Store) TryNow(ctx context.Context, destination int64) error {
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		_, err := tx.exec(ctx, `UPDATE lanes SET due_at = 0, probes = 0, failures = 0, paused = '' WHERE destination = $1`, destination)
		return err
	})
	if err != nil {
		return fmt.Errorf("let destination %d try again: %w", destination, err)
	}
	s.wakes.wake(destination)
	return nil
}

// ReleaseLeases gives up the lanes of a node that stops, so that another takes them
// over at once.
func (s *Store) ReleaseLeases(ctx context.Context, node string) error {
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		_, err := tx.exec(ctx, `UPDATE lanes SET lease_until = 0 WHERE owner = $1`, node)
		return err
	})
	if err != nil {
		return fmt.Errorf("release the leases: %w", err)
	}
	return nil
}
