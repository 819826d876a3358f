package store

import (
	"context"
	"fmt"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// EraseLead forgets who a lead is: its key and all that the key seals, and the hashes
// that would find the person again. What still waits to be handed over is skipped.
// The figures stay, and so does the id, so that the lead cannot come in a second time.
func (s *Store) EraseLead(ctx context.Context, ws int64, id ledger.ID, now time.Time) error {
	id = id.Event()
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		// Who wants to be forgotten wants no further event either, whatever the CRM says.
		if _, err := tx.exec(ctx, `UPDATE leads SET consent = $3 WHERE id = $1 AND ws = $2`, int64(id), ws, int64(ledger.ConsentDenied)); err != nil {
			return err
		}
		if err := s.forget(ctx, tx, ws, id, now); err != nil {
			return err
		}
		return s.forgetEvents(ctx, tx, id)
	})
	if err != nil {
		return fmt.Errorf("erase lead %s: %w", id, err)
	}
	return nil
}

// PurgeContacts forgets who the leads of a workspace are that were received before the
// given time, and returns how many it forgot. A lead that still waits for a CRM, or of
// which an event waits, is kept until that is done with: it would be lost.
func (s *Store) PurgeContacts(ctx context.Context, ws int64, before, now time.Time) (int, error) {
	total := 0
	for {
		n := 0
		err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
			rows, err := tx.query(ctx, `SELECT s.lead FROM lead_secrets s JOIN leads l ON l.id = s.lead
				WHERE s.lead < $1 AND l.ws = $2 AND l.cleared_at = 0
					AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.id > s.lead AND d.id < s.lead + 64
						AND NOT EXISTS (SELECT 1 FROM results r WHERE r.id = d.id))
					AND NOT EXISTS (SELECT 1 FROM fired f JOIN deliveries d ON d.id > f.event AND d.id < f.event + 64
						WHERE f.lead IN (l.id, l.merged_into) AND f.event <> 0 AND NOT EXISTS (SELECT 1 FROM results r WHERE r.id = d.id))
				ORDER BY s.lead LIMIT $3`, int64(ledger.IDAt(before)), ws, tidyRows)
			list, err := collect(rows, err, func(row scanner) (id int64, err error) {
				err = row.Scan(&id)
				return id, err
			})
			if err != nil {
				return err
			}
			for _, id := range list {
				if err := s.forget(ctx, tx, ws, ledger.ID(id), now); err != nil {
					return err
				}
			}
			n = len(list)
			return nil
		})
		if err != nil {
			return total, fmt.Errorf("clear old contacts: %w", err)
		}
		if total += n; n < tidyRows {
			return total, nil
		}
	}
}

func (s *Store) forget(ctx context.Context, tx *tx, ws int64, id ledger.ID, now time.Time) error {
	res, err := tx.exec(ctx, `UPDATE leads SET cleared_at = $3 WHERE id = $1 AND ws = $2 AND cleared_at = 0`, int64(id), ws, ledger.Micros(now))
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return err
	}
	for _, forget := range []string{
		`DELETE FROM lead_secrets WHERE lead = $1`,
		`DELETE FROM lead_people WHERE lead = $1`,
		`DELETE FROM lead_copies WHERE id > $1 AND id < CAST($1 AS bigint) + 64`,
		`UPDATE leads SET event_id = '' WHERE id = $1`,
	} {
		if _, err := tx.exec(ctx, forget, int64(id)); err != nil {
			return err
		}
	}
	_, err = s.skipLead(ctx, tx, id, ledger.Cleared)
	return err
}

// forgetEvents empties the events that were made of a lead, and skips those that wait.
func (s *Store) forgetEvents(ctx context.Context, tx *tx, lead ledger.ID) error {
	events, err := eventsOf(ctx, tx, lead)
	if err != nil {
		return err
	}
	for _, id := range events {
		if _, err := s.skipLead(ctx, tx, id, ledger.Cleared); err != nil {
			return err
		}
		if _, err := tx.exec(ctx, `UPDATE deliveries SET payload = NULL, notes = '' WHERE id > $1 AND id < CAST($1 AS bigint) + 64`, int64(id)); err != nil {
			return err
		}
	}
	return nil
}

// eventsOf returns the events that were made of a lead: also those which stand with the
// lead that it was merged into.
func eventsOf(ctx context.Context, tx *tx, lead ledger.ID) ([]ledger.ID, error) {
	rows, err := tx.query(ctx, `SELECT event FROM fired WHERE lead = $1 AND event <> 0
		UNION SELECT f.event FROM stage_changes c JOIN fired f ON f.change = c.id AND f.change <> 0 WHERE c.lead = $1 AND f.event <> 0`, int64(lead))
	return collect(rows, err, scanID[ledger.ID])
}

// skipLead takes what waits of a lead, or of one of its events, out of the queue.
func (s *Store) skipLead(ctx context.Context, tx *tx, id ledger.ID, why ledger.Reason) (n int, err error) {
	rows, err := tx.query(ctx, `SELECT destination, id FROM deliveries WHERE id > $1 AND id < CAST($1 AS bigint) + 64
		AND NOT EXISTS (SELECT 1 FROM results r WHERE r.id = deliveries.id)`, int64(id))
	type waiting struct{ destination, id int64 }
	list, err := collect(rows, err, func(row scanner) (w waiting, err error) {
		err = row.Scan(&w.destination, &w.id)
		return w, err
	})
	if err != nil {
		return 0, err
	}
	for _, w := range list {
		rows, err := queryRows(ctx, tx, `SELECT `+rowColumns+` FROM pending WHERE destination = $1 AND priority IN (1, 5, 9) AND id = $2`, w.destination, w.id)
		if err != nil {
			return n, err
		}
		for _, r := range rows {
			if err := s.finish(ctx, tx, w.destination, 0, []ledger.Change{{Row: r, State: ledger.Skipped, Why: why}}); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}
