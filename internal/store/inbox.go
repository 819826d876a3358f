package store

import (
	"context"
	"fmt"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// Notice is word of a lead or stage change that must still be read, or of a withdrawal
// to be done.
type Notice struct {
	ID        ledger.ID
	Workspace int64
	Source    int64 // or CRMSource
	Key       string
	Deleted   bool
	Body      []byte // nothing personal
	At        time.Time
	Tries     int
}

// AddNotices writes notices down, each once, and returns how many were new.
func (s *Store) AddNotices(ctx context.Context, notices []Notice) (int, error) {
	fresh := 0
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		fresh = 0
		for _, n := range notices {
			res, err := tx.exec(ctx, `INSERT INTO inbox (id, ws, source, key, deleted, body, at, due_at, tries, state, reason)
				VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0, 'waiting', '') ON CONFLICT (source, key, deleted) DO NOTHING`,
				int64(n.ID), n.Workspace, n.Source, n.Key, flag(n.Deleted), n.Body, ledger.Micros(n.At))
			if err != nil {
				return err
			}
			k, err := res.RowsAffected()
			if err != nil {
				return err
			}
			fresh += int(k)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("write notices down: %w", err)
	}
	s.wakes.wake(InboxLane)
	return fresh, nil
}

// CRMSource is what a CRM, by its destination's id, is among the sources of notices:
// sources and destinations are counted apart.
func CRMSource(destination int64) int64 { return -destination }

// InboxLane is the "destination" on which Wakes tells of new notices.
const InboxLane = -1

// ReleaseNotices makes every waiting notice due, at the start of the only process: what
// the one before it had under way must not wait for a lease to end. With several nodes
// it does nothing.
func (s *Store) ReleaseNotices(ctx context.Context, now time.Time) error {
	if !s.alone {
		return nil
	}
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		_, err := tx.exec(ctx, `UPDATE inbox SET due_at = $1 WHERE state = 'waiting' AND due_at > $1`, ledger.Micros(now))
		return err
	})
	if err != nil {
		return fmt.Errorf("release notices: %w", err)
	}
	return nil
}

// ClaimNotices takes notices that are due; those not settled within the lease come
// again.
func (s *Store) ClaimNotices(ctx context.Context, now time.Time, lease time.Duration, limit int) ([]Notice, error) {
	var list []Notice
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		rows, err := tx.query(ctx, `UPDATE inbox SET due_at = $2 WHERE id IN
				(SELECT id FROM inbox WHERE state = 'waiting' AND due_at <= $1 ORDER BY due_at, id LIMIT $3)
			RETURNING id, ws, source, key, deleted, body, at, tries`, ledger.Micros(now), ledger.Micros(now.Add(lease)), limit)
		list, err = collect(rows, err, func(row scanner) (n Notice, err error) {
			var deleted, at int64
			err = row.Scan(&n.ID, &n.Workspace, &n.Source, &n.Key, &deleted, &n.Body, &at, &n.Tries)
			n.Deleted, n.At = deleted == 1, ledger.FromMicros(at)
			return n, err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("take notices: %w", err)
	}
	return list, nil
}

// NoticeState is where a notice stands.
type NoticeState string

// The states of a notice.
const (
	NoticeWaiting NoticeState = "waiting"
	NoticeDone    NoticeState = "done"
	NoticeFailed  NoticeState = "failed"
)

// SettleNotice writes down what became of a notice. held opens a finding about the
// source's access; None closes it, if the notice is done.
func (s *Store) SettleNotice(ctx context.Context, n Notice, state NoticeState, reason ledger.Reason, dueAt time.Time, sourceName string, held bool) error {
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		if _, err := tx.exec(ctx, `UPDATE inbox SET state = $2, reason = $3, due_at = $4, tries = tries + 1 WHERE id = $1`,
			int64(n.ID), string(state), string(reason), ledger.Micros(dueAt)); err != nil {
			return err
		}
		f := ledger.Finding{Workspace: n.Workspace, Kind: ReadFinding(n.Source), Subject: sourceName, Evidence: string(reason), At: s.clock.Now()}
		switch {
		case held:
			return raise(ctx, tx, f)
		case state == NoticeDone:
			return fix(ctx, tx, f)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("settle a notice: %w", err)
	}
	return nil
}

// NoticeCounts says how many notices are in each state.
func (s *Store) NoticeCounts(ctx context.Context, ws int64) (map[NoticeState]int64, error) {
	counts := make(map[NoticeState]int64)
	rows, err := s.read.QueryContext(ctx, `SELECT state, COUNT(*) FROM inbox WHERE ws = $1 GROUP BY state`, ws)
	_, err = collect(rows, err, func(row scanner) (n int64, err error) {
		var state NoticeState
		err = row.Scan(&state, &n)
		counts[state] = n
		return n, err
	})
	if err != nil {
		return nil, fmt.Errorf("count notices: %w", err)
	}
	return counts, nil
}

// ReadFinding is what is noted when a source, or a CRM by its CRMSource, cannot be read.
func ReadFinding(source int64) ledger.FindingKind {
	if source < 0 {
		return ledger.FindingStages
	}
	return ledger.FindingSource
}

// PolledTo returns up to when a CRM's moves were read; zero: never.
func (s *Store) PolledTo(ctx context.Context, destination int64) (time.Time, error) {
	var at int64
	if err := s.read.QueryRowContext(ctx, `SELECT polled_to FROM destinations WHERE id = $1`, destination).Scan(&at); err != nil {
		return time.Time{}, fmt.Errorf("look up the last reading of a CRM: %w", err)
	}
	return ledger.FromMicros(at), nil
}

// Polled writes down that a CRM's moves were read up to a time, and closes the finding
// about its access.
func (s *Store) Polled(ctx context.Context, ws, destination int64, name string, to time.Time) error {
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		if _, err := tx.exec(ctx, `UPDATE destinations SET polled_to = $2 WHERE id = $1`, destination, ledger.Micros(to)); err != nil {
			return err
		}
		return fix(ctx, tx, ledger.Finding{Workspace: ws, Kind: ledger.FindingStages, Subject: name, At: s.clock.Now()})
	})
	if err != nil {
		return fmt.Errorf("note the reading of a CRM: %w", err)
	}
	return nil
}

// SweptTo returns up to when a source was swept; zero: never.
func (s *Store) SweptTo(ctx context.Context, source int64) (time.Time, error) {
	var at int64
	if err := s.read.QueryRowContext(ctx, `SELECT swept_to FROM sources WHERE id = $1`, source).Scan(&at); err != nil {
		return time.Time{}, fmt.Errorf("look up the last sweep: %w", err)
	}
	return ledger.FromMicros(at), nil
}

// Swept writes down that a source was swept up to a time, and closes the finding
// about its access.
func (s *Store) Swept(ctx context.Context, ws, source int64, name string, to time.Time) error {
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		if _, err := tx.exec(ctx, `UPDATE sources SET swept_to = $2 WHERE id = $1`, source, ledger.Micros(to)); err != nil {
			return err
		}
		return fix(ctx, tx, ledger.Finding{Workspace: ws, Kind: ledger.FindingSource, Subject: name, At: s.clock.Now()})
	})
	if err != nil {
		return fmt.Errorf("note the sweep: %w", err)
	}
	return nil
}
