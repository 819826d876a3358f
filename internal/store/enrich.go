package store

import (
	"context"
	"fmt"

	"github.com/capiloop/capiloop/internal/ledger"
)

// Enrichment is what a later touch adds to a lead.
type Enrichment struct {
	Lead       ledger.ID
	Old, New   []byte            // sealed, under the lead's same key
	People     [][]byte          // keyed hashes of the e-mails and phones that it has now
	Deliveries []ledger.Delivery // to the CRMs, to be told of it; their ids are given here
}

// EnrichLead replaces what is sealed of a lead and queues it for its CRMs once more.
// false: the lead was changed or cleared meanwhile, and nothing was written.
func (s *Store) EnrichLead(ctx context.Context, r *Enrichment) (bool, error) {
	done := false
	id := r.Lead.Event()
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		done = false
		res, err := tx.exec(ctx, `UPDATE lead_secrets SET sealed = $3 WHERE lead = $1 AND sealed = $2`, int64(id), r.Old, r.New)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return err
		}
		done = true
		var ws, last int64
		var source string
		if err := tx.row(ctx, `SELECT l.ws, l.source, COALESCE((SELECT MAX(d.id) FROM deliveries d WHERE d.id > l.id AND d.id < l.id + 64), l.id)
			FROM leads l WHERE l.id = $1`, []any{int64(id)}, &ws, &source, &last); err != nil {
			return err
		}
		for _, hash := range r.People {
			if _, err := tx.exec(ctx, `INSERT INTO lead_people (ws, hash, lead) VALUES ($1, $2, $3) ON CONFLICT (ws, hash, lead) DO NOTHING`,
				ws, hash, int64(id)); err != nil {
				return err
			}
		}
		next := int(last - int64(id))
		if next+len(r.Deliveries) > ledger.MaxDeliveries {
			return nil // dozens of touches: the CRMs were told often enough
		}
		e := &ledger.Event{ID: id, Workspace: ws, Source: source, Name: ledger.LeadName}
		pairs := make([]pair, len(r.Deliveries))
		for i := range r.Deliveries {
			r.Deliveries[i].ID = id.Delivery(next + i + 1)
			pairs[i] = pair{event: e, delivery: &r.Deliveries[i]}
		}
		return s.insertDeliveries(ctx, tx, pairs)
	})
	if err != nil {
		return false, fmt.Errorf("add to lead %s: %w", id, err)
	}
	if done {
		for i := range r.Deliveries {
			s.wakes.wake(r.Deliveries[i].Destination)
		}
	}
	return done, nil
}
