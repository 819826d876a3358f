package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/capiloop/capiloop/internal/ledger"
)

// MergeLeads follows a merge in a CRM: the leads of the merged records are the kept one's
// from now on, so that no event of them goes a second time. Each keeps what it came with,
// and is still found by it; a withdrawn consent holds for all. It returns how many leads
// were merged.
func (s *Store) MergeLeads(ctx context.Context, destination int64, m ledger.Merge) (int, error) {
	n := 0
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		n = 0
		kept, err := s.newestOf(ctx, tx, destination, m.Kept)
		if err != nil {
			return err
		}
		for _, record := range m.Merged {
			lead, err := s.newestOf(ctx, tx, destination, record)
			if err != nil {
				return err
			}
			if lead == 0 || lead == kept {
				continue
			}
			if kept == 0 { // the CRM gave the record a new id
				kept = lead
				if _, err := tx.exec(ctx, `INSERT INTO crm_records (destination, lead, record, rank) VALUES ($1, $2, $3, $4) ON CONFLICT (destination, lead, record) DO NOTHING`,
					destination, int64(kept), m.Kept, learned); err != nil {
					return err
				}
				continue
			}
			if err := s.mergeInto(ctx, tx, lead, kept); err != nil {
				return err
			}
			n++
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("follow a merge: %w", err)
	}
	return n, nil
}

// newestOf returns the lead of a record, by way of those that it was merged into.
func (s *Store) newestOf(ctx context.Context, tx *tx, destination int64, record string) (ledger.ID, error) {
	var id int64
	err := tx.row(ctx, `SELECT l.id FROM crm_records r JOIN leads l ON l.id = r.lead WHERE r.destination = $1 AND r.record = $2 ORDER BY l.created_at DESC, l.id DESC LIMIT 1`,
		[]any{destination, record}, &id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for {
		var into int64
		if err := tx.row(ctx, `SELECT merged_into FROM leads WHERE id = $1`+s.dialect.lock, []any{id}, &into); err != nil {
			return 0, err
		}
		if into == 0 {
			return ledger.ID(id), nil
		}
		id = into
	}
}

func (s *Store) mergeInto(ctx context.Context, tx *tx, lead, kept ledger.ID) error {
	for _, q := range []string{
		`UPDATE leads SET merged_into = $2 WHERE id = $1`,
		`INSERT INTO fired (lead, name, part, event, change, at) SELECT $2, name, part, event, change, at FROM fired WHERE lead = $1
			ON CONFLICT (lead, name, part) DO NOTHING`,
		`UPDATE sequences SET lead = $2 WHERE lead = $1`,
	} {
		if _, err := tx.exec(ctx, q, int64(lead), int64(kept)); err != nil {
			return err
		}
	}
	var without int64
	if err := tx.row(ctx, `SELECT COUNT(*) FROM leads WHERE id IN ($1, $2) AND consent = $3`, []any{int64(lead), int64(kept), int64(ledger.ConsentDenied)}, &without); err != nil {
		return err
	}
	if without > 0 {
		if _, err := s.deny(ctx, tx, kept, map[ledger.ID]bool{kept: true}); err != nil {
			return err
		}
	}
	return s.advanceAll(ctx, tx, int64(kept))
}
