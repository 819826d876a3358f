package admin

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// LeadActions are what can be done with leads. None of them shows who a lead is.
type LeadActions interface {
	// Lead returns a lead by our id or its platform's, with all that happened to it.
	Lead(ctx context.Context, by Actor, ws, id string) (*Lead, error)
	// Leads lists the newest leads; limit is at most 500.
	Leads(ctx context.Context, by Actor, ws string, limit int) ([]*Lead, error)
	// ImportLeads records leads that were read from a file.
	ImportLeads(ctx context.Context, by Actor, ws string, leads []ledger.Lead) (*Imported, error)
	// PreviewLead returns what each CRM would be sent for an example lead.
	PreviewLead(ctx context.Context, by Actor, ws string) ([]Preview, error)
	// Backfill reads the leads of a source since a time as history.
	Backfill(ctx context.Context, by Actor, ws, source string, since time.Time) (*Imported, error)
}

// Lead is a lead as everybody may see it: its way, not the person.
type Lead struct {
	ID        string    `json:"id"`
	LeadID    string    `json:"lead_id"`
	Source    string    `json:"source"`
	Kind      string    `json:"kind"`
	Platform  string    `json:"platform"`
	Form      string    `json:"form"`
	Campaign  string    `json:"campaign"`
	CreatedAt time.Time `json:"created_at"`
	State     string    `json:"state"` // received (no CRM), sent, waiting, held, failed, skipped
	History   bool      `json:"history"`
	Test      bool      `json:"test"`
	ClearedAt string    `json:"cleared_at,omitempty"`
	// MergedInto is the lead that the CRM has made one with this: each event goes once for both.
	MergedInto string   `json:"merged_into,omitempty"`
	Hops       []Hop    `json:"hops"`
	Events     []*Event `json:"events"` // made of the lead; only where one lead is asked for
}

// Hop is one step on a lead's way.
type Hop struct {
	At     time.Time `json:"at"`
	What   string    `json:"what"`
	TookMS int64     `json:"took_ms"` // since the hop before
	Detail string    `json:"detail"`
	Stage  string    `json:"stage,omitempty"` // of a hop "stage": what people call it
}

// Imported tells what became of leads from a file or a platform's list.
type Imported struct {
	Seen       int `json:"seen"`
	Recorded   int `json:"recorded"`
	Duplicates int `json:"duplicates"`
	Merged     int `json:"merged"`
}

// LeadRecorder writes leads down.
type LeadRecorder interface {
	RecordLead(ctx context.Context, ws *config.Workspace, l *ledger.Lead) (duplicate, merged bool, err error)
}

// Backfiller reads leads of the past from a source's platform.
type Backfiller interface {
	Backfill(ctx context.Context, workspace, source string, since time.Time) (seen, fresh int, err error)
}

// platforms are those whose ids a lead can be asked for by.
var platforms = []string{"meta", "google", "tiktok", "linkedin", ""}

// Lead returns a lead by our id or its platform's.
func (a *Admin) Lead(ctx context.Context, by Actor, ws, id string) (*Lead, error) {
	if err := allow(by, Read, "look at leads"); err != nil {
		return nil, err
	}
	w, err := a.workspace(ws)
	if err != nil {
		return nil, err
	}
	lead, err := ledger.ParseID(id)
	if err != nil {
		if lead, err = a.findLead(ctx, w, id); err != nil {
			return nil, err
		}
	}
	row, err := a.c.Store.LeadFor(ctx, 0, lead)
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Lead.Workspace != w.ID {
		return nil, noLead(id)
	}
	if err != nil {
		return nil, err
	}
	v, err := a.leadView(ctx, row)
	if err == nil {
		err = a.lifeOf(ctx, w, row.Lead.ID, v)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

func noLead(id string) error {
	return &Error{Code: NotFound, Message: "There is no lead " + strconv.Quote(id) + ".", Fix: "Give the id that an answer gave, or the platform's lead id."}
}

func (a *Admin) findLead(ctx context.Context, w *config.Workspace, id string) (ledger.ID, error) {
	if w.Ring == nil {
		return 0, noLead(id)
	}
	for _, p := range platforms {
		lead, err := a.c.Store.FindLead(ctx, w.ID, w.Ring.Index("lead/"+p, id))
		if err == nil {
			return lead, nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return 0, err
		}
	}
	return 0, noLead(id)
}

// Leads lists the newest leads.
func (a *Admin) Leads(ctx context.Context, by Actor, ws string, limit int) ([]*Lead, error) {
	if err := allow(by, Read, "look at leads"); err != nil {
		return nil, err
	}
	w, err := a.workspace(ws)
	if err != nil {
		return nil, err
	}
	if limit < 1 || limit > 500 {
		return nil, &Error{Code: Invalid, Message: "A list has 1 to 500 leads.", Fix: "Give a limit from 1 to 500."}
	}
	rows, err := a.c.Store.Leads(ctx, w.ID, 0, limit)
	if err != nil {
		return nil, err
	}
	list := make([]*Lead, len(rows))
	for i := range rows {
		if list[i], err = a.leadView(ctx, &rows[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (a *Admin) leadView(ctx context.Context, row *store.LeadRow) (*Lead, error) {
	life, err := a.c.Store.LeadLife(ctx, row.Lead.ID)
	if err != nil {
		return nil, err
	}
	l := &row.Lead
	v := &Lead{
		ID: l.ID.String(), LeadID: l.LeadID, Source: l.Source, Kind: l.Kind, Platform: l.Platform, Form: orElse(l.Origin.FormName, l.Origin.FormID),
		Campaign: orElse(l.Origin.CampaignName, l.Origin.CampaignID), CreatedAt: l.CreatedAt, State: "received", History: l.History, Test: l.Test,
		Events: []*Event{},
	}
	if !row.ClearedAt.IsZero() {
		v.ClearedAt = row.ClearedAt.UTC().Format(time.RFC3339)
	}
	v.Hops = append(v.Hops, Hop{At: l.CreatedAt, What: "form", Detail: "the person sent the form"})
	for _, t := range life.Touches {
		v.Hops = append(v.Hops, Hop{At: t.At, What: "received", Detail: "by the source " + t.Source})
	}
	newest := make(map[string]ledger.State) // a CRM that took a later touch has the lead
	for _, d := range life.Deliveries {
		newest[d.Destination] = d.State
		h := Hop{At: d.SettledAt, What: d.Destination, Detail: leadSentence(d)}
		if h.At.IsZero() {
			h.At = a.c.Clock.Now()
		}
		v.Hops = append(v.Hops, h)
	}
	v.inOrder()
	v.State = sumUp(newest, v.State)
	return v, nil
}

// inOrder sorts the hops and says how long each took: a second touch may come after the
// CRM, and the CRM's clock be another one.
func (l *Lead) inOrder() {
	slices.SortStableFunc(l.Hops, func(a, b Hop) int { return a.At.Compare(b.At) })
	for i := range l.Hops {
		if l.Hops[i].TookMS = 0; i > 0 {
			l.Hops[i].TookMS = l.Hops[i].At.Sub(l.Hops[i-1].At).Milliseconds()
		}
	}
}

// sumUp returns the state that most needs a look.
func sumUp(states map[string]ledger.State, none string) string {
	for _, s := range []ledger.State{ledger.Held, ledger.Failed, ledger.Waiting, ledger.Sent, ledger.Skipped} {
		for _, of := range states {
			if of == s {
				return string(s)
			}
		}
	}
	return none
}

func leadSentence(d store.DeliveryView) string {
	switch d.State {
	case ledger.Sent:
		if d.Tries > 1 {
			return fmt.Sprintf("the CRM has it, after %d tries", d.Tries)
		}
		return "the CRM has it, at the first try"
	case ledger.Failed, ledger.Held, ledger.Skipped, ledger.Waiting:
	}
	if d.Answer.Message != "" {
		return d.Reason.Sentence() + " The CRM said: " + d.Answer.Message
	}
	return d.Reason.Sentence()
}

func orElse(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// ImportLeads records leads that were read from a file.
func (a *Admin) ImportLeads(ctx context.Context, by Actor, ws string, leads []ledger.Lead) (*Imported, error) {
	if err := allow(by, Operate, "import leads"); err != nil {
		return nil, err
	}
	w, err := a.workspace(ws)
	if err != nil {
		return nil, err
	}
	out := &Imported{Seen: len(leads)}
	for i := range leads {
		duplicate, merged, err := a.c.Recorder.RecordLead(ctx, w, &leads[i])
		if err != nil {
			return out, err
		}
		switch {
		case duplicate:
			out.Duplicates++
		case merged:
			out.Merged++
		default:
			out.Recorded++
		}
	}
	return out, nil
}

// Backfill reads the leads of a source since a time as history.
func (a *Admin) Backfill(ctx context.Context, by Actor, ws, source string, since time.Time) (*Imported, error) {
	if err := allow(by, Operate, "read leads of the past"); err != nil {
		return nil, err
	}
	w, err := a.workspace(ws)
	if err != nil {
		return nil, err
	}
	if a.c.Backfiller == nil {
		return nil, &Error{Code: Unavailable, Message: "Leads can be read only by a running server.", Fix: "Start it (capiloop serve) and try again."}
	}
	seen, fresh, err := a.c.Backfiller.Backfill(ctx, w.Name, source, since)
	return &Imported{Seen: seen, Recorded: fresh, Duplicates: seen - fresh}, err
}

// Lead is LeadActions.Lead at the server.
func (c *Client) Lead(ctx context.Context, by Actor, ws, id string) (*Lead, error) {
	l := &Lead{}
	if err := c.get(ctx, by, "/lead", ws, url.Values{"id": {id}}, l); err != nil {
		return nil, err
	}
	return l, nil
}

// Leads is LeadActions.Leads at the server.
func (c *Client) Leads(ctx context.Context, by Actor, ws string, limit int) ([]*Lead, error) {
	var list []*Lead
	err := c.get(ctx, by, "/leads", ws, url.Values{"limit": {strconv.Itoa(limit)}}, &list)
	return list, err
}

// ImportLeads is LeadActions.ImportLeads at the server.
func (c *Client) ImportLeads(ctx context.Context, by Actor, ws string, leads []ledger.Lead) (*Imported, error) {
	out := &Imported{}
	if err := c.post(ctx, by, "/import", ws, request{Leads: leads}, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Backfill is LeadActions.Backfill at the server.
func (c *Client) Backfill(ctx context.Context, by Actor, ws, source string, since time.Time) (*Imported, error) {
	out := &Imported{}
	if err := c.post(ctx, by, "/backfill", ws, request{Name: source, Since: since}, out); err != nil {
		return nil, err
	}
	return out, nil
}

// leadRoutes puts the actions on leads on the socket.
func leadRoutes(a Actions, get func(string, func(context.Context, Actor, string, url.Values) (any, error)),
	post func(string, func(context.Context, Actor, string, request) (any, error)),
) {
	get("/lead", func(ctx context.Context, by Actor, ws string, q url.Values) (any, error) {
		return a.Lead(ctx, by, ws, q.Get("id"))
	})
	get("/leads", func(ctx context.Context, by Actor, ws string, q url.Values) (any, error) {
		limit, err := strconv.Atoi(q.Get("limit"))
		if err != nil {
			return nil, &Error{Code: Invalid, Message: "limit is not a number.", Fix: "Give one from 1 to 500."}
		}
		return a.Leads(ctx, by, ws, limit)
	})
	get("/preview", func(ctx context.Context, by Actor, ws string, _ url.Values) (any, error) {
		return a.PreviewLead(ctx, by, ws)
	})
	post("/import", func(ctx context.Context, by Actor, ws string, q request) (any, error) {
		return a.ImportLeads(ctx, by, ws, q.Leads)
	})
	post("/backfill", func(ctx context.Context, by Actor, ws string, q request) (any, error) {
		return a.Backfill(ctx, by, ws, q.Name, q.Since)
	})
}
