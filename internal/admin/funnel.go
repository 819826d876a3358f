package admin

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/report"
	"github.com/capiloop/capiloop/internal/store"
)

// byAnswer cuts a funnel by what leads answered in forms.
const byAnswer = "answer"

// funnelBy lists what a funnel can be cut by.
var funnelBy = []string{"source", "campaign", "ad", "form", byAnswer}

// mostOpened is how many leads are opened for one answer.
const mostOpened = 20_000

// FunnelQuery asks how far the leads of a span of time came. From and To are RFC 3339
// times, or dates, which begin at midnight in the workspace's time zone; "" is no limit.
type FunnelQuery struct {
	From, To string
	By       string // source, campaign, ad, form, answer; "": all in one
}

// Funnel tells how far leads came.
type Funnel = report.Funnel

// FunnelStep is an event that leads reached.
type FunnelStep = report.Step

// Funnel counts the leads that were created in a span of time by the events that they
// have reached until now.
func (a *Admin) Funnel(ctx context.Context, by Actor, ws string, q FunnelQuery) (*Funnel, error) {
	w, err := a.enter(by, Read, "look at the funnel", ws)
	if err != nil {
		return nil, err
	}
	sq := store.FunnelQuery{Workspace: w.ID}
	if sq.From, sq.To, err = parseSpan(q.From, q.To, w.Timezone); err != nil {
		return nil, err
	}
	if sq.To.IsZero() {
		sq.To = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if q.By != "" && q.By != byAnswer && !store.FunnelBy(q.By) {
		return nil, &Error{Code: Invalid, Message: "A funnel cannot be cut by " + strconv.Quote(q.By) + ".", Fix: "Use one of: " + strings.Join(funnelBy, ", ") + "."}
	}
	total, err := a.c.Store.Funnel(ctx, sq)
	if err != nil {
		return nil, err
	}
	var parts []store.FunnelCell
	switch q.By {
	case "":
	case byAnswer:
		if n, err := a.c.Store.FunnelSize(ctx, sq); err != nil || n > mostOpened {
			if err != nil {
				return nil, err
			}
			return nil, &Error{
				Code: Invalid, Message: "The span has " + strconv.FormatInt(n, 10) + " leads; for their answers each must be opened, and that is done for 20000 at most.",
				Fix: "Shorten the span with from and to.",
			}
		}
		answers := report.NewAnswers(w.Ring)
		if err := a.c.Store.FunnelLeads(ctx, sq, answers.Add); err != nil {
			return nil, err
		}
		parts = answers.Cells()
	default:
		sq.By = q.By
		if parts, err = a.c.Store.Funnel(ctx, sq); err != nil {
			return nil, err
		}
	}
	return report.NewFunnel(w.Rules, total, parts), nil
}

// parseSpan reads a span of time whose dates are of a time zone.
func parseSpan(from, to string, zone *time.Location) (begin, end time.Time, err error) {
	if begin, err = parseTimeIn("from", from, zone); err != nil {
		return begin, end, err
	}
	if end, err = parseTimeIn("to", to, zone); err != nil {
		return begin, end, err
	}
	if !begin.IsZero() && !end.IsZero() && !begin.Before(end) {
		return begin, end, errSpan()
	}
	return begin, end, nil
}

func errSpan() error {
	return &Error{Code: Invalid, Message: "from is not before to.", Fix: "Give a span such as from=2026-11-01&to=2026-12-01; to itself is left out."}
}

// Funnel is Actions.Funnel at the server.
func (c *Client) Funnel(ctx context.Context, by Actor, ws string, q FunnelQuery) (*Funnel, error) {
	f := &Funnel{}
	if err := c.get(ctx, by, "/funnel", ws, url.Values{"from": {q.From}, "to": {q.To}, "by": {q.By}}, f); err != nil {
		return nil, err
	}
	return f, nil
}
