package store

import (
	"context"
	"fmt"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// CopiesQuery asks for the copies of events that were received in a span of time, the
// newest first.
type CopiesQuery struct {
	Workspace int64
	From, To  time.Time
	Views     Views
	Limit     int
}

// Views says whether looks at pages are asked for. There are hundreds for each other
// event, and those must not be crowded out.
type Views int

// Which events are asked for.
const (
	WithViews Views = iota
	NoViews
	OnlyViews
)

func (q *CopiesQuery) args() []any {
	return []any{q.Workspace, int64(ledger.IDAt(q.From)), int64(ledger.IDAt(q.To)), q.Limit, int(q.Views)}
}

// ServerCopy is an event that a dataset of Meta's has from a server, or will have.
type ServerCopy struct {
	ID           ledger.ID // of the delivery
	Dataset      string
	Source       string
	Name         string
	EventID      string
	Time         time.Time
	ActionSource string
	SentAt       time.Time // zero: not yet
}

// Sightings returns what the tag saw in browsers.
func (s *Store) Sightings(ctx context.Context, q CopiesQuery) ([]ledger.Sighting, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT uid, id, source, dataset, name, event_id, at, page, fbp, external, visitor, own, blocked
		FROM sightings WHERE ws = $1 AND id >= $2 AND id < $3 AND ($5 = 0 OR (LOWER(name) = 'pageview') = ($5 = 2)) ORDER BY id DESC LIMIT $4`, q.args()...)
	list, err := collect(rows, err, func(row scanner) (g ledger.Sighting, err error) {
		var uid []byte
		var at, own, blocked int64
		err = row.Scan(&uid, &g.ID, &g.Source, &g.Dataset, &g.Name, &g.EventID, &at, &g.Page, &g.FBP, &g.External, &g.Visitor, &own, &blocked)
		copy(g.UID[:], uid)
		g.Workspace, g.At, g.Own, g.Blocked = q.Workspace, ledger.FromMicros(at), own != 0, blocked != 0
		return g, err
	})
	if err != nil {
		return nil, fmt.Errorf("read sightings: %w", err)
	}
	return list, nil
}

// FirstSighting returns when the tag first saw anything, as far as it is still known;
// zero: it never did.
func (s *Store) FirstSighting(ctx context.Context, ws int64) (time.Time, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT id FROM sightings WHERE ws = $1 ORDER BY id LIMIT 1`, ws)
	list, err := collect(rows, err, scanID[ledger.ID])
	if err != nil {
		return time.Time{}, fmt.Errorf("read the first sighting: %w", err)
	}
	if len(list) == 0 {
		return time.Time{}, nil
	}
	return list[0].Time(), nil
}

// ServerCopies returns what Meta's datasets have from servers, or will have: what was
// skipped or refused is not of them.
func (s *Store) ServerCopies(ctx context.Context, q CopiesQuery) ([]ServerCopy, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT d.id, t.name, e.source, e.name, e.event_id, e.time, e.action_source, COALESCE(r.at, 0)
		FROM deliveries d
		JOIN events e ON e.id = d.id / 64 * 64
		JOIN destinations t ON t.id = d.destination
		LEFT JOIN results r ON r.id = d.id
		WHERE e.ws = $1 AND d.id >= $2 AND d.id < $3 AND t.kind = 'meta' AND (r.id IS NULL OR r.state = 'sent')
			AND ($5 = 0 OR (LOWER(e.name) = 'pageview') = ($5 = 2))
		ORDER BY d.id DESC LIMIT $4`, q.args()...)
	list, err := collect(rows, err, func(row scanner) (c ServerCopy, err error) {
		var at, sent int64
		err = row.Scan(&c.ID, &c.Dataset, &c.Source, &c.Name, &c.EventID, &at, &c.ActionSource, &sent)
		c.Dataset, c.Time = plainName(c.Dataset), ledger.FromMicros(at)
		if sent != 0 {
			c.SentAt = ledger.FromMicros(sent)
		}
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("read what servers sent: %w", err)
	}
	return list, nil
}

const payloadsAtOnce = 500

// Payloads passes on what is sent with deliveries of a workspace, opened. What was
// cleared is left out.
func (s *Store) Payloads(ctx context.Context, ws int64, ids []ledger.ID, each func(id ledger.ID, payload []byte)) error {
	query := `SELECT id, payload FROM deliveries WHERE payload IS NOT NULL AND id IN ` + s.dialect.idList //nolint:gosec // a constant of forks.go
	for len(ids) > 0 {
		n := min(len(ids), payloadsAtOnce)
		type row struct {
			id      ledger.ID
			payload []byte
		}
		rows, err := s.read.QueryContext(ctx, query, idListArg(ids[:n]))
		list, err := collect(rows, err, func(in scanner) (r row, err error) {
			err = in.Scan(&r.id, &r.payload)
			return r, err
		})
		if err != nil {
			return fmt.Errorf("read payloads: %w", err)
		}
		var sealed []sealedPayload
		for _, r := range list {
			if lead, part, ok := splitPayload(r.payload); ok {
				sealed = append(sealed, sealedPayload{ws, lead, r.id, part, func(plain []byte) { each(r.id, plain) }})
				continue
			}
			each(r.id, r.payload)
		}
		if err := s.openPayloads(ctx, sealed); err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}
