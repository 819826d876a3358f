package kommo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

var _ crm.StagePoller = (*CRM)(nil)

const (
	pageSize   = 50                     // Kommo allows 250 and advises 50
	lastPage   = 20_000                 // ends a list that never ends
	eventPages = 100                    // so much of the history is read at once
	historyOf  = 90 * 24 * time.Hour    // what is older is no longer told stage by stage
	readPause  = 300 * time.Millisecond // between the readings of a list: 7 calls a second are allowed, and leads need some
)

// event is one move of the account's history, or that a field was changed.
type event struct {
	id, status, pipeline, from, by string
	at                             int64

	field       string // not "": the watched field that was changed
	values, had []choice
}

// Moves yields the moves since, as the account's history has them, each lead's in their
// order; a lead without any there tells the stage in which it stands. Leads come in the
// order of their last change.
func (c *CRM) Moves(ctx context.Context, a crm.Account, since time.Time) iter.Seq2[ledger.StageChange, error] {
	return func(yield func(ledger.StageChange, error) bool) {
		watch, err := c.watchedIDs(ctx, a)
		if err != nil {
			yield(ledger.StageChange{}, err)
			return
		}
		history, err := c.history(ctx, a, since, watch)
		if err != nil {
			yield(ledger.StageChange{}, err)
			return
		}
		code, err := c.currencyOf(ctx, a)
		if err != nil {
			yield(ledger.StageChange{}, err)
			return
		}
		for l, err := range c.changed(ctx, a, since) {
			if err != nil {
				yield(ledger.StageChange{}, err)
				return
			}
			for _, m := range l.moves(history[l.lead.ID.String()], since, crm.Watched(a)) {
				l.lead.tell(a, l.contact, &m)
				if m.Amount != "" {
					m.Currency = code
				}
				if !yield(m, nil) {
					return
				}
			}
		}
	}
}

// standing is a lead of the list with its contact.
type standing struct {
	lead    readLead
	contact *readContact
}

// moves are a lead's, out of the history, else the one that brought it where it stands. The
// moment of that is not told, so it counts once for each stage.
func (s *standing) moves(history []event, since time.Time, watch []string) []ledger.StageChange {
	id := s.lead.ID.String()
	whole := ledger.StageChange{Records: []string{"lead:" + id}, DealID: id}
	var list, fields []ledger.StageChange
	for _, e := range history {
		switch {
		case e.at < since.Unix():
		case e.field != "":
			fields = append(fields, e.reached(&s.lead, whole)...)
		default:
			list = append(list, ledger.StageChange{
				Key: moveKey(id, e.status, strconv.FormatInt(e.at, 10)), Records: whole.Records, DealID: id,
				Pipeline: e.pipeline, Stage: e.status, Meaning: meaning(e.status), From: e.from, By: e.by, At: time.Unix(e.at, 0).UTC(),
			})
		}
	}
	if since.IsZero() {
		fields = s.lead.baseline(watch, whole)
	}
	if len(list) == 0 {
		list = s.stands()
	}
	return append(list, fields...)
}

// stands is the move that brought the lead where it stands.
func (s *standing) stands() []ledger.StageChange {
	id, status := s.lead.ID.String(), s.lead.Status.String()
	if status == "" {
		return nil
	}
	at := s.lead.Updated
	if m := meaning(status); m == ledger.MeaningWon || m == ledger.MeaningLost {
		at = cmp.Or(s.lead.Closed, at)
	}
	return []ledger.StageChange{{
		Key: moveKey(id, status, "in "+s.lead.Pipeline.String()), Records: []string{"lead:" + id}, DealID: id,
		Pipeline: s.lead.Pipeline.String(), Stage: status, Meaning: meaning(status), At: moment(at.String()),
	}}
}

// changed lists the leads that were changed since, with their contacts: two calls a page.
func (c *CRM) changed(ctx context.Context, a crm.Account, since time.Time) iter.Seq2[standing, error] {
	return func(yield func(standing, error) bool) {
		q := url.Values{"with": {"contacts"}, "limit": {strconv.Itoa(pageSize)}, "order[updated_at]": {"asc"}}
		if !since.IsZero() && since.Unix() > 0 {
			q.Set("filter[updated_at][from]", strconv.FormatInt(since.Unix(), 10))
		}
		for page := 1; page <= lastPage; page++ {
			q.Set("page", strconv.Itoa(page))
			var answer struct {
				Embedded struct {
					Leads []readLead `json:"leads"`
				} `json:"_embedded"`
				Links links `json:"_links"`
			}
			_, err := c.read(ctx, a, "the leads", "/leads?"+q.Encode(), &answer)
			var contacts map[string]*readContact
			if err == nil {
				contacts, err = c.contacts(ctx, a, answer.Embedded.Leads)
			}
			if err != nil {
				yield(standing{}, err)
				return
			}
			for _, l := range answer.Embedded.Leads {
				if !l.Deleted && !yield(standing{l, contacts[l.contact()]}, nil) {
					return
				}
			}
			if answer.Links.Next == nil || len(answer.Embedded.Leads) == 0 {
				return
			}
			if err := c.rest(ctx); err != nil {
				yield(standing{}, err)
				return
			}
		}
	}
}

type links struct {
	Next *struct{} `json:"next"`
}

// contacts reads the main contacts of leads in one call.
func (c *CRM) contacts(ctx context.Context, a crm.Account, leads []readLead) (map[string]*readContact, error) {
	q, found := url.Values{"limit": {"250"}}, map[string]*readContact{}
	for _, l := range leads {
		if id := l.contact(); id != "" && !slices.Contains(q["filter[id][]"], id) {
			q.Add("filter[id][]", id)
		}
	}
	if len(q["filter[id][]"]) == 0 {
		return found, nil
	}
	if err := c.rest(ctx); err != nil {
		return nil, err
	}
	var answer struct {
		Embedded struct {
			Contacts []*readContact `json:"contacts"`
		} `json:"_embedded"`
	}
	if _, err := c.read(ctx, a, "the contacts", "/contacts?"+q.Encode(), &answer); err != nil {
		return nil, err
	}
	for _, x := range answer.Embedded.Contacts {
		if x != nil {
			found[x.ID.String()] = x
		}
	}
	return found, nil
}

// history reads the moves since, by lead and in their order, and the changes of the watched
// fields. A baseline needs none, and a token that may not read them has none.
func (c *CRM) history(ctx context.Context, a crm.Account, since time.Time, watch map[int64]string) (map[string][]event, error) {
	if since.Before(time.Now().Add(-historyOf)) {
		return nil, nil
	}
	q := url.Values{"filter[type][]": {"lead_status_changed"}, "filter[created_at][from]": {strconv.FormatInt(since.Unix(), 10)}}
	for _, id := range slices.Sorted(maps.Keys(watch)) {
		q.Add("filter[type][]", eventOf(id))
	}
	return c.events(ctx, a, q, watch)
}

// events reads a part of the history, by lead and in its order; nil where the account has
// none.
func (c *CRM) events(ctx context.Context, a crm.Account, q url.Values, watch map[int64]string) (map[string][]event, error) {
	history := map[string][]event{}
	q.Set("limit", "100")
	for page := 1; page <= eventPages; page++ {
		q.Set("page", strconv.Itoa(page))
		more, err := c.eventPage(ctx, a, q, watch, history)
		if noHistory(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		if err := c.rest(ctx); err != nil {
			return nil, err
		}
	}
	for _, list := range history {
		slices.SortStableFunc(list, func(x, y event) int { return cmp.Compare(x.at, y.at) })
	}
	return history, nil
}

// noHistory tells whether the plan or the token has none.
func noHistory(err error) bool {
	r, ok := errors.AsType[*crm.ReadError](err)
	if !ok {
		return false
	}
	s := ledger.AnswerOf(r.Outcome).Status
	return s == 402 || s == 403 && holds(r.Outcome, ledger.PermissionMissing) || s == 404
}

func holds(o ledger.Outcome, reason ledger.Reason) bool {
	h, ok := o.(ledger.Hold)
	return ok && h.Reason == reason
}

// told is one event as the API gives it.
type told struct {
	Type   string      `json:"type"`
	Entity json.Number `json:"entity_id"`
	By     json.Number `json:"created_by"`
	At     json.Number `json:"created_at"`
	After  toldValues  `json:"value_after"`
	Before toldValues  `json:"value_before"`
}

type toldValues []struct {
	Status struct {
		ID       json.Number `json:"id"`
		Pipeline json.Number `json:"pipeline_id"`
	} `json:"lead_status"`
	Custom changedValue `json:"custom_field_value"`
}

// of are the values of a field.
func (v toldValues) of(field int64) []choice {
	var list []choice
	for i := range v {
		if x := v[i].Custom; string(x.Field) == number64(field) {
			list = append(list, choice{string(x.Text), string(x.Enum)})
		}
	}
	return list
}

// eventPage reads one page of the history; false: it was the last.
func (c *CRM) eventPage(ctx context.Context, a crm.Account, q url.Values, watch map[int64]string, history map[string][]event) (bool, error) {
	var answer struct {
		Embedded struct {
			Events []told `json:"events"`
		} `json:"_embedded"`
		Links links `json:"_links"`
	}
	if _, err := c.read(ctx, a, "the history", "/events?"+q.Encode(), &answer); err != nil {
		return false, err
	}
	for i := range answer.Embedded.Events {
		if e, ok := answer.Embedded.Events[i].event(watch); ok {
			history[e.id] = append(history[e.id], e)
		}
	}
	return answer.Links.Next != nil && len(answer.Embedded.Events) > 0, nil
}

// event reads a move, or the change of a watched field; false: it is neither.
func (x *told) event(watch map[int64]string) (event, bool) {
	at, err := x.At.Int64()
	e := event{id: x.Entity.String(), at: at}
	if n, ok := number(x.By.String()); ok {
		e.by = number64(n)
	}
	switch {
	case err != nil:
		return event{}, false
	case strings.HasPrefix(x.Type, "custom_field_"):
		for id, field := range watch {
			e.values, e.had = x.After.of(id), x.Before.of(id)
			if len(e.values)+len(e.had) > 0 {
				e.field = field
				return e, true
			}
		}
		return event{}, false
	case x.Type != "lead_status_changed" || len(x.After) == 0 || x.After[0].Status.ID == "":
		return event{}, false
	}
	e.status, e.pipeline = x.After[0].Status.ID.String(), x.After[0].Status.Pipeline.String()
	if len(x.Before) > 0 {
		e.from = x.Before[0].Status.ID.String()
	}
	return e, true
}

// rest waits a little, so that a list leaves calls for leads.
func (c *CRM) rest(ctx context.Context) error {
	timer := time.NewTimer(c.pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
