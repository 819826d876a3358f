package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// DestinationView is a destination as a person looks at it.
type DestinationView struct {
	ledger.Destination
	Removed bool // gone from the settings; its events stay in the book
	Lane    ledger.Lane
	Waiting int64 // deliveries in the lane
	Held    int64 // deliveries that are held by themselves, aside of the lane
}

// Destinations lists a workspace's destinations with their lanes, the removed ones
// last. The numbers are the book's.
func (s *Store) Destinations(ctx context.Context, ws int64) ([]DestinationView, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT d.id, d.ws, d.kind, d.name, d.live, d.created_at, d.archived_at,
			(SELECT COALESCE(SUM(c.n), 0) FROM counters c WHERE c.ws = d.ws AND c.destination = d.id AND c.state = 'waiting'),
			(SELECT COALESCE(SUM(c.n), 0) FROM counters c WHERE c.ws = d.ws AND c.destination = d.id AND c.state = 'held')
		FROM destinations d WHERE d.ws = $1 ORDER BY CASE WHEN d.archived_at = 0 THEN 0 ELSE 1 END, d.id`, ws)
	if err != nil {
		return nil, fmt.Errorf("list destinations: %w", err)
	}
	defer rows.Close()
	var list []DestinationView
	for rows.Next() {
		var v DestinationView
		var live, created, archived int64
		if err := rows.Scan(&v.ID, &v.Workspace, &v.Kind, &v.Name, &live, &created, &archived, &v.Waiting, &v.Held); err != nil {
			return nil, fmt.Errorf("list destinations: %w", err)
		}
		v.Name = plainName(v.Name)
		v.Live, v.CreatedAt, v.Removed = live != 0, ledger.FromMicros(created), archived != 0
		list = append(list, v)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list destinations: %w", err)
	}
	for i := range list {
		if list[i].Lane, err = s.Lane(ctx, list[i].ID); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Attempt is one request that carried a delivery, with its answer.
type Attempt struct {
	At      time.Time // when it was claimed, just before the request
	Outcome string    // sent, retry, refused, split, held, lost; "" while it is under way
	Events  int       // how many events the request carried
	Answer  ledger.Answer
}

const (
	attemptBatches = 5000 // requests of the destination that are looked through
	maxAttempts    = 20
	clockMargin    = time.Minute // by which the clocks of two nodes may differ
)

// Attempts lists the requests that carried a delivery, newest first, at most 20. It
// looks through the destination's requests since the event came, so it is for a
// person who looks at one event.
func (s *Store) Attempts(ctx context.Context, ws int64, delivery ledger.ID) ([]Attempt, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT b.claimed_at, b.outcome, b.events, b.status, b.code, b.subcode, b.trace_id, b.message, b.members
		FROM batches b JOIN deliveries d ON d.destination = b.destination JOIN events e ON e.id = d.id - d.id % 64
		LEFT JOIN results r ON r.id = d.id
		WHERE d.id = $1 AND e.ws = $2 AND b.id > $3 AND (COALESCE(r.batch, 0) = 0 OR b.id <= r.batch) ORDER BY b.id DESC LIMIT $4`,
		int64(delivery), ws, int64(ledger.IDAt(delivery.Time().Add(-clockMargin))), attemptBatches)
	if err != nil {
		return nil, fmt.Errorf("list the attempts of delivery %s: %w", delivery, err)
	}
	defer rows.Close()
	var list []Attempt
	for len(list) < maxAttempts && rows.Next() {
		var a Attempt
		var at int64
		var members []byte
		if err := rows.Scan(&at, &a.Outcome, &a.Events, &a.Answer.Status, &a.Answer.Code, &a.Answer.Subcode,
			&a.Answer.TraceID, &a.Answer.Message, &members); err != nil {
			return nil, fmt.Errorf("list the attempts of delivery %s: %w", delivery, err)
		}
		if a.At = ledger.FromMicros(at); slices.Contains(unpackIDs(members), delivery) {
			list = append(list, a)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list the attempts of delivery %s: %w", delivery, err)
	}
	return list, nil
}
