package admin

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

const (
	defaultWithin = 24 * time.Hour
	maxWithin     = 90 * 24 * time.Hour
)

// Deadline is what will be too late soon: what is not done with of one event for one
// destination, for one reason.
type Deadline struct {
	Destination string        `json:"destination"` // a dataset's id, or a CRM's name
	Event       string        `json:"event"`       // (lead) is a lead on its way into a CRM
	State       ledger.State  `json:"state"`
	Reason      ledger.Reason `json:"reason"`
	Sentence    string        `json:"sentence"`
	Count       int64         `json:"count"`
	FirstAt     time.Time     `json:"first_at"` // when the first of them is lost
	LeftS       int64         `json:"left_s"`   // until then, in seconds
	NextStep    string        `json:"next_step"`
}

// Deadlines lists what would be lost by its deadline within a time such as 24h, which is
// also what "" means, the soonest first.
func (a *Admin) Deadlines(ctx context.Context, by Actor, ws, within string) ([]Deadline, error) {
	w, err := a.enter(by, Read, "look at deadlines", ws)
	if err != nil {
		return nil, err
	}
	span := defaultWithin
	if within != "" {
		if span, err = time.ParseDuration(within); err != nil || span <= 0 || span > maxWithin {
			return nil, &Error{Code: Invalid, Message: "within is not a span of time: " + strconv.Quote(within) + ".", Fix: "Write it as 24h or 90m, up to 2160h."}
		}
	}
	now := a.c.Clock.Now()
	found, err := a.c.Store.Deadlines(ctx, w.ID, now, now.Add(span))
	if err != nil {
		return nil, err
	}
	list := make([]Deadline, 0, len(found))
	for _, d := range found {
		list = append(list, Deadline{
			Destination: d.Destination, Event: d.Name, State: d.State, Reason: d.Reason, Sentence: d.Reason.Sentence(), Count: d.Count,
			FirstAt: d.First.UTC(), LeftS: int64(d.First.Sub(now).Round(time.Second) / time.Second), NextStep: d.Reason.Remedy(d.Destination),
		})
	}
	return list, nil
}

// Deadlines is Actions.Deadlines at the server.
func (c *Client) Deadlines(ctx context.Context, by Actor, ws, within string) ([]Deadline, error) {
	var list []Deadline
	err := c.get(ctx, by, "/deadlines", ws, url.Values{"within": {within}}, &list)
	return list, err
}
