package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/ledger"
)

// ErrNotFound says that the workspace has no such row.
var ErrNotFound = errors.New("not found")

// EventView is an event with all that became of it.
type EventView struct {
	ID           ledger.ID
	Source       string
	Name         string
	EventID      string
	Time         time.Time
	ActionSource string
	Came         capi.KeySet
	Consent      string // what was known about consent; "": nothing
	Deliveries   []DeliveryView
}

// DeliveryView is one delivery of an EventView.
type DeliveryView struct {
	ID          ledger.ID
	Destination string // the dataset id; "" if there was none
	Kind        string
	State       ledger.State
	Reason      ledger.Reason
	Tries       int
	SettledAt   time.Time // zero: not done with
	DueAt       time.Time // waiting: not before this
	Deadline    time.Time
	Kept        capi.KeySet
	Notes       capi.Problems
	Payload     []byte // nil: none, or purged
	Answer      ledger.Answer
}

// State sums the deliveries up: the one that most needs a look.
func (v *EventView) State() ledger.State {
	order := []ledger.State{ledger.Held, ledger.Failed, ledger.Waiting, ledger.Sent, ledger.Skipped}
	best := len(order) - 1
	for _, d := range v.Deliveries {
		if i := slices.Index(order, d.State); i >= 0 && i < best {
			best = i
		}
	}
	return order[best]
}

const viewQuery = `SELECT d.id, COALESCE(t.name, ''), COALESCE(t.kind, ''), d.kept, d.notes, d.payload, d.deadline,
		COALESCE(r.state, ''), COALESCE(r.reason, ''), COALESCE(r.tries, p.tries, 0), COALESCE(r.at, 0),
		COALESCE(p.held, ''), COALESCE(p.due_at, 0), COALESCE(p.unknown_since, 0), COALESCE(l.held, ''), COALESCE(l.paused, ''), COALESCE(l.due_at, 0),
		COALESCE(b.status, l.status, 0), COALESCE(b.code, l.code, 0), COALESCE(b.subcode, l.subcode, 0),
		COALESCE(b.trace_id, l.trace_id, ''), COALESCE(b.message, l.message, '')
	FROM deliveries d
	LEFT JOIN destinations t ON t.id = d.destination
	LEFT JOIN results r ON r.id = d.id
	LEFT JOIN batches b ON b.id = r.batch
	LEFT JOIN pending p ON r.id IS NULL AND p.destination = d.destination AND p.priority IN (1, 5, 9) AND p.id = d.id
	LEFT JOIN lanes l ON r.id IS NULL AND l.destination = d.destination
	WHERE d.id > $1 AND d.id < $1 + 64 ORDER BY d.id`

// Event returns one event of a workspace with its deliveries.
func (s *Store) Event(ctx context.Context, ws int64, id ledger.ID) (*EventView, error) {
	v := &EventView{ID: id.Event()}
	var at, came int64
	err := s.read.QueryRowContext(ctx, `SELECT source, name, event_id, time, action_source, came, consent FROM events WHERE id = $1 AND ws = $2`,
		int64(v.ID), ws).Scan(&v.Source, &v.Name, &v.EventID, &at, &v.ActionSource, &came, &v.Consent)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read event %s: %w", id, err)
	}
	v.Time, v.Came = ledger.FromMicros(at), capi.KeySet(came) //nolint:gosec // a bit set keeps its bits
	rows, err := s.read.QueryContext(ctx, viewQuery, int64(v.ID))
	if v.Deliveries, err = collect(rows, err, scanDelivery); err != nil {
		return nil, fmt.Errorf("read the deliveries of event %s: %w", id, err)
	}
	var sealed []sealedPayload
	for i := range v.Deliveries {
		d := &v.Deliveries[i]
		if lead, part, ok := splitPayload(d.Payload); ok {
			d.Payload = nil
			sealed = append(sealed, sealedPayload{ws, lead, d.ID, part, func(plain []byte) { d.Payload = plain }})
		}
	}
	return v, s.openPayloads(ctx, sealed)
}

func scanDelivery(row scanner) (DeliveryView, error) {
	var d DeliveryView
	var kept, deadline, at, due, unknown, laneDue int64
	var text, held, laneHeld, paused string
	err := row.Scan(&d.ID, &d.Destination, &d.Kind, &kept, &text, &d.Payload, &deadline,
		&d.State, &d.Reason, &d.Tries, &at, &held, &due, &unknown, &laneHeld, &paused, &laneDue,
		&d.Answer.Status, &d.Answer.Code, &d.Answer.Subcode, &d.Answer.TraceID, &d.Answer.Message)
	if err != nil {
		return d, err
	}
	d.Destination = plainName(d.Destination)
	d.Kept = capi.KeySet(kept) //nolint:gosec // a bit set keeps its bits
	d.Deadline, d.SettledAt, d.DueAt = ledger.FromMicros(deadline), ledger.FromMicros(at), ledger.FromMicros(max(due, laneDue))
	if text != "" {
		if err := json.Unmarshal([]byte(text), &d.Notes); err != nil {
			return d, fmt.Errorf("read the notes: %w", err)
		}
	}
	if d.State != "" {
		return d, nil
	}
	d.State, d.Reason = ledger.Waiting, ledger.Queued
	switch {
	case held != "":
		d.State, d.Reason = ledger.Held, ledger.Reason(held)
	case laneHeld != "":
		d.State, d.Reason = ledger.Held, ledger.Reason(laneHeld)
	case unknown != 0:
		d.Reason = ledger.AnswerLost
	case paused != "":
		d.Reason = ledger.Reason(paused)
	case d.Tries > 0:
		d.Reason = ledger.Retrying
	}
	if d.State == ledger.Waiting && d.Reason == ledger.Queued {
		d.Answer = ledger.Answer{} // the lane's last answer was to others
	}
	return d, nil
}

// Latest returns the newest events of a workspace, newest first.
func (s *Store) Latest(ctx context.Context, ws int64, limit int) ([]*EventView, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT id FROM events WHERE ws = $1 ORDER BY id DESC LIMIT $2`, ws, limit)
	ids, err := collect(rows, err, scanID[ledger.ID])
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	list := make([]*EventView, 0, len(ids))
	for _, id := range ids {
		v, err := s.Event(ctx, ws, id)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}
