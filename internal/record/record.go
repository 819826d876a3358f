// Package record is the only way into the ledger. It takes events as intake, pull
// and admin read them, applies the workspace's rules and the person's consent,
// makes the payload for each destination, and hands all of it to the store in one
// transaction.
//
// Takes requests, gives back what became of each event once it is on disk; may fail
// by the database being out of reach or too busy, and then nothing was written. It
// never calls out.
package record

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/platform"
	"github.com/capiloop/capiloop/internal/store"
)

// Config is what a Recorder works with.
type Config struct {
	Store     *store.Store
	Platforms map[string]platform.Platform // by kind
	IDs       *ledger.IDs
	Clock     ledger.Clock
	// Fingerprint is the installation's key for recognising a person without keeping
	// anything about them.
	Fingerprint []byte
}

// Recorder records. It is safe for concurrent use.
type Recorder struct {
	c      Config
	norms  norms
	prints ledger.Fingerprints
	robots crawlers
}

// New returns a Recorder.
func New(c Config) *Recorder {
	return &Recorder{c: c, prints: ledger.NewFingerprints(c.Fingerprint)}
}

// Item is one event of a request.
type Item struct {
	Event   *capi.Event // changed by recording
	Dataset string      // "" goes to every dataset of the workspace
	Consent ledger.Decision
	// TestEventCode goes before the dataset's own; "" leaves that in force.
	TestEventCode string
	PartnerAgent  string // the caller's; "": ours is sent
	// Problems were found while the event was read; an error among them rejects it.
	// Event may then be nil.
	Problems capi.Problems
	// Unsent is why its receiver lets the event go nowhere: it is written down by name,
	// id and time. None: it goes.
	Unsent ledger.Reason
	// Form tells that the event is a form's: a lead with the same id may come by the form.
	Form bool
}

// Request is what one caller sends at once.
type Request struct {
	Workspace *config.Workspace
	Source    string
	Items     []Item
	Sightings []Sighting // what the tag saw, written with the events
	// AllOrNothing records nothing if one event is rejected, as Graph does.
	AllOrNothing bool

	// IdempotencyKey and Body (the SHA-256 of the request) make it safe to repeat;
	// Answer makes the answer that is kept. All empty: no such promise was asked for.
	IdempotencyKey string
	Body           [32]byte
	Answer         func([]Result) (status int, body []byte)

	withdrawn store.Withdrawn
}

// Result is what became of one event.
type Result struct {
	ID        ledger.ID // zero if rejected; for a duplicate the first one's
	EventName string
	EventID   string
	State     ledger.State
	Reason    ledger.Reason
	Duplicate bool
	Conflict  bool          // the same event_id for another person
	Rejected  capi.Problems // why it was not taken; nil if it was
	Warnings  capi.Problems
}

// Outcome is what became of a request.
type Outcome struct {
	Results []Result
	// Replayed is set when the request was a repeat under its Idempotency-Key; Status
	// and Saved then are the first answer, and Results is nil. They are set for every
	// request with a key.
	Replayed bool
	Status   int
	Saved    []byte
}

// Record records the events of a request and returns when they are on disk. Good
// events are taken even if others are bad, unless AllOrNothing is set. It returns
// store.ErrBusy when the caller should come back, and store.ErrIdempotencyKeyReused.
func (r *Recorder) Record(ctx context.Context, q Request) (*Outcome, error) {
	now := r.c.Clock.Now()
	results := make([]Result, len(q.Items))
	release := r.c.Store.HoldConsent()
	defer release()
	var err error
	if q.withdrawn, err = r.c.Store.Withdrawn(ctx, q.Workspace.ID); err != nil {
		return nil, fmt.Errorf("record for workspace %s: %w", q.Workspace.Name, err)
	}
	rec := &store.Recording{Workspace: q.Workspace.ID}
	var at []int // index in results of each event of rec
	for i := range q.Items {
		e := r.prepare(&q, &q.Items[i], &results[i], now)
		if e == nil {
			rec.Refused = append(rec.Refused, store.Refused{At: now, Source: q.Source, Name: shortName(results[i].EventName)})
			continue
		}
		rec.Events = append(rec.Events, e)
		at = append(at, i)
	}
	if q.AllOrNothing && len(rec.Refused) > 0 {
		rec.Events, at = nil, nil
	}
	fill := func(recorded []store.Recorded) []Result {
		for n, done := range recorded {
			res := &results[at[n]]
			res.ID, res.Duplicate, res.Conflict = done.ID, done.Duplicate, done.Conflict
			if done.Held != ledger.None {
				res.State, res.Reason = ledger.Held, done.Held
			}
		}
		return results
	}
	if q.IdempotencyKey != "" {
		rec.Idem = &store.Idempotent{
			Key: q.IdempotencyKey, Body: q.Body, At: now,
			Answer: func(recorded []store.Recorded) (int, []byte) { return q.Answer(fill(recorded)) },
		}
	}
	rec.Sightings = r.sightings(&q)
	if len(rec.Events) == 0 && len(rec.Refused) == 0 && len(rec.Sightings) == 0 && rec.Idem == nil {
		return &Outcome{Results: results}, nil
	}
	recorded, err := r.c.Store.Record(ctx, rec)
	if err != nil {
		return nil, fmt.Errorf("record for workspace %s: %w", q.Workspace.Name, err)
	}
	if i := rec.Idem; i != nil {
		if i.Err != nil {
			return nil, i.Err
		}
		if i.Replayed {
			return &Outcome{Replayed: true, Status: i.Status, Saved: i.Saved}, nil
		}
		return &Outcome{Results: fill(recorded), Status: i.Status, Saved: i.Saved}, nil
	}
	done := fill(recorded)
	if err := r.joinForms(ctx, q.Workspace, q.Items, done, now); err != nil {
		return nil, err
	}
	return &Outcome{Results: done}, nil
}

// shortName keeps a hostile event name from filling the counters.
func shortName(name string) string {
	if len(name) > 100 { // PostgreSQL refuses half a letter
		name = strings.ToValidUTF8(name[:100], "")
	}
	return name
}

// prepare makes a ledger event of an item, or rejects it and returns nil.
func (r *Recorder) prepare(q *Request, item *Item, res *Result, now time.Time) *ledger.Event {
	ws, e := q.Workspace, item.Event
	if e != nil {
		res.EventName, res.EventID = e.EventName, e.EventID
	}
	if item.Problems.Err() != nil || e == nil {
		res.Rejected = item.Problems
		return nil
	}
	if e.EventName == ledger.LeadName {
		res.EventName, res.Rejected = "", capi.Problems{reservedName()}
		return nil
	}
	targets, problem := route(ws, item.Dataset)
	if problem != nil {
		res.Rejected = capi.Problems{*problem}
		return nil
	}
	res.Warnings = append(res.Warnings, item.Problems...)
	ahead := complete(e, now, &res.Warnings)
	out := &ledger.Event{
		ID: r.c.IDs.Next(), Workspace: ws.ID, Source: q.Source, Time: time.Unix(e.EventTime, 0), ActionSource: string(e.ActionSource),
		Came: e.UserData.Keys(), Consent: item.Consent.String(),
	}
	if !r.address(q, item, out, targets, res, now, ahead) {
		return nil
	}
	out.Name, out.EventID, out.Price = e.EventName, e.EventID, r.price(q, e)
	res.EventName, res.EventID = e.EventName, e.EventID
	res.State, res.Reason = sumUp(out.Deliveries)
	return out
}

// address makes the deliveries of an event; false says that the event is rejected.
func (r *Recorder) address(q *Request, item *Item, out *ledger.Event, targets []*config.Dataset,
	res *Result, now time.Time, ahead bool,
) bool {
	ws, e := q.Workspace, item.Event
	if why := r.unsent(item); why != ledger.None {
		return writeOff(e, out, targets, res, why)
	}
	rules := platform.Rules{Locale: capi.Locale{Country: ws.Country, Now: now}, Keys: ws.Keys, People: len(q.withdrawn) > 0}
	if ahead { // it waits until its time has come, and is judged by that time
		rules.Locale.Now = time.Unix(e.EventTime, 0)
	}
	encoded := make(map[string]platform.Encoded, 1)
	for n, ds := range targets {
		x, ok := encoded[ds.Kind]
		if !ok {
			copied := *e
			x = r.c.Platforms[ds.Kind].Encode(&copied, rules)
			*e = copied
			encoded[ds.Kind] = x
			if errs := onlyErrors(x.Problems); len(errs) > 0 {
				res.Rejected = errs
				return false
			}
			res.Warnings = append(res.Warnings, x.Problems...)
		}
		d := ledger.Delivery{
			ID: out.ID.Delivery(n + 1), Destination: ds.ID, State: ledger.Waiting, Payload: x.Payload, Kept: x.Kept, Notes: x.Problems,
			Priority: ledger.PriorityOf(e), Deadline: ledger.Deadline(out.Time, e.ActionSource),
			Envelope: ledger.Envelope{TestCode: cmp.Or(item.TestEventCode, ds.TestEventCode), Agent: item.PartnerAgent},
		}
		if _, most := r.c.Platforms[ds.Kind].Limits(); len(d.Payload) > most {
			res.Rejected = capi.Problems{tooLarge(most)}
			return false
		}
		switch {
		case !item.Consent.Consent.Allows(ws.ConsentRequired), hasWithdrawn(ws, q.withdrawn, x.People):
			skip(&d, ledger.NoConsent)
		case !ds.Live:
			skip(&d, ledger.NotLive)
		case ahead:
			d.State, d.Reason, d.DueAt = ledger.Held, ledger.ClockAhead, out.Time
		case item.Form && receives(ws, e.EventName):
			d.DueAt = now.Add(formWait)
		}
		out.Person = r.prints.Person(x.PersonBy, x.Person)
		out.Deliveries = append(out.Deliveries, d)
	}
	if len(targets) == 0 {
		out.Deliveries = append(out.Deliveries, nowhere(out.ID))
	}
	return true
}

// unsent says why an event goes nowhere, whatever is in it.
func (r *Recorder) unsent(item *Item) ledger.Reason {
	if r.robots.visits(item.Event) {
		return ledger.Crawler
	}
	return item.Unsent
}

// writeOff makes the deliveries of an event that goes nowhere. Nothing of it but its
// name, id and time is looked at.
func writeOff(e *capi.Event, out *ledger.Event, targets []*config.Dataset, res *Result, why ledger.Reason) bool {
	if e.EventName = strings.TrimSpace(e.EventName); e.EventName == "" {
		res.Rejected = capi.Problems{{
			Field: "event_name", Code: capi.ProblemNoEventName, Severity: capi.SeverityError, Reason: "the event has no name", Fix: "give a standard name (Lead, Purchase …) or one of your own",
		}}
		return false
	}
	out.Came = 0
	for n, ds := range targets {
		d := ledger.Delivery{ID: out.ID.Delivery(n + 1), Destination: ds.ID, Priority: ledger.Ordinary, Deadline: ledger.Deadline(out.Time, e.ActionSource)}
		if skip(&d, why); why == ledger.Expired {
			fail(&d, why)
		}
		out.Deliveries = append(out.Deliveries, d)
	}
	if len(targets) == 0 {
		out.Deliveries = []ledger.Delivery{nowhere(out.ID)}
	}
	return true
}

// nowhere is the delivery of an event whose workspace has no destination.
func nowhere(id ledger.ID) ledger.Delivery {
	d := ledger.Delivery{ID: id.Delivery(1), Priority: ledger.Ordinary}
	skip(&d, ledger.NoDestination)
	return d
}

// skip empties a delivery that will not be sent: what does not leave is not kept.
func skip(d *ledger.Delivery, why ledger.Reason) {
	d.State, d.Reason, d.Payload, d.Kept, d.Notes = ledger.Skipped, why, nil, 0, nil
}

// sumUp returns the state that the caller should know of: the least good one.
func sumUp(list []ledger.Delivery) (ledger.State, ledger.Reason) {
	for _, s := range []ledger.State{ledger.Held, ledger.Waiting, ledger.Skipped, ledger.Failed} {
		for _, d := range list {
			if d.State == s {
				return s, d.Reason
			}
		}
	}
	return ledger.Waiting, ledger.None
}

func onlyErrors(ps capi.Problems) capi.Problems {
	var errs capi.Problems
	for _, p := range ps {
		if p.Severity == capi.SeverityError {
			errs = append(errs, p)
		}
	}
	return errs
}
