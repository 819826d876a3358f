package report

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

const (
	mostExamples = 3
	mostPages    = 10 // of a row
	almostNone   = 10 // percent of a page's events that may have another half where it "has none"
)

// dedupTally counts what a matcher has found.
type dedupTally struct {
	c      *Copies
	m      *matcher
	rows   map[rowKey]*DedupRow
	names  map[rowKey]map[string]int // as they are written
	pages  map[rowKey]map[pageKey]*pageCount
	causes map[rowKey]map[causeKey]*DedupCause
	tagged map[string]bool // pages on which the tag has seen anything
}

type pageKey struct {
	page string
	side Cause
}

type pageCount struct {
	at    []time.Time // of the events
	alone []bool
}

type causeKey struct {
	cause           Cause
	browser, server string
}

func (t *dedupTally) row(dataset, name string) (*DedupRow, rowKey) {
	key := rowKey{dataset, ledger.EventSpelling(name)}
	r := t.rows[key]
	if r == nil {
		r = &DedupRow{Dataset: dataset, Yours: slices.Contains(t.c.Yours, dataset), Causes: []DedupCause{}, Pages: []DedupPage{}}
		t.rows[key], t.names[key], t.pages[key], t.causes[key] = r, map[string]int{}, map[pageKey]*pageCount{}, map[causeKey]*DedupCause{}
	}
	return r, key
}

// The server's copies have names in Meta's own spelling, so theirs weighs more.
const (
	ofServer  = 1000
	ofBrowser = 1
)

// named notes how a name is written.
func (t *dedupTally) named(key rowKey, name string, weight int) { t.names[key][name] += weight }

// counted tells whether the first of the copies of an event was received in the span.
func (t *dedupTally) counted(name string, times ...time.Time) bool {
	from := t.c.From
	if isView(name) && t.c.ViewsFrom.After(from) {
		from = t.c.ViewsFrom
	}
	return !slices.MinFunc(times, time.Time.Compare).Before(from)
}

// isView tells whether an event is a look at a page.
func isView(name string) bool { return ledger.EventSpelling(name) == "pageview" }

func (t *dedupTally) count() {
	m := t.m
	for i := range m.server {
		s := &m.server[i]
		if n := m.ofServer[i]; n >= 0 {
			if t.counted(s.Name, m.browser[n].ID.Time(), s.ID.Time()) {
				t.both(&m.browser[n], s, m.cause[i], m.fallback[i])
			}
			continue
		}
		if s.Elsewhere || s.ID.Time().Before(t.c.Since) || !t.counted(s.Name, s.ID.Time()) {
			continue
		}
		r, key := t.row(s.Dataset, s.Name)
		t.named(key, s.Name, ofServer)
		r.Server++
		r.ServerOnly++
		t.page(key, s.Page, CauseServer, s.At, true)
	}
	seen := map[any]ledger.Sighting{}
	for i := range m.browser {
		b := &m.browser[i]
		if !t.counted(b.Name, b.ID.Time()) {
			continue
		}
		t.repeated(seen, b)
		if m.ofBrowser[i] >= 0 {
			continue
		}
		r, key := t.row(b.Dataset, b.Name)
		t.named(key, b.Name, ofBrowser)
		r.Browser++
		r.BrowserOnly++
		t.page(key, b.Page, CauseBrowser, b.At, true)
	}
	for i := range t.c.Browser {
		b := &t.c.Browser[i]
		t.tagged[b.Page] = true
		if b.Blocked && t.counted(b.Name, b.ID.Time()) {
			r, key := t.row(cmp.Or(b.Dataset, t.c.Default), b.Name)
			t.named(key, b.Name, ofBrowser)
			r.Blocked++
		}
	}
}

// both counts an action of which both sides know.
func (t *dedupTally) both(b *ledger.Sighting, s *ServerEvent, cause Cause, fallback bool) {
	r, key := t.row(s.Dataset, s.Name)
	t.named(key, s.Name, ofServer)
	k := known{at: b.At, twice: cause != "" && !fallback}
	if k.at.Before(s.At) {
		k.at = s.At
	}
	if cause == CauseDataset {
		other, otherKey := t.row(b.Dataset, b.Name)
		t.named(otherKey, b.Name, ofBrowser)
		other.Browser++
		other.Elsewhere++
		t.blame(otherKey, cause, b, s, false)
		other.AfterRepair-- // it will be counted where the server's copy is
		r.Server++
		r.Elsewhere++
		r.known = append(r.known, k)
		t.blame(key, cause, b, s, false)
		return
	}
	r.Browser++
	r.Server++
	r.known = append(r.known, k)
	t.page(key, b.Page, CauseBrowser, b.At, false)
	t.page(key, s.Page, CauseServer, s.At, false)
	if cause == "" {
		r.Paired++
		return
	}
	r.Unpaired++
	if fallback {
		r.Fallback++
	}
	t.blame(key, cause, b, s, fallback)
}

// blame counts a cause, with examples.
func (t *dedupTally) blame(key rowKey, cause Cause, b *ledger.Sighting, s *ServerEvent, fallback bool) {
	k := causeKey{cause: cause}
	switch cause {
	case CauseName:
		k.browser, k.server = shown(b.Name), shown(s.Name)
	case CauseDataset:
		k.browser, k.server = b.Dataset, s.Dataset
	case CauseLate:
	default:
		k.browser, k.server = scheme(b.EventID), scheme(s.EventID)
	}
	d := t.causes[key][k]
	if d == nil {
		d = &DedupCause{Cause: cause, Browser: k.browser, Server: k.server, Examples: []string{}}
		t.causes[key][k] = d
	}
	d.Count++
	if fallback {
		d.Fallback++
	}
	if len(d.Examples) < mostExamples {
		d.Examples = append(d.Examples, shown(b.EventID)+" / "+shown(s.EventID))
	}
}

// repeated counts browser events under an id that another visitor's had before: a page
// that a cache keeps hands one id to all.
func (t *dedupTally) repeated(seen map[any]ledger.Sighting, b *ledger.Sighting) {
	id := idKey(b.Dataset, b.Name, b.EventID)
	if id == nil {
		return
	}
	first, again := seen[id]
	if !again {
		seen[id] = *b
		return
	}
	differ := func(a, b int64) bool { return a != 0 && b != 0 && a != b }
	if !differ(first.External, b.External) && !differ(first.FBP, b.FBP) && !differ(first.Visitor, b.Visitor) {
		return
	}
	_, key := t.row(b.Dataset, b.Name)
	k := causeKey{cause: CauseRepeated}
	d := t.causes[key][k]
	if d == nil {
		d = &DedupCause{Cause: CauseRepeated, Browser: scheme(b.EventID), Examples: []string{}}
		t.causes[key][k] = d
	}
	d.Count++
	if text := shown(b.EventID); len(d.Examples) < mostExamples && !slices.Contains(d.Examples, text) {
		d.Examples = append(d.Examples, text)
	}
}

// page notes an event of a page, and whether one side alone has it.
func (t *dedupTally) page(key rowKey, page string, side Cause, at time.Time, alone bool) {
	if page == "" {
		return
	}
	k := pageKey{page, side}
	p := t.pages[key][k]
	if p == nil {
		p = &pageCount{}
		t.pages[key][k] = p
	}
	p.at, p.alone = append(p.at, at), append(p.alone, alone)
}

func (t *dedupTally) dedup() *Dedup {
	d := &Dedup{From: t.c.From.UTC(), Rows: []DedupRow{}}
	looked := map[string]bool{} // datasets whose Pixel the tag has seen
	for key, r := range t.rows {
		if r.Browser+r.Blocked > 0 {
			looked[key.dataset] = true
		}
	}
	for key, r := range t.rows {
		if !looked[key.dataset] && r.Elsewhere == 0 {
			continue // a dataset that no page has a Pixel of has nothing to pair with
		}
		names := slices.Sorted(maps.Keys(t.names[key]))
		r.Event = shown(slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(t.names[key][a], t.names[key][b]) }))
		r.Now = r.Browser + r.Server - r.Paired - r.Fallback
		r.AfterRepair += r.Browser + r.Server - r.Paired - r.Unpaired
		slices.SortStableFunc(r.known, func(a, b known) int { return a.at.Compare(b.at) })
		t.finishCauses(key, r)
		t.finishPages(key, r)
		if isView(r.Event) && t.c.ViewsFrom.After(t.c.From) {
			r.since = t.c.ViewsFrom
		}
		r.Sentences, r.NextStep = sentences(r), r.repair()
		d.Rows = append(d.Rows, *r)
	}
	d.sort()
	return d
}

func (t *dedupTally) finishCauses(key rowKey, r *DedupRow) {
	for _, c := range t.causes[key] {
		slices.Sort(c.Examples)
		r.Causes = append(r.Causes, *c)
	}
	if r.BrowserOnly > 0 {
		r.Causes = append(r.Causes, DedupCause{Cause: CauseBrowser, Count: r.BrowserOnly, Examples: []string{}})
	}
	if r.ServerOnly > 0 {
		r.Causes = append(r.Causes, DedupCause{Cause: CauseServer, Count: r.ServerOnly, Examples: []string{}})
	}
	slices.SortFunc(r.Causes, func(a, b DedupCause) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.Browser, b.Browser), cmp.Compare(a.Server, b.Server))
	})
}

// finishPages keeps the pages almost all of whose events one side alone has.
func (t *dedupTally) finishPages(key rowKey, r *DedupRow) {
	for k, p := range t.pages[key] {
		if k.side == CauseServer && t.tagged[k.page] {
			continue // the tag is on it: single visitors have no Pixel
		}
		if k.side == CauseBrowser && r.Server == 0 && !ledger.IsConversion(r.Event) {
			continue // nobody sends looks at pages by the server, unless meant
		}
		page := DedupPage{Page: k.page, Side: k.side, Events: len(p.at)}
		for _, alone := range p.alone {
			if alone {
				page.Missing++
			}
		}
		if page.Missing == 0 || page.Missing*100 < (100-almostNone)*page.Events {
			continue
		}
		page.latest = p.latestAlone()
		r.Pages = append(r.Pages, page)
	}
	slices.SortFunc(r.Pages, func(a, b DedupPage) int {
		return cmp.Or(cmp.Compare(b.Missing, a.Missing), cmp.Compare(a.Page, b.Page), cmp.Compare(a.Side, b.Side))
	})
	r.Pages = r.Pages[:min(len(r.Pages), mostPages)]
}

// latestAlone tells whether the latest events of a page, too, have no other half.
func (p *pageCount) latestAlone() bool {
	const latest = 5
	order := make([]int, len(p.at))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return p.at[b].Compare(p.at[a]) })
	return !slices.ContainsFunc(order[:min(latest, len(order))], func(i int) bool { return !p.alone[i] })
}
