package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// MetaLeads counts the leads that Meta's ads brought a workspace since a time, and those
// of them of which any event was made. Tests and history do not count, merged ones count
// as the one that they were merged into.
func (s *Store) MetaLeads(ctx context.Context, ws int64, since time.Time) (leads, covered int64, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT COUNT(*), COALESCE(SUM(CASE WHEN EXISTS (SELECT 1 FROM fired f WHERE f.lead = l.id AND f.event <> 0) THEN 1 ELSE 0 END), 0)
		FROM leads l WHERE l.ws = $1 AND l.created_at >= $2 AND l.test = 0 AND l.history = 0 AND l.merged_into = 0
			AND (l.platform = $3 OR EXISTS (SELECT 1 FROM touches t WHERE t.lead = l.id AND t.platform = $3))`,
		ws, ledger.Micros(since), adKind).Scan(&leads, &covered)
	if err != nil {
		return 0, 0, fmt.Errorf("count the leads of Meta: %w", err)
	}
	return leads, covered, nil
}

// mostLags bounds how many moves a median is made of.
const mostLags = 10_000

// MoveLag returns how long after they happened a workspace was told of the moves that came
// in since: the median, and of how many. What was no news does not count.
func (s *Store) MoveLag(ctx context.Context, ws int64, since time.Time) (median time.Duration, n int, err error) {
	rows, err := s.read.QueryContext(ctx, `SELECT id, at FROM stage_changes WHERE ws = $1 AND id >= $2 AND effect NOT IN ($3, $4) ORDER BY id DESC LIMIT $5`,
		ws, int64(ledger.IDAt(since)), string(ledger.EffectHistory), string(ledger.EffectTest), mostLags)
	lags, err := collect(rows, err, func(row scanner) (lag time.Duration, err error) {
		var id ledger.ID
		var at int64
		err = row.Scan(&id, &at)
		return id.Time().Sub(ledger.FromMicros(at)), err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("look how late moves were told of: %w", err)
	}
	if len(lags) == 0 {
		return 0, 0, nil
	}
	slices.Sort(lags)
	return lags[len(lags)/2], len(lags), nil
}
