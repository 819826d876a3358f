package admin

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/report"
	"github.com/capiloop/capiloop/internal/store"
)

// Dedup tells how many of the browsers' and the servers' copies of events pair.
type Dedup = report.Dedup

// DedupRow is of one event name of one dataset.
type DedupRow = report.DedupRow

const (
	dedupDays = 7 // looked at where nothing is said
	day       = 24 * time.Hour
	mostDays  = int((store.SightingAge - report.MetaWindow) / day) // what is older may have lost its other half
)

// DedupQuery asks how many copies pair. Days "" are seven.
type DedupQuery struct {
	Days           string
	Dataset, Event string // "": all
}

// Dedup compares what browsers and servers reported in the last days.
func (a *Admin) Dedup(ctx context.Context, by Actor, ws string, q DedupQuery) (*Dedup, error) {
	w, err := a.enter(by, Read, "look at deduplication", ws)
	if err != nil {
		return nil, err
	}
	days := dedupDays
	if q.Days != "" {
		if days, err = strconv.Atoi(q.Days); err != nil || days < 1 || days > mostDays {
			return nil, &Error{Code: Invalid, Message: "days is not a number from 1 to " + strconv.Itoa(mostDays) + ".", Fix: "Give one, such as 7. What browsers did is kept for 14 days."}
		}
	}
	now := a.c.Clock.Now()
	d, err := a.meter().Measure(ctx, w, now.Add(-time.Duration(days)*day), now)
	if err != nil {
		return nil, err
	}
	d.Rows = slices.DeleteFunc(d.Rows, func(r DedupRow) bool {
		return q.Dataset != "" && r.Dataset != q.Dataset || q.Event != "" && ledger.EventSpelling(r.Event) != ledger.EventSpelling(q.Event)
	})
	if len(d.Rows) == 0 && d.NextStep == "" {
		d.NextStep = "No such event of such a dataset was seen; leave --dataset and --event out to see all."
	}
	return d, nil
}

func (a *Admin) meter() report.Meter { return report.Meter{Store: a.c.Store, Prints: a.c.Prints} }

// Dedup is Actions.Dedup at the server.
func (c *Client) Dedup(ctx context.Context, by Actor, ws string, q DedupQuery) (*Dedup, error) {
	d := &Dedup{}
	if err := c.get(ctx, by, "/dedup", ws, url.Values{"days": {q.Days}, "dataset": {q.Dataset}, "event": {q.Event}}, d); err != nil {
		return nil, err
	}
	return d, nil
}

// DedupTestQuery asks what became of a form that was sent once.
type DedupTestQuery struct {
	URL   string    // of the form's page
	Event string    // "": any that is more than a look at a page
	Since time.Time // as the first answer said; zero: begin
}

// DedupTest is what became of a form that was sent once.
type DedupTest struct {
	Workspace string     `json:"workspace"`
	Source    string     `json:"source"`
	Since     time.Time  `json:"since"` // to be given with the next question
	Browser   *DedupCopy `json:"browser"`
	Server    *DedupCopy `json:"server"`
	Paired    bool       `json:"paired"`
	Sentence  string     `json:"sentence"`
	NextStep  string     `json:"next_step"`
}

// DedupCopy is one side's copy of an event.
type DedupCopy struct {
	Event   string    `json:"event"`
	EventID string    `json:"event_id"`
	Kind    string    `json:"kind"` // of the id
	At      time.Time `json:"at"`
	Dataset string    `json:"dataset"` // the Pixel's number, or where the server sends to
	From    string    `json:"from"`
	Page    string    `json:"page"`
}

// Both tells whether both copies have come.
func (t *DedupTest) Both() bool { return t.Browser != nil && t.Server != nil }

// DedupTest looks for the two copies of what is done on a page from a moment on. It finds
// the workspace by the page, unless one is named.
func (a *Admin) DedupTest(ctx context.Context, by Actor, ws string, q DedupTestQuery) (*DedupTest, error) {
	if err := allow(by, Read, "test deduplication"); err != nil {
		return nil, err
	}
	w, source, path, err := a.page(ws, q.URL)
	if err != nil {
		return nil, err
	}
	now := a.c.Clock.Now()
	if q.Since.IsZero() {
		q.Since = now.Truncate(time.Millisecond) // as ids have it
	}
	out := &DedupTest{Workspace: w.Name, Source: source.Name, Since: q.Since.UTC()}
	c, from, err := a.meter().Since(ctx, w, source.Name, q.Since, now)
	if err != nil {
		return nil, err
	}
	t := report.NewTrial(c, path, q.Event)
	out.Paired = t.Paired
	out.Sentence, out.NextStep = t.Words()
	if b := t.Browser; b != nil {
		out.Browser = &DedupCopy{Event: b.Name, At: b.At.UTC(), Dataset: b.Dataset, From: "the Pixel", Page: b.Page}
		out.Browser.EventID, out.Browser.Kind = report.IDShown(b.EventID)
		switch {
		case b.Blocked:
			out.Browser.From = "the Pixel, which the browser blocked"
		case b.Own:
			out.Browser.From = "the Pixel, called by the tag"
		}
	}
	if s := t.Server; s != nil {
		out.Server = &DedupCopy{Event: s.Name, At: s.At.UTC(), Dataset: s.Dataset, From: from[s.ID], Page: s.Page}
		out.Server.EventID, out.Server.Kind = report.IDShown(s.EventID)
		return out, nil
	}
	return out, a.notSent(ctx, w, q.Since, out)
}

// notSent says so where an event came that is not sent: nobody should look for it in vain.
func (a *Admin) notSent(ctx context.Context, w *config.Workspace, since time.Time, out *DedupTest) error {
	const looked = 10
	list, err := a.c.Store.Latest(ctx, w.ID, looked)
	if err != nil {
		return err
	}
	for _, v := range list {
		state := v.State()
		if v.ID.Time().Before(since) || state != ledger.Skipped && state != ledger.Failed || len(v.Deliveries) == 0 {
			continue
		}
		for _, d := range v.Deliveries {
			if d.State == state {
				out.NextStep = "A server's " + v.Name + " came, but it is not sent: " + d.Reason.Sentence()
				return nil
			}
		}
	}
	return nil
}
