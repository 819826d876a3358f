package store

import (
	"context"
	"fmt"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// HourCount is how much came from a source under a name in one hour, counted from 1970.
// What goes to several destinations came once.
type HourCount struct {
	Source, Name string
	Hour, N      int64
}

// Hourly returns what came in since a time, by source, name and hour, the earliest first.
// Leads stand under ledger.LeadName.
func (s *Store) Hourly(ctx context.Context, ws int64, since time.Time) ([]HourCount, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT source, name, hour, MAX(n) FROM (
			SELECT source, name, hour, destination, SUM(n) AS n FROM counters WHERE ws = $1 AND hour >= $2 AND state = $3 GROUP BY source, name, hour, destination
		) each GROUP BY source, name, hour ORDER BY source, name, hour`, ws, hourOf(since), received)
	list, err := collect(rows, err, func(row scanner) (c HourCount, err error) {
		err = row.Scan(&c.Source, &c.Name, &c.Hour, &c.N)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("count what came by the hour: %w", err)
	}
	return list, nil
}

// HourlyMoves returns how many leads were moved since a time, by the source that told of
// it, the stage and the hour in which it was told, the earliest first. History and what
// was no news do not count.
func (s *Store) HourlyMoves(ctx context.Context, ws int64, since time.Time) ([]HourCount, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT source, stage, id FROM stage_changes WHERE ws = $1 AND id >= $2 AND field = '' AND effect NOT IN ($3, $4) ORDER BY source, stage, id`,
		ws, int64(ledger.IDAt(since)), string(ledger.EffectHistory), string(ledger.EffectTest))
	list, err := collect(rows, err, func(row scanner) (c HourCount, err error) {
		var id ledger.ID
		err = row.Scan(&c.Source, &c.Name, &id)
		c.Hour, c.N = hourOf(id.Time()), 1
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("count moves by the hour: %w", err)
	}
	return list, nil
}
