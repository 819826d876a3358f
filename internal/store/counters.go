package store

import (
	"context"
	"fmt"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// received is the state under which every delivery is counted once, at its receipt:
// the left side of the book's equation.
const received = "received"

// cell is one counter of the book.
type cell struct {
	ws, hour, destination       int64
	source, name, state, reason string
}

// counts collects what a transaction changes in the book, so that each counter is
// written once per transaction.
type counts map[cell]int64

func hourOf(t time.Time) int64 { return t.Unix() / 3600 }

// arrived counts a delivery that was just recorded.
func (c counts) arrived(e *ledger.Event, d *ledger.Delivery) {
	k := cell{ws: e.Workspace, hour: hourOf(e.ID.Time()), destination: d.Destination, source: e.Source, name: e.Name}
	k.state = received
	c[k]++
	k.state, k.reason = string(d.State), bookReason(d.State, d.Reason)
	c[k]++
}

// beside counts what made no delivery.
func (c counts) beside(ws int64, at time.Time, destination int64, source, name string, what ledger.Beside) {
	c[cell{ws: ws, hour: hourOf(at), destination: destination, source: source, name: name, state: string(what)}]++
}

// moved counts a delivery that went from one state to another.
func (c counts) moved(k cell, from ledger.State, fromReason ledger.Reason, to ledger.State, toReason ledger.Reason) {
	k.state, k.reason = string(from), bookReason(from, fromReason)
	c[k]--
	k.state, k.reason = string(to), bookReason(to, toReason)
	c[k]++
}

// bookReason leaves out why something is waiting: that follows from its lane and
// changes too often to be counted.
func bookReason(s ledger.State, r ledger.Reason) string {
	if s == ledger.Waiting || s == ledger.Sent {
		return ""
	}
	return string(r)
}

func (t *tx) flushCounts(ctx context.Context) error {
	for k, n := range t.counts {
		if n == 0 {
			continue
		}
		if err := t.later(ctx, `INSERT INTO counters (ws, hour, destination, source, name, state, reason, n)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
			ON CONFLICT (ws, hour, destination, source, name, state, reason) DO UPDATE SET n = counters.n + excluded.n`,
			k.ws, k.hour, k.destination, k.source, k.name, k.state, k.reason, n); err != nil {
			return fmt.Errorf("count: %w", err)
		}
	}
	return nil
}
