package store

import (
	"context"
	"fmt"

	"github.com/capiloop/capiloop/internal/ledger"
)

// FunnelSize returns how many leads a funnel is about.
func (s *Store) FunnelSize(ctx context.Context, q FunnelQuery) (n int64, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT COUNT(*) FROM leads l WHERE `+ofFunnel, q.Workspace, ledger.Micros(q.From), ledger.Micros(q.To)).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the leads of a funnel: %w", err)
	}
	return n, nil
}

// FunnelLeads passes each lead of a funnel on, with what is sealed still sealed, and the
// names of the events that it has reached.
func (s *Store) FunnelLeads(ctx context.Context, q FunnelQuery, each func(row *LeadRow, events []string) error) error {
	args := []any{q.Workspace, ledger.Micros(q.From), ledger.Micros(q.To)}
	reached := map[ledger.ID][]string{}
	rows, err := s.read.QueryContext(ctx, `SELECT DISTINCT l.id, f.name FROM leads l JOIN fired f ON f.lead = l.id WHERE `+ofFunnel, args...)
	_, err = collect(rows, err, func(row scanner) (none struct{}, err error) {
		var id ledger.ID
		var name string
		err = row.Scan(&id, &name)
		reached[id] = append(reached[id], name)
		return none, err
	})
	if err != nil {
		return fmt.Errorf("read what leads have reached: %w", err)
	}
	rows, err = s.read.QueryContext(ctx, `SELECT `+leadColumns+` FROM leads l LEFT JOIN lead_secrets x ON x.lead = l.id WHERE `+ofFunnel, args...)
	_, err = collect(rows, err, func(row scanner) (none struct{}, err error) {
		lead, err := scanLead(row)
		if err != nil {
			return none, err
		}
		return none, each(&lead, reached[lead.Lead.ID])
	})
	if err != nil {
		return fmt.Errorf("read the leads of a funnel: %w", err)
	}
	return nil
}
