package store

import (
	"context"
	"fmt"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// PastLead is a lead as it stands now, for a look at what rules would have made of it.
type PastLead struct {
	Row    *LeadRow
	Root   ledger.ID // what it was merged into, else itself
	MetaID string    // Meta's lead id, of the lead or of another touch of it
	Denied bool      // it, or what it was merged into, is without consent
	First  ledger.ID // its first recorded move; 0: none
	Teller string    // who told of that
}

// PastMove is a recorded move of a lead. What its event's condition rested on is not kept.
type PastMove struct {
	PastLead

	ID     ledger.ID
	Source string
	Change ledger.StageChange
	Effect ledger.Effect
}

const pastColumns = `l.merged_into, COALESCE(k.consent, 0),
	COALESCE((SELECT t.lead_id FROM touches t WHERE t.lead = l.id AND t.platform = 'meta' AND t.lead_id <> '' ORDER BY t.at LIMIT 1), ''),
	COALESCE((SELECT MIN(f.id) FROM stage_changes f WHERE f.lead = l.id), 0),
	COALESCE((SELECT f.source FROM stage_changes f WHERE f.lead = l.id ORDER BY f.id LIMIT 1), '')`

// tail lets a row be read by who knows only its first columns.
type tail struct {
	row  scanner
	more []any
}

// Scan reads the first columns into dest and the others into the tail's own places.
func (t tail) Scan(dest ...any) error { return t.row.Scan(append(dest, t.more...)...) }

// scanPast reads a lead with pastColumns and what comes after them. chain finds the lead
// behind several merges.
func scanPast(row scanner, chain map[ledger.ID]ledger.ID, more ...any) (p PastLead, err error) {
	var into ledger.ID
	var consent int64
	lead, err := scanLead(tail{row, append([]any{&into, &consent, &p.MetaID, &p.First, &p.Teller}, more...)})
	if err != nil {
		return p, err
	}
	p.Row, p.Root = &lead, lead.Lead.ID
	for range 10 {
		next, merged := chain[p.Root]
		if !merged {
			break
		}
		p.Root = next
	}
	if lead.Lead.Platform == adKind {
		p.MetaID = lead.Lead.LeadID
	}
	p.Denied = lead.Lead.Consent == ledger.ConsentDenied || ledger.Consent(consent) == ledger.ConsentDenied
	return p, nil
}

// merges returns what leads of a workspace were merged into.
func (s *Store) merges(ctx context.Context, ws int64) (map[ledger.ID]ledger.ID, error) {
	chain := map[ledger.ID]ledger.ID{}
	rows, err := s.read.QueryContext(ctx, `SELECT id, merged_into FROM leads WHERE ws = $1 AND merged_into <> 0`, ws)
	_, err = collect(rows, err, func(row scanner) (none struct{}, err error) {
		var id, into ledger.ID
		err = row.Scan(&id, &into)
		chain[id] = into
		return none, err
	})
	if err != nil {
		return nil, fmt.Errorf("read which leads were merged: %w", err)
	}
	return chain, nil
}

// PastLeads passes the leads on that were created since, in the order of their creation.
func (s *Store) PastLeads(ctx context.Context, ws int64, since time.Time, each func(*PastLead) error) error {
	chain, err := s.merges(ctx, ws)
	if err != nil {
		return err
	}
	rows, err := s.read.QueryContext(ctx, `SELECT `+leadColumns+`, `+pastColumns+`
		FROM leads l LEFT JOIN lead_secrets x ON x.lead = l.id LEFT JOIN leads k ON k.id = l.merged_into
		WHERE l.ws = $1 AND l.created_at >= $2 ORDER BY l.created_at, l.id`, ws, ledger.Micros(since))
	_, err = collect(rows, err, func(row scanner) (none struct{}, err error) {
		p, err := scanPast(row, chain)
		if err != nil {
			return none, err
		}
		return none, each(&p)
	})
	if err != nil {
		return fmt.Errorf("look through the leads: %w", err)
	}
	return nil
}

// PastMoves passes the moves on that happened since, in the order in which they happened.
func (s *Store) PastMoves(ctx context.Context, ws int64, since time.Time, each func(*PastMove) error) error {
	chain, err := s.merges(ctx, ws)
	if err != nil {
		return err
	}
	rows, err := s.read.QueryContext(ctx, `SELECT `+leadColumns+`, `+pastColumns+`,
			c.id, c.source, c.record, c.deal, c.pipeline, c.stage, c.field, c.from_stage, c.moved_by, c.amount, c.currency, c.at, c.effect
		FROM stage_changes c JOIN leads l ON l.id = c.lead LEFT JOIN lead_secrets x ON x.lead = l.id LEFT JOIN leads k ON k.id = l.merged_into
		WHERE c.ws = $1 AND c.at >= $2 ORDER BY c.at, c.id`, ws, ledger.Micros(since))
	_, err = collect(rows, err, func(row scanner) (none struct{}, err error) {
		var m PastMove
		var record string
		var at int64
		c := &m.Change
		m.PastLead, err = scanPast(row, chain, &m.ID, &m.Source, &record, &c.DealID, &c.Pipeline, &c.Stage, &c.Field, &c.From, &c.By, &c.Amount, &c.Currency, &at, &m.Effect)
		if err != nil {
			return none, err
		}
		c.At = ledger.FromMicros(at)
		if record != "" {
			c.Records = []string{record}
		}
		return none, each(&m)
	})
	if err != nil {
		return fmt.Errorf("look through the stage changes: %w", err)
	}
	return nil
}
