package store

import (
	"context"
	"fmt"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// Deadline is what will be too late soon: deliveries of one event to one destination that
// are not done with for one reason.
type Deadline struct {
	Destination string // a dataset's id, or the name of a CRM
	Name        string // the event's, or ledger.LeadName
	State       ledger.State
	Reason      ledger.Reason
	Count       int64
	First       time.Time // the soonest of the deadlines
}

// Deadlines lists what a workspace would lose by its deadline until then, the soonest
// first.
func (s *Store) Deadlines(ctx context.Context, ws int64, now, until time.Time) ([]Deadline, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT t.name, p.name, CASE WHEN p.held <> '' THEN p.held ELSE COALESCE(l.held, '') END AS held,
			CASE WHEN p.held <> '' OR COALESCE(l.held, '') <> '' THEN '' WHEN p.unknown_since <> 0 THEN 'answer_lost'
				WHEN COALESCE(l.paused, '') <> '' THEN l.paused WHEN p.tries > 0 THEN 'retrying' ELSE 'queued' END AS waits,
			COUNT(*), MIN(p.deadline)
		FROM destinations t JOIN pending p ON p.destination = t.id LEFT JOIN lanes l ON l.destination = t.id
		WHERE t.ws = $1 AND p.deadline > $2 AND p.deadline <= $3
		GROUP BY 1, 2, 3, 4 ORDER BY 6, 1, 2, 3, 4`, ws, ledger.Micros(now), ledger.Micros(until))
	list, err := collect(rows, err, func(row scanner) (d Deadline, err error) {
		var held, waits ledger.Reason
		var first int64
		err = row.Scan(&d.Destination, &d.Name, &held, &waits, &d.Count, &first)
		d.Destination, d.First = plainName(d.Destination), ledger.FromMicros(first)
		d.State, d.Reason = ledger.Waiting, waits
		if held != ledger.None {
			d.State, d.Reason = ledger.Held, held
		}
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("look for what is soon too late: %w", err)
	}
	return list, nil
}
