package store

import (
	"context"
	"fmt"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// BookQuery limits the book to a part; zero values mean all.
type BookQuery struct {
	Workspace   int64
	From, To    time.Time // receipt, in whole hours: from is rounded down, to up
	Destination int64
	Source      string
	Name        string
	Leads       bool // the second book: leads on their way into CRMs
}

// Book returns what became of everything received. Rows that wait behind a held
// lane read as held for the lane's reason. Unexplained is what the two sides of the
// equation differ by; it is zero unless the store has a fault, and never hidden.
func (s *Store) Book(ctx context.Context, q BookQuery) (*ledger.Book, error) {
	from, to := int64(0), int64(1)<<40
	if !q.From.IsZero() {
		from = hourOf(q.From)
	}
	if !q.To.IsZero() {
		to = hourOf(q.To.Add(time.Hour - time.Microsecond))
	}
	rows, err := s.read.QueryContext(ctx, `SELECT c.destination, COALESCE(l.held, ''), c.state, c.reason, SUM(c.n) FROM counters c
		LEFT JOIN lanes l ON l.destination = c.destination
		WHERE (c.name = $7) = ($8 = 1) AND c.ws = $1 AND c.hour >= $2 AND c.hour < $3 AND (CAST($4 AS bigint) = 0 OR c.destination = $4) AND ($5 = '' OR c.source = $5) AND ($6 = '' OR c.name = $6)
		GROUP BY c.destination, COALESCE(l.held, ''), c.state, c.reason`, q.Workspace, from, to, q.Destination, q.Source, q.Name,
		ledger.LeadName, flag(q.Leads))
	if err != nil {
		return nil, fmt.Errorf("read the book: %w", err)
	}
	defer rows.Close()
	b := ledger.NewBook()
	for rows.Next() {
		var destination, n int64
		var held, state, reason string
		if err := rows.Scan(&destination, &held, &state, &reason, &n); err != nil {
			return nil, fmt.Errorf("read the book: %w", err)
		}
		switch {
		case state == received:
			b.Received += n
		case state == string(ledger.Waiting) && held != "":
			b.Add(ledger.Held, ledger.Reason(held), n)
		default:
			b.Count(state, ledger.Reason(reason), n)
		}
	}
	return b, rows.Err()
}

// Recount counts the deliveries themselves, for comparing with the counters: the
// result is what Book must say about the whole time.
func (s *Store) Recount(ctx context.Context, ws int64) (*ledger.Book, error) {
	b := ledger.NewBook()
	rows, err := s.read.QueryContext(ctx, `SELECT COALESCE(r.state, CASE WHEN p.priority = 9 OR l.held <> '' THEN 'held' ELSE 'waiting' END),
			COALESCE(r.reason, CASE WHEN p.priority = 9 THEN p.held ELSE l.held END), COUNT(*)
		FROM events e JOIN deliveries d ON d.id > e.id AND d.id < e.id + 64
		LEFT JOIN results r ON r.id = d.id
		LEFT JOIN pending p ON r.id IS NULL AND p.destination = d.destination AND p.priority IN (1, 5, 9) AND p.id = d.id
		LEFT JOIN lanes l ON l.destination = p.destination
		WHERE e.ws = $1 AND (r.id IS NOT NULL OR p.id IS NOT NULL) GROUP BY 1, 2`, ws)
	if err != nil {
		return nil, fmt.Errorf("recount: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var state, reason string
		var n int64
		if err := rows.Scan(&state, &reason, &n); err != nil {
			return nil, fmt.Errorf("recount: %w", err)
		}
		b.Count(state, ledger.Reason(reason), n)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("recount: %w", err)
	}
	err = s.read.QueryRowContext(ctx, `SELECT COUNT(*) FROM events e JOIN deliveries d ON d.id > e.id AND d.id < e.id + 64 WHERE e.ws = $1`, ws).Scan(&b.Received)
	if err != nil {
		return nil, fmt.Errorf("recount: %w", err)
	}
	return b, nil
}
