package admin

import (
	"context"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/record"
)

// maxDryDays is how far back a dry run looks.
const maxDryDays = 400

// DryRunQuery asks what rules would have sent.
type DryRunQuery struct {
	Days  int           `json:"days"`
	Rules []ledger.Rule `json:"rules,omitempty"` // to be tried out
	Other bool          `json:"other,omitempty"` // Rules are meant, be there none; else those in force
}

// DryRun is what rules would have sent of the last days. Nothing of it was written.
type DryRun struct {
	record.DryRun

	Days    int         `json:"days"`
	Changes []DryChange `json:"changes"` // from the rules in force to those tried out; null: those in force were looked at
}

// DryEvent is what would have been sent of one event.
type DryEvent = record.DryEvent

// DryChange is the difference that rules make for an event.
type DryChange struct {
	Event string `json:"event"`
	Now   int    `json:"now"`  // would be sent by the rules in force
	Then  int    `json:"then"` // by those tried out
}

// PastRecorder looks at what rules would have made of the past.
type PastRecorder interface {
	DryRun(ctx context.Context, ws *config.Workspace, rules []ledger.Rule, since time.Time) (*record.DryRun, error)
}

// DryRun tells what rules would have sent of what is recorded of the last days.
func (a *Admin) DryRun(ctx context.Context, by Actor, ws string, q DryRunQuery) (*DryRun, error) {
	w, err := a.enter(by, Operate, "try rules out", ws)
	if err != nil {
		return nil, err
	}
	if q.Days < 1 || q.Days > maxDryDays {
		return nil, &Error{Code: Invalid, Message: "A dry run looks 1 to 400 days back.", Fix: "Give days from 1 to 400."}
	}
	since := a.c.Clock.Now().AddDate(0, 0, -q.Days)
	now, err := a.c.Recorder.DryRun(ctx, w, w.Rules, since)
	if err != nil || !q.Other {
		return dryRunOf(now, q.Days), err
	}
	then, err := a.c.Recorder.DryRun(ctx, w, q.Rules, since)
	if err != nil {
		return nil, err
	}
	out := dryRunOf(then, q.Days)
	out.Changes = []DryChange{}
	sent := func(r *record.DryRun, event string) (n int, there bool) {
		for i := range r.Events {
			if r.Events[i].Event == event {
				return r.Events[i].WouldSend, true
			}
		}
		return 0, false
	}
	for i := range then.Events {
		c := DryChange{Event: then.Events[i].Event, Then: then.Events[i].WouldSend}
		c.Now, _ = sent(now, c.Event)
		out.Changes = append(out.Changes, c)
	}
	for i := range now.Events {
		if _, there := sent(then, now.Events[i].Event); !there {
			out.Changes = append(out.Changes, DryChange{Event: now.Events[i].Event, Now: now.Events[i].WouldSend})
		}
	}
	return out, nil
}

func dryRunOf(r *record.DryRun, days int) *DryRun {
	if r == nil {
		return nil
	}
	r.Since = r.Since.UTC()
	return &DryRun{DryRun: *r, Days: days}
}

// DryRun is StageActions.DryRun at the server.
func (c *Client) DryRun(ctx context.Context, by Actor, ws string, q DryRunQuery) (*DryRun, error) {
	out := &DryRun{}
	if err := c.post(ctx, by, "/dry-run", ws, request{DryRun: q}, out); err != nil {
		return nil, err
	}
	return out, nil
}
