package store

import (
	"context"
	"fmt"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// Due tells a lane whether it has something to do.
type Due struct {
	Rows   bool          // something is due by itself
	Full   bool          // enough for a full request: no use in waiting for more
	NextAt time.Time     // nothing is due before then by itself; zero: nothing waits for its time
	LaneAt time.Time     // the lane pauses until then
	Held   ledger.Reason // why the lane is held
}

// fullBatch is when waiting for more is no use.
const fullBatch = 1000

// Due looks, without writing, whether a lane has anything to send now.
func (s *Store) Due(ctx context.Context, destination int64, now time.Time) (Due, error) {
	var d Due
	var at int64
	var n int
	us := ledger.Micros(now)
	err := s.read.QueryRowContext(ctx, `SELECT l.due_at, l.held, (SELECT COUNT(*) FROM (SELECT 1 FROM pending
			WHERE destination = $1 AND priority < 9 AND due_at <= $2 AND deadline > $2 LIMIT $3) AS waiting)
		FROM lanes l WHERE l.destination = $1`, destination, us, fullBatch).Scan(&at, &d.Held, &n)
	if err != nil {
		return d, fmt.Errorf("look for work of destination %d: %w", destination, err)
	}
	d.Rows, d.Full, d.LaneAt = n > 0, n >= fullBatch, ledger.FromMicros(at)
	if d.Rows {
		return d, nil
	}
	var next int64 // all that is left waits for its time: few rows
	err = s.read.QueryRowContext(ctx, `SELECT COALESCE(MIN(due_at), 0) FROM pending WHERE destination = $1 AND priority < 9 AND due_at > $2`, destination, us).Scan(&next)
	if err != nil {
		return d, fmt.Errorf("look for work of destination %d: %w", destination, err)
	}
	d.NextAt = ledger.FromMicros(next)
	return d, nil
}
