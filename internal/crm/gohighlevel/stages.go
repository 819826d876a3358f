package gohighlevel

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/url"
	"time"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

var (
	_ crm.StageLister = (*CRM)(nil)
	_ crm.StagePoller = (*CRM)(nil)
)

const (
	pageSize  = 100
	maxPages  = 20_000                 // ends a list that never ends: some two hours, a tenth of a day's calls
	longWait  = 30 * time.Second       // how long a list waits for calls to be allowed again
	readPause = 120 * time.Millisecond // between the readings of a list: 100 calls in 10 s are allowed
)

// Stages lists the stages of every pipeline, then the statuses in which an opportunity can
// be, whatever its stage.
func (c *CRM) Stages(ctx context.Context, a crm.Account) ([]ledger.Stage, error) {
	type named struct {
		ID     word    `json:"id"`
		Name   word    `json:"name"`
		Stages []named `json:"stages"`
	}
	var list struct {
		Pipelines []named `json:"pipelines"`
	}
	path := "/opportunities/pipelines?locationId=" + url.QueryEscape(a.Options.Text("location_id"))
	if err := c.read(ctx, a, "the pipelines", path, &list); err != nil {
		return nil, err
	}
	var stages []ledger.Stage
	for _, p := range list.Pipelines {
		for i, s := range p.Stages {
			stages = append(stages, ledger.Stage{Pipeline: string(p.ID), PipelineLabel: string(p.Name), ID: string(s.ID), Label: string(s.Name), Position: i})
		}
	}
	for i, s := range []struct{ id, label word }{{"open", "Open"}, {"won", "Won"}, {"lost", "Lost"}, {"abandoned", "Abandoned"}} {
		stages = append(stages, ledger.Stage{ID: string(s.id), Label: string(s.label), Position: i, Meaning: meaning(s.id), Field: statusField})
	}
	return stages, nil
}

// opportunity is one as the search and a reading give it.
type opportunity struct {
	ID            word   `json:"id"`
	Value         word   `json:"monetaryValue"`
	Pipeline      word   `json:"pipelineId"`
	Stage         word   `json:"pipelineStageId"`
	Status        word   `json:"status"`
	Created       word   `json:"createdAt"`
	Updated       word   `json:"updatedAt"`
	StageChanged  word   `json:"lastStageChangeAt"`
	StatusChanged word   `json:"lastStatusChangeAt"`
	ContactID     word   `json:"contactId"`
	Contact       person `json:"contact"`
}

// Moves yields where each opportunity that was changed since stands: its stage and, where it
// is won or lost, its status. The search cannot be asked for changes, so it is gone through
// whole; the contacts are read only of what has changed. The first time the values come, too,
// in which watched fields of contacts stand.
func (c *CRM) Moves(ctx context.Context, a crm.Account, since time.Time) iter.Seq2[ledger.StageChange, error] {
	return func(yield func(ledger.StageChange, error) bool) {
		if since.IsZero() {
			for change, err := range c.baseline(ctx, a) {
				if !yield(change, err) || err != nil {
					return
				}
			}
		}
		for o, err := range c.opportunities(ctx, a) {
			var moves []ledger.StageChange
			if err == nil {
				moves = o.moves(since)
			}
			if err == nil && len(moves) > 0 {
				err = c.describe(ctx, a, &o, moves)
			}
			if err != nil {
				yield(ledger.StageChange{}, err)
				return
			}
			for _, m := range moves {
				if !yield(m, nil) {
					return
				}
			}
		}
	}
}

// moves are those of the opportunity's stage and status that were reached since. Their keys
// are the same each time: a stage whose moment is not told counts once.
func (o *opportunity) moves(since time.Time) []ledger.StageChange {
	whole := ledger.StageChange{
		Records: records("opportunity", o.ID, "contact", cmp.Or(o.ContactID, o.Contact.ID)), DealID: string(o.ID), Pipeline: string(o.Pipeline),
		Amount: amount(o.Value), CreatedAt: moment(o.Created),
	}
	var list []ledger.StageChange
	add := func(c ledger.StageChange, changed word) {
		c.At = moment(cmp.Or(changed, o.Updated, o.Created))
		if c.Stage != "" && o.ID != "" && !c.At.Before(since) {
			c.Key = "poll " + string(o.ID) + " " + c.Field + " " + c.Pipeline + " " + c.Stage + " " + string(changed)
			list = append(list, c)
		}
	}
	stage, status := whole, whole
	stage.Stage = string(o.Stage)
	add(stage, o.StageChanged)
	status.Field, status.Stage, status.Meaning = statusField, string(o.Status), meaning(o.Status)
	if m := status.Meaning; m == ledger.MeaningWon || m == ledger.MeaningLost {
		add(status, o.StatusChanged)
	}
	return list
}

// describe reads whose the moves are; of a contact that is gone the search's own words are
// taken.
func (c *CRM) describe(ctx context.Context, a crm.Account, o *opportunity, moves []ledger.StageChange) error {
	names, err := c.names(ctx, a)
	if err != nil {
		return err
	}
	p := &o.Contact
	if id := string(cmp.Or(o.ContactID, o.Contact.ID)); id != "" {
		if err := c.rest(ctx); err != nil {
			return err
		}
		var whole *person
		err := c.patient(ctx, func() (err error) {
			whole, err = c.person(ctx, a, id)
			return err
		})
		if err != nil && !crm.IsGone(err) {
			return err
		}
		if err == nil {
			p = whole
		}
	}
	for i := range moves {
		p.tell(a, names, &moves[i])
	}
	return nil
}

// opportunities lists all of the location.
func (c *CRM) opportunities(ctx context.Context, a crm.Account) iter.Seq2[opportunity, error] {
	q := url.Values{"location_id": {a.Options.Text("location_id")}, "limit": {"100"}} // not locationId, as elsewhere
	return pages(ctx, c, a, "the opportunities", "/opportunities/search", q, func(p *page) []opportunity { return p.Opportunities })
}

// patient makes a reading again that came in a window that was full: a long list would
// otherwise begin anew each time.
func (c *CRM) patient(ctx context.Context, read func() error) error {
	for try := 1; ; try++ {
		err := read()
		e, ok := errors.AsType[*crm.ReadError](err)
		if !ok {
			return err
		}
		full, ok := e.Outcome.(ledger.RetryAt)
		if !ok || full.Reason != ledger.Throttled || full.Wait > c.patience || try == 3 {
			return err
		}
		if err := wait(ctx, full.Wait); err != nil {
			return err
		}
	}
}

// rest waits a little, so that a list leaves calls for leads.
func (c *CRM) rest(ctx context.Context) error { return wait(ctx, c.pause) }

func wait(ctx context.Context, long time.Duration) error {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
