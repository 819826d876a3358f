package store

import (
	"context"
	"fmt"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// raise notes a finding: a new one, one more sighting of an open one, or a fixed
// one that is back.
func raise(ctx context.Context, tx *tx, f ledger.Finding) error {
	at := ledger.Micros(f.At)
	_, err := tx.exec(ctx, `INSERT INTO findings (ws, kind, subject, evidence, since, last_at, fixed_at, n) VALUES ($1, $2, $3, $4, $5, $6, 0, 1)
		ON CONFLICT (ws, kind, subject) DO UPDATE SET evidence = excluded.evidence, last_at = excluded.last_at, n = findings.n + 1,
			since = CASE WHEN findings.fixed_at = 0 THEN findings.since ELSE excluded.since END, fixed_at = 0`,
		f.Workspace, string(f.Kind), f.Subject, f.Evidence, at, at)
	if err != nil {
		return fmt.Errorf("note a finding: %w", err)
	}
	return nil
}

// fix closes a finding, if it is open.
func fix(ctx context.Context, tx *tx, f ledger.Finding) error {
	_, err := tx.exec(ctx, `UPDATE findings SET fixed_at = $4 WHERE ws = $1 AND kind = $2 AND subject = $3 AND fixed_at = 0`,
		f.Workspace, string(f.Kind), f.Subject, ledger.Micros(f.At))
	if err != nil {
		return fmt.Errorf("close a finding: %w", err)
	}
	return nil
}

// quietFor is how long a fault that shows only when an event comes must not have been
// seen before its finding counts as fixed.
const quietFor = 24 * time.Hour

// closeStale closes findings by themselves: those not seen for a day, and those about
// held events of which none is left.
func (s *Store) closeStale(ctx context.Context, now time.Time) error {
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		if _, err := tx.exec(ctx, `UPDATE findings SET fixed_at = $1 WHERE fixed_at = 0 AND last_at < $2 AND kind IN ($3, $4, $5)`,
			ledger.Micros(now), ledger.Micros(now.Add(-quietFor)),
			string(ledger.FindingShortCount), string(ledger.FindingDuplicateConflict), string(ledger.FindingUnknownPage)); err != nil {
			return err
		}
		return s.closeDecided(ctx, tx, now)
	})
	if err != nil {
		return fmt.Errorf("close findings: %w", err)
	}
	return nil
}

// closeDecided closes the findings about events that waited for a person's decision.
func (s *Store) closeDecided(ctx context.Context, tx *tx, now time.Time) error {
	if _, err := tx.exec(ctx, `UPDATE findings SET fixed_at = $1 WHERE fixed_at = 0 AND kind = $2 AND NOT EXISTS
		(SELECT 1 FROM pending p WHERE p.priority = 9 AND p.held = $3 AND p.ws = findings.ws AND p.name = findings.subject)`,
		ledger.Micros(now), string(ledger.FindingMaybeSent), string(ledger.MaybeSent)); err != nil {
		return err
	}
	_, err := tx.exec(ctx, `UPDATE findings SET fixed_at = $1 WHERE fixed_at = 0 AND kind = $2 AND NOT EXISTS
		(SELECT 1 FROM pending p WHERE p.priority = 9 AND p.held IN ($3, $4, $5) AND p.ws = findings.ws AND p.source = findings.subject)`,
		ledger.Micros(now), string(ledger.FindingGuard), string(ledger.BulkChange), string(ledger.ValueOutlier), string(ledger.TestName))
	return err
}

// Raise notes a finding.
func (s *Store) Raise(ctx context.Context, f ledger.Finding) error {
	return s.writer.do(ctx, func(ctx context.Context, tx *tx) error { return raise(ctx, tx, f) })
}

// Note opens a finding, or closes it where it is not so any more. An open one that is still
// so is left as it stands.
func (s *Store) Note(ctx context.Context, f ledger.Finding, open bool) error {
	return s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		if !open {
			return fix(ctx, tx, f)
		}
		var known int64
		err := tx.row(ctx, `SELECT COUNT(*) FROM findings WHERE ws = $1 AND kind = $2 AND subject = $3 AND evidence = $4 AND fixed_at = 0`,
			[]any{f.Workspace, string(f.Kind), f.Subject, f.Evidence}, &known)
		if err != nil || known > 0 {
			return err
		}
		return raise(ctx, tx, f)
	})
}

// Findings lists a workspace's findings, open ones first, newest first.
func (s *Store) Findings(ctx context.Context, ws int64) ([]ledger.Finding, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT kind, subject, evidence, since, last_at, fixed_at, n FROM findings
		WHERE ws = $1 ORDER BY CASE WHEN fixed_at = 0 THEN 0 ELSE 1 END, since DESC, kind, subject`, ws)
	list, err := collect(rows, err, func(row scanner) (f ledger.Finding, err error) {
		var since, last, fixed int64
		err = row.Scan(&f.Kind, &f.Subject, &f.Evidence, &since, &last, &fixed, &f.Count)
		f.Workspace = ws
		f.Since, f.At, f.FixedAt = ledger.FromMicros(since), ledger.FromMicros(last), ledger.FromMicros(fixed)
		return f, err
	})
	if err != nil {
		return nil, fmt.Errorf("list findings: %w", err)
	}
	return list, nil
}
