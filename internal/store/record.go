package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/ledger"
)

// Recording is what one request wants written: events, all in one transaction.
type Recording struct {
	Workspace int64
	Events    []*ledger.Event
	Refused   []Refused         // counted as rejected, not stored
	Sightings []ledger.Sighting // each is written once, however often it comes
	Idem      *Idempotent       // nil: the request came without a key

	result []Recorded
	seen   int // sightings that were new
}

// Refused is an event that was turned away at the door.
type Refused struct {
	At           time.Time
	Source, Name string
}

// Recorded tells what became of one event of a Recording.
type Recorded struct {
	ID ledger.ID // of the event that is stored; for a duplicate the first one's
	// Duplicate is set when every destination had the event already.
	Duplicate bool
	// Conflict is set when one of them had it for another person: a cached id.
	Conflict bool
	Held     ledger.Reason // why the guard holds it; None: it does not
}

var (
	eventsTable = newTable("events",
		"id:bigint ws:bigint source:text name:text event_id:text time:bigint action_source:text came:bigint person:bigint consent:text", "")
	deliveriesTable = newTable("deliveries",
		"id:bigint destination:bigint kept:bigint priority:bigint deadline:bigint test_code:text agent:text notes:text payload:bytea", "")
	pendingTable = newTable("pending",
		"destination:bigint priority:bigint id:bigint ws:bigint source:text name:text size:bigint due_at:bigint deadline:bigint "+
			"tries:bigint unknown_since:bigint suspect_since:bigint held:text test_code:text agent:text", "")
	resultsTable = newTable("results",
		"id:bigint state:text reason:text batch:bigint tries:bigint at:bigint", "")
	seenTable = newTable("seen",
		"key:bytea id:bigint person:bigint released:bigint", "ON CONFLICT (key) DO NOTHING")
)

// Record writes events with their deliveries and returns once they are on disk.
// The result has one entry per event, in order. An event whose every delivery is a
// repeat is not stored again; the result names the first one.
//
// With an idempotency key that was used before, nothing is written and
// ErrIdempotent… or the earlier answer comes back; see Idempotent.
func (s *Store) Record(ctx context.Context, r *Recording) ([]Recorded, error) {
	if err := s.writer.record(ctx, r); err != nil {
		return nil, fmt.Errorf("record events: %w", err)
	}
	return r.result, nil
}

func (r *Recording) size() int64 {
	n := int64(512 + 512*len(r.Sightings))
	for _, e := range r.Events {
		for i := range e.Deliveries {
			n += int64(len(e.Deliveries[i].Payload)) + 256
		}
	}
	return n
}

// seenKey is what a repeat is recognised by, per destination.
func seenKey(destination int64, name, eventID string) []byte {
	h := sha256.New()
	h.Write(strconv.AppendInt(nil, destination, 10))
	h.Write([]byte{0})
	h.Write([]byte(name))
	h.Write([]byte{0})
	h.Write([]byte(eventID))
	return h.Sum(nil)[:16]
}

// pair is one delivery on its way into the tables.
type pair struct {
	event    *ledger.Event
	delivery *ledger.Delivery
	recorded *Recorded
	key      []byte
	shared   bool // a lead's, under the id of the tag's copy
}

// recordAll writes the recordings of a group.
func (s *Store) recordAll(ctx context.Context, tx *tx, recs []*Recording) error {
	var pairs []pair
	var again []*Recording // same Idempotency-Key as another one of this group
	keys := make(map[string]bool)
	for n, r := range recs {
		if r.Idem != nil {
			k := strconv.FormatInt(r.Workspace, 10) + " " + r.Idem.Key
			if keys[k] {
				again = append(again, r)
				recs[n] = &Recording{}
				continue
			}
			keys[k] = true
		}
		r.result = make([]Recorded, len(r.Events))
		if replayed, err := s.replay(ctx, tx, r.Workspace, r.Idem); err != nil {
			return err
		} else if replayed {
			continue
		}
		for _, refused := range r.Refused {
			tx.counts.beside(r.Workspace, refused.At, 0, refused.Source, refused.Name, ledger.Rejected)
		}
		for i, e := range r.Events {
			r.result[i].ID = e.ID
			for j := range e.Deliveries {
				pairs = append(pairs, pair{event: e, delivery: &e.Deliveries[j], recorded: &r.result[i], key: seenKey(e.Deliveries[j].Destination, e.Name, e.EventID)})
			}
		}
	}
	fresh, err := s.recognise(ctx, tx, pairs)
	if err == nil {
		err = s.guardPrices(ctx, tx, fresh)
	}
	if err == nil {
		err = s.insert(ctx, tx, fresh)
	}
	if err != nil {
		return err
	}
	if err := s.insertSightings(ctx, tx, recs); err != nil {
		return err
	}
	for _, r := range recs {
		if err := s.remember(ctx, tx, r); err != nil {
			return err
		}
	}
	if len(again) > 0 {
		return s.recordAll(ctx, tx, again)
	}
	return nil
}

// recognise returns the pairs that are new and counts the others as duplicates.
func (s *Store) recognise(ctx context.Context, tx *tx, pairs []pair) ([]pair, error) {
	rows := make([][]any, len(pairs))
	for i, p := range pairs {
		rows[i] = []any{p.key, int64(p.delivery.ID), p.event.Person, flag(p.delivery.State == ledger.Skipped)}
	}
	inserted, err := s.insertNew(ctx, tx, seenTable, rows, 1)
	if err != nil {
		return nil, err
	}
	fresh := pairs[:0]
	first := make(map[*Recorded]ledger.ID)
	stored := make(map[*Recorded]bool)
	for _, p := range pairs {
		if !inserted[int64(p.delivery.ID)] {
			known, err := s.repeat(ctx, tx, p)
			if err != nil {
				return nil, err
			}
			if known != 0 {
				first[p.recorded] = known.Event()
				continue
			}
		}
		stored[p.recorded] = true
		fresh = append(fresh, p)
	}
	for r, id := range first {
		if !stored[r] {
			r.ID, r.Duplicate = id, true
		}
	}
	return fresh, nil
}

// repeat handles a delivery whose key is taken. It returns the id of the delivery
// that holds the key, or 0 after taking over a released one.
func (s *Store) repeat(ctx context.Context, tx *tx, p pair) (ledger.ID, error) {
	var id, person, released int64
	if err := tx.row(ctx, `SELECT id, person, released FROM seen WHERE key = $1`, []any{p.key}, &id, &person, &released); err != nil {
		return 0, fmt.Errorf("look up a repeated event: %w", err)
	}
	if released == 1 && p.delivery.State != ledger.Skipped {
		if refused, err := refusedBefore(ctx, tx, p, id); err != nil || refused {
			return ledger.ID(id), err
		}
		_, err := tx.exec(ctx, `UPDATE seen SET id = $2, person = $3, released = 0 WHERE key = $1`, p.key, int64(p.delivery.ID), p.event.Person)
		if err != nil {
			return 0, fmt.Errorf("take over a released event id: %w", err)
		}
		return 0, nil
	}
	what := ledger.Duplicate
	if ledger.OtherPerson(person, p.event.Person) {
		what = ledger.DuplicateConflict
		p.recorded.Conflict = true
		if err := raise(ctx, tx, ledger.Finding{
			Workspace: p.event.Workspace, Kind: ledger.FindingDuplicateConflict, Subject: p.event.Source + "/" + p.event.Name, At: p.event.ID.Time(),
		}); err != nil {
			return 0, err
		}
	}
	tx.counts.beside(p.event.Workspace, p.event.ID.Time(), p.delivery.Destination, p.event.Source, p.event.Name, what)
	return ledger.ID(id), nil
}

// refusedBefore tells whether the copy of a lead's event that came first was of a visitor
// who refused, or took consent back: then the lead's goes nowhere either, and is counted
// as the second copy.
func refusedBefore(ctx context.Context, tx *tx, p pair, first int64) (bool, error) {
	if !p.shared {
		return false, nil
	}
	var n int64
	err := tx.row(ctx, `SELECT COUNT(*) FROM results r JOIN events e ON e.id = r.id - r.id % 64
		WHERE r.id = $1 AND r.state = 'skipped' AND r.reason = $2 AND e.consent <> '' AND e.consent NOT LIKE 'undecided%'`, []any{first, string(ledger.NoConsent)}, &n)
	if err != nil {
		return false, fmt.Errorf("look up the first copy of an event: %w", err)
	}
	if n > 0 {
		tx.counts.beside(p.event.Workspace, p.event.ID.Time(), p.delivery.Destination, p.event.Source, p.event.Name, ledger.Duplicate)
	}
	return n > 0, nil
}

// insert writes new deliveries and their events.
func (s *Store) insert(ctx context.Context, tx *tx, fresh []pair) error {
	events := make([][]any, 0, len(fresh))
	var last *ledger.Event
	for _, p := range fresh {
		if e := p.event; e != last {
			last = e
			events = append(events, []any{
				int64(e.ID), e.Workspace, e.Source, e.Name, e.EventID, ledger.Micros(e.Time), e.ActionSource,
				int64(e.Came), e.Person, e.Consent, //nolint:gosec // a bit set keeps its bits
			})
		}
	}
	if err := s.dialect.bulk(ctx, tx, eventsTable, events); err != nil {
		return err
	}
	return s.insertDeliveries(ctx, tx, fresh)
}

// insertDeliveries writes new deliveries and queues those that are to be sent.
func (s *Store) insertDeliveries(ctx context.Context, tx *tx, fresh []pair) error {
	var deliveries, pending, results [][]any
	found := make(map[ledger.Finding]time.Time)
	for _, p := range fresh {
		e, d := p.event, p.delivery
		deliveries = append(deliveries, []any{
			int64(d.ID), d.Destination, int64(d.Kept), int64(d.Priority), ledger.Micros(d.Deadline), d.Envelope.TestCode, d.Envelope.Agent, notes(d.Notes), d.Payload, //nolint:gosec // a bit set keeps its bits
		})
		tx.counts.arrived(e, d)
		if d.State.Final() {
			results = append(results, []any{int64(d.ID), string(d.State), string(d.Reason), int64(0), int64(0), ledger.Micros(e.ID.Time())})
			continue
		}
		held, priority := "", d.Priority
		if d.State == ledger.Held {
			held, priority = string(d.Reason), ledger.Parked
			if d.Reason == ledger.ClockAhead {
				found[clockFinding(e.Workspace, e.Source, e.Name)] = e.ID.Time()
			} else if slices.Contains(guarded, d.Reason) {
				found[ledger.Finding{Workspace: e.Workspace, Kind: ledger.FindingGuard, Subject: e.Source, Evidence: string(d.Reason)}] = e.ID.Time()
			}
		}
		pending = append(pending, []any{
			d.Destination, int64(priority), int64(d.ID), e.Workspace, e.Source, e.Name, int64(len(d.Payload)),
			ledger.Micros(d.DueAt), ledger.Micros(d.Deadline), int64(0), int64(0), int64(0), held, d.Envelope.TestCode, d.Envelope.Agent,
		})
	}
	for _, t := range []struct {
		table *table
		rows  [][]any
	}{{deliveriesTable, deliveries}, {pendingTable, pending}, {resultsTable, results}} {
		if err := s.dialect.bulk(ctx, tx, t.table, t.rows); err != nil {
			return err
		}
	}
	for f, at := range found {
		f.At = at
		if err := raise(ctx, tx, f); err != nil {
			return err
		}
	}
	return s.notify(ctx, tx, pending)
}

// guarded are the reasons for which the guard asks a person.
var guarded = []ledger.Reason{ledger.BulkChange, ledger.ValueOutlier, ledger.TestName}

// clockFinding says that a source's clock is ahead.
func clockFinding(ws int64, source, name string) ledger.Finding {
	return ledger.Finding{Workspace: ws, Kind: ledger.FindingClock, Subject: source + "/" + name}
}

// notes keeps the problems of a delivery as JSON; none, as nearly always, is "".
func notes(ps capi.Problems) string {
	if len(ps) == 0 {
		return ""
	}
	b, err := json.Marshal(ps)
	if err != nil { // a Problem is texts and a number
		return ""
	}
	return string(b)
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
