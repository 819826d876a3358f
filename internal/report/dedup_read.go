package report

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

const (
	mostCopies = 100_000   // of each side that are compared at once, and as many looks at pages
	mostLooked = 20_000    // payloads that are opened for it
	justBefore = time.Hour // the tag's first sighting servers' events may be received that belong to it
)

// noTag is what to do where the tag has seen nothing.
const noTag = "The tag has seen no Pixel's event yet. Put the snippet that capiloop sources prints into the head of every page that has the Pixel, " +
	"then try it: capiloop dedup-test --url https://your-page"

// Meter measures how many copies of events pair.
type Meter struct {
	Store  *store.Store
	Prints ledger.Fingerprints // those that sightings are written with
	Most   int                 // copies of each side that are compared at once; 0: 100,000
}

// Measure compares what was received from a time until now. What the tag has not watched
// yet is left out.
func (m Meter) Measure(ctx context.Context, ws *config.Workspace, from, now time.Time) (*Dedup, error) {
	first, err := m.Store.FirstSighting(ctx, ws.ID)
	if err != nil {
		return nil, err
	}
	if first.IsZero() {
		return &Dedup{From: from.UTC(), Rows: []DedupRow{}, NextStep: noTag}, nil
	}
	c, short, err := m.span(ctx, ws, from, now)
	if err != nil {
		return nil, err
	}
	if err := m.look(ctx, ws, c); err != nil {
		return nil, err
	}
	c.Since = first.Add(-justBefore)
	d := NewDedup(c)
	d.CutShort = short
	if len(d.Rows) == 0 {
		d.NextStep = "Nothing to compare since " + d.From.Format("2006-01-02 15:04 UTC") + ": look further back with --days, or at the pages whether they still load the tag."
	}
	return d, nil
}

// Since returns the copies of what happened on the pages of a source from a moment on,
// and who sent the server's.
func (m Meter) Since(ctx context.Context, ws *config.Workspace, source string, since, now time.Time) (*Copies, map[ledger.ID]string, error) {
	c := newCopies(ws, since)
	list, _, err := m.read(ctx, c, m.query(ws, since, now, store.WithViews), now)
	if err != nil {
		return nil, nil, err
	}
	c.Browser = slices.DeleteFunc(c.Browser, func(g ledger.Sighting) bool { return g.Source != source })
	from := make(map[ledger.ID]string, len(list))
	for i := range list {
		from[list[i].ID] = list[i].Source
	}
	return c, from, m.look(ctx, ws, c)
}

// span reads the copies of days, and tells whether it begins later than asked. Looks at pages are read by themselves, so that
// the fewer events that matter more reach back as far as asked on a busy site, too.
func (m Meter) span(ctx context.Context, ws *config.Workspace, from, now time.Time) (c *Copies, short bool, err error) {
	c = newCopies(ws, from)
	begin := func(views store.Views) (time.Time, error) {
		_, all, err := m.read(ctx, c, m.query(ws, from.Add(-MetaWindow), now, views), now)
		if all.from.IsZero() {
			return from, err
		}
		// A copy whose other half was left out would stand alone; most halves lie near.
		begin := all.from.Add(min(MetaWindow, all.to.Sub(all.from)/2)) //nolint:mnd // half of what was read
		if begin.Before(from) {
			return from, err
		}
		return begin, err
	}
	if c.From, err = begin(store.NoViews); err != nil {
		return nil, false, err
	}
	if c.ViewsFrom, err = begin(store.OnlyViews); err != nil {
		return nil, false, err
	}
	return c, c.From.After(from), nil
}

func newCopies(ws *config.Workspace, from time.Time) *Copies {
	c := &Copies{From: from}
	for _, d := range ws.Datasets {
		c.Yours = append(c.Yours, d.Name)
	}
	if len(c.Yours) > 0 {
		c.Default = c.Yours[0]
	}
	return c
}

func (m Meter) query(ws *config.Workspace, from, now time.Time, views store.Views) store.CopiesQuery {
	return store.CopiesQuery{Workspace: ws.ID, From: from, To: now.Add(time.Minute), Views: views, Limit: cmp.Or(m.Most, mostCopies)}
}

// stretch is the time of which all was read; zero: there was no more.
type stretch struct{ from, to time.Time }

// read adds the copies of both sides.
func (m Meter) read(ctx context.Context, c *Copies, q store.CopiesQuery, now time.Time) (list []store.ServerCopy, all stretch, err error) {
	seen, err := m.Store.Sightings(ctx, q)
	if err != nil {
		return nil, all, err
	}
	if list, err = m.Store.ServerCopies(ctx, q); err != nil {
		return nil, all, err
	}
	c.Browser = append(c.Browser, seen...)
	for i := range list {
		s := &list[i]
		if s.SentAt.IsZero() {
			s.SentAt = now
		}
		c.Server = append(c.Server, ServerEvent{
			ID: s.ID, Dataset: s.Dataset, Name: s.Name, EventID: s.EventID, At: s.Time, SentAt: s.SentAt, Elsewhere: elsewhere(capi.ActionSource(s.ActionSource)),
		})
	}
	shorten := func(oldest, newest ledger.ID) {
		if at := oldest.Time(); at.After(all.from) {
			all = stretch{at, newest.Time()}
		}
	}
	if n := len(seen); n == q.Limit {
		shorten(seen[n-1].ID, seen[0].ID)
	}
	if n := len(list); n == q.Limit {
		shorten(list[n-1].ID, list[0].ID)
	}
	return list, all, nil
}

// look reads more of those that do not pair by their ids.
func (m Meter) look(ctx context.Context, ws *config.Workspace, c *Copies) error {
	byID, views := make(map[ledger.ID]int, len(c.Server)), map[ledger.ID]int{}
	for i := range c.Server {
		byID[c.Server[i].ID] = i
		if isView(c.Server[i].Name) {
			views[c.Server[i].ID] = 1
		}
	}
	unpaired := UnpairedByID(c)
	slices.SortFunc(unpaired, func(a, b ledger.ID) int { return cmp.Or(cmp.Compare(views[a], views[b]), cmp.Compare(b, a)) })
	return m.Store.Payloads(ctx, ws.ID, unpaired[:min(len(unpaired), mostLooked)], func(id ledger.ID, payload []byte) {
		m.fill(&c.Server[byID[id]], payload)
	})
}

// elsewhere tells whether an event says that it did not happen on a website, so that no
// browser can have a copy of it. Where one has all the same, the two are compared.
func elsewhere(from capi.ActionSource) bool {
	return from != capi.ActionSourceWebsite && from != capi.ActionSourceApp && from != capi.ActionSourceOther && from != ""
}

// fill adds what a payload says of the person and the page.
func (m Meter) fill(s *ServerEvent, payload []byte) {
	var p struct {
		URL  string `json:"event_source_url"`
		User struct {
			Address  string          `json:"client_ip_address"`
			Agent    string          `json:"client_user_agent"`
			FBP      string          `json:"fbp"`
			External json.RawMessage `json:"external_id"`
		} `json:"user_data"`
	}
	if json.Unmarshal(payload, &p) != nil {
		return // as one that was cleared: the time is left
	}
	var external []string
	if json.Unmarshal(p.User.External, &external) != nil {
		var one string
		if json.Unmarshal(p.User.External, &one) == nil {
			external = []string{one}
		}
	}
	s.FBP, s.Visitor = m.Prints.FBP(p.User.FBP), m.Prints.Visitor(p.User.Address, p.User.Agent)
	if len(external) > 0 {
		s.External = m.Prints.External(external[0])
	}
	s.Page = ledger.PagePath(p.URL)
}
