package admin

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// What can be wrong with a path, under names that say it.
var (
	errExists   = fs.ErrExist
	errNoFolder = fs.ErrNotExist
	errDenied   = fs.ErrPermission
)

const maxLatest = 500

// EventByText returns an event by its id as an answer wrote it. An id that is none,
// and another workspace's, is not found.
func (a *Admin) EventByText(ctx context.Context, by Actor, ws, text string) (*Event, error) {
	id, err := ledger.ParseID(text)
	if err != nil {
		if _, err := a.enter(by, Read, "look at events", ws); err != nil {
			return nil, err
		}
		return nil, noEvent(text)
	}
	return a.Event(ctx, by, ws, id)
}

// Event returns an event with every answer that its deliveries got.
func (a *Admin) Event(ctx context.Context, by Actor, ws string, id ledger.ID) (*Event, error) {
	w, err := a.enter(by, Read, "look at events", ws)
	if err != nil {
		return nil, err
	}
	e, err := a.eventView(ctx, w.ID, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, noEvent(id.String())
	}
	return e, err
}

// eventView reads an event with every answer that its deliveries got.
func (a *Admin) eventView(ctx context.Context, ws int64, id ledger.ID) (*Event, error) {
	v, err := a.c.Store.Event(ctx, ws, id)
	if err != nil {
		return nil, err
	}
	e := eventOf(v)
	for i, d := range v.Deliveries {
		attempts, err := a.c.Store.Attempts(ctx, ws, d.ID)
		if err != nil {
			return nil, err
		}
		for _, t := range attempts {
			answer := answerOf(t.Answer)
			answer.At, answer.Outcome, answer.Events = when(t.At), t.Outcome, t.Events
			e.Deliveries[i].Answers = append(e.Deliveries[i].Answers, *answer)
		}
		// A request that was divided is no try of the row, but it carried it all the same.
		e.Deliveries[i].Attempts = max(d.Tries, len(attempts))
	}
	return e, nil
}

func noEvent(text string) error {
	if len(text) > 40 {
		text = text[:40] + "…"
	}
	return &Error{
		Code: NotFound, Message: "There is no event " + strconv.Quote(text) + " in this workspace.",
		Fix: "Use the id that the answer to POST /v1/events gave (thirteen letters and digits), not the event_id.",
	}
}

// Latest returns the newest events without the answers of each attempt.
func (a *Admin) Latest(ctx context.Context, by Actor, ws string, limit int) ([]*Event, error) {
	w, err := a.enter(by, Read, "look at events", ws)
	if err != nil {
		return nil, err
	}
	views, err := a.c.Store.Latest(ctx, w.ID, min(max(limit, 1), maxLatest))
	if err != nil {
		return nil, err
	}
	list := make([]*Event, 0, len(views))
	for _, v := range views {
		list = append(list, eventOf(v))
	}
	return list, nil
}

func eventOf(v *store.EventView) *Event {
	e := &Event{
		ID: v.ID.String(), Name: v.Name, EventID: v.EventID, EventTime: v.Time.Unix(), ActionSource: v.ActionSource, Source: v.Source,
		ReceivedAt: v.ID.Time(), State: v.State(), KeysCame: keyNames(v.Came), Consent: v.Consent, Deliveries: make([]Delivery, 0, len(v.Deliveries)),
	}
	for _, d := range v.Deliveries {
		out := Delivery{
			Destination: d.Destination, State: d.State, Reason: d.Reason, Sentence: d.Reason.Sentence(), Attempts: d.Tries,
			SettledAt: when(d.SettledAt), Deadline: when(d.Deadline), KeysKept: keyNames(d.Kept), Payload: Payload(d.Payload),
			Notes: make([]Note, 0, len(d.Notes)), Answers: []Answer{},
		}
		if d.State == ledger.Sent {
			out.SentAt, out.FBTraceID = out.SettledAt, d.Answer.TraceID
		}
		if !d.State.Final() {
			out.NextAt = when(d.DueAt)
		}
		if d.Answer != (ledger.Answer{}) {
			out.Answer = answerOf(d.Answer)
		}
		for _, n := range d.Notes {
			out.Notes = append(out.Notes, Note{Field: n.Field, Code: n.Code, Severity: n.Severity.String(), Reason: n.Reason, Fix: n.Fix})
		}
		if d.State == e.State && e.Sentence == "" {
			e.Reason, e.Sentence = d.Reason, out.Sentence
		}
		e.Deliveries = append(e.Deliveries, out)
	}
	return e
}

func answerOf(a ledger.Answer) *Answer {
	return &Answer{Status: a.Status, Code: a.Code, Subcode: a.Subcode, FBTraceID: a.TraceID, Message: a.Message}
}

func keyNames(s capi.KeySet) []string {
	if s == 0 {
		return []string{}
	}
	return strings.Split(s.String(), ",")
}

// when makes the zero time null.
func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// Ledger returns the book.
func (a *Admin) Ledger(ctx context.Context, by Actor, ws string, q LedgerQuery) (*Ledger, error) {
	w, err := a.enter(by, Read, "look at the book", ws)
	if err != nil {
		return nil, err
	}
	bq, err := a.bookQuery(ctx, w, q)
	if err != nil {
		return nil, err
	}
	b, err := a.c.Store.Book(ctx, bq)
	if err != nil {
		return nil, err
	}
	if err := a.tellBacklog(ctx, w, bq, b); err != nil {
		return nil, err
	}
	l := &Ledger{
		Received: b.Received, Sent: b.Total(ledger.Sent), Waiting: b.Total(ledger.Waiting), Held: b.Total(ledger.Held),
		Skipped: b.Total(ledger.Skipped), Failed: b.Total(ledger.Failed), Unexplained: b.Unexplained(), ByReason: []Line{},
		Beside: Beside{
			Duplicates: b.Beside[ledger.Duplicate], Rejected: b.Beside[ledger.Rejected], History: b.Beside[ledger.History],
			AlreadySent: b.Beside[ledger.AlreadySent], DuplicateConflicts: b.Beside[ledger.DuplicateConflict],
		},
	}
	for _, line := range b.Lines() {
		l.ByReason = append(l.ByReason, Line{State: line.State, Reason: line.Reason, Sentence: line.Reason.Sentence(), Count: line.Count})
	}
	return l, nil
}

// tellBacklog gives what is waiting its reason: the book does not count it, for it
// is the lane's and changes with every request.
func (a *Admin) tellBacklog(ctx context.Context, w *config.Workspace, q store.BookQuery, b *ledger.Book) error {
	waiting := b.Total(ledger.Waiting)
	if waiting == 0 {
		return nil
	}
	delete(b.By, ledger.Waiting)
	list, err := a.c.Store.Destinations(ctx, w.ID)
	if err != nil {
		return err
	}
	for _, d := range list {
		if d.Lane.Paused == ledger.None || d.Lane.Held != ledger.None || q.Destination != 0 && q.Destination != d.ID {
			continue
		}
		part := q
		part.Destination = d.ID
		behind, err := a.c.Store.Book(ctx, part)
		if err != nil {
			return err
		}
		n := min(behind.Total(ledger.Waiting), waiting) // the second look may see more
		b.Add(ledger.Waiting, d.Lane.Paused, n)
		waiting -= n
	}
	b.Add(ledger.Waiting, ledger.Queued, waiting)
	return nil
}

func (a *Admin) bookQuery(ctx context.Context, w *config.Workspace, q LedgerQuery) (store.BookQuery, error) {
	out := store.BookQuery{Workspace: w.ID, Source: q.Source, Name: q.Event}
	var err error
	if out.From, out.To, err = parseSpan(q.From, q.To, time.UTC); err != nil { // the book counts in whole hours of UTC
		return out, err
	}
	d, err := a.destination(ctx, w, q.Destination)
	out.Destination = d.ID
	return out, err
}

func parseTimeIn(name, text string, zone *time.Location) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		// A year before the first event or after the last one is a slip of the pen.
		if t, err := time.ParseInLocation(layout, text, zone); err == nil && t.Year() >= 2000 && t.Year() < 2200 {
			return t, nil
		}
	}
	return time.Time{}, &Error{
		Code: Invalid, Message: name + " is not a time: " + strconv.Quote(text) + ".",
		Fix: "Write it as 2026-11-30T14:00:00Z (RFC 3339; in a URL a + is written as %2B) or as a date, 2026-11-30, which begins at midnight (" + zone.String() + ").",
	}
}

// Findings lists what was noticed.
func (a *Admin) Findings(ctx context.Context, by Actor, ws string) ([]Finding, error) {
	w, err := a.enter(by, Read, "look at findings", ws)
	if err != nil {
		return nil, err
	}
	found, err := a.c.Store.Findings(ctx, w.ID)
	if err != nil {
		return nil, err
	}
	list := make([]Finding, 0, len(found))
	for _, f := range found {
		x := f.Explain()
		out := Finding{
			ID: string(f.Kind) + ":" + f.Subject, Kind: f.Kind, Severity: x.Severity, Owner: x.Owner, State: "open", Title: x.Title,
			Cause: x.Cause, NextStep: x.NextStep, Since: f.Since,
		}
		if !f.FixedAt.IsZero() {
			out.State = "fixed"
		}
		if x.Owner == ledger.Client {
			out.MessageForClient = messageForClient(f)
		}
		list = append(list, out)
	}
	return list, nil
}

// messageForClient is what an agency can send on as it stands.
func messageForClient(f ledger.Finding) string {
	return "Hello, since " + f.Since.UTC().Format("2 January 2006, 15:04 MST") + " we cannot send your events to the Meta dataset " + f.Subject +
		" any more, most likely because it is no longer shared with us. Please open Business settings, Data sources, Datasets, choose " + f.Subject +
		", press Assign partner and share it with us again. Nothing has been lost so far: what waits is sent as soon as the dataset is shared, " +
		"as long as that happens within a week."
}

// Destinations lists where a workspace's events go, removed ones last.
func (a *Admin) Destinations(ctx context.Context, by Actor, ws string) ([]Destination, error) {
	w, err := a.enter(by, Read, "look at destinations", ws)
	if err != nil {
		return nil, err
	}
	views, err := a.c.Store.Destinations(ctx, w.ID)
	if err != nil {
		return nil, err
	}
	list := make([]Destination, 0, len(views))
	for _, v := range views {
		if !v.Removed || v.Waiting+v.Held > 0 { // one that is gone and empty is nobody's business
			list = append(list, a.destinationOf(v))
		}
	}
	return list, nil
}

func (a *Admin) destinationOf(v store.DestinationView) Destination {
	l := v.Lane
	d := Destination{ID: v.Name, Kind: v.Kind, State: Sending, Waiting: v.Waiting, Held: v.Held, LastAcceptedAt: when(l.AcceptedAt)}
	later := l.DueAt.After(a.c.Clock.Now())
	switch {
	case v.Removed:
		d.State, d.Reason, d.Since = Removed, ledger.DestinationGone, when(l.HeldSince)
		d.Sentence = "It was removed from the configuration; what waits for it stays until you confirm that it is skipped."
	case l.Held != ledger.None:
		d.State, d.Reason, d.Since, d.NextAt = OnHold, l.Held, when(l.HeldSince), when(l.DueAt)
		d.Sentence = l.Held.Sentence()
	case !v.Live:
		d.State, d.Sentence = Off, "It is switched off; events for it are not sent."
	case l.Paused != ledger.None || later:
		d.State, d.Reason, d.NextAt = Paused, cmp.Or(l.Paused, ledger.Backlog), when(l.DueAt)
		d.Sentence = "It did not take the last request; it is tried again by itself."
		if later {
			d.Sentence = "It did not take the last request; it is tried again at " + l.DueAt.UTC().Format("15:04:05 MST") + "."
		}
	case v.Waiting > 0:
		d.Sentence = "It takes events; what waits leaves within seconds."
	case l.AcceptedAt.IsZero():
		d.Sentence = "Nothing was sent to it yet."
	default:
		d.Sentence = "It takes events."
	}
	if (d.State == OnHold || d.State == Paused) && l.Answer != (ledger.Answer{}) {
		d.Answer = answerOf(l.Answer)
	}
	return d
}
