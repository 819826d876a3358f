package capitest

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"
	"unique"
)

// tally counts what became of the events of one name.
type tally struct{ received, kept, dropped, discarded, conversionLeads uint64 }

type tallyKey struct{ dataset, name unique.Handle[string] }

const maxTallies = 10_000 // event names are free text: beyond this they are counted together

// batch is a request's events, judged and ready to be stored.
type batch struct {
	dataset string
	call    call
	events  []event
	browser bool
}

// store takes the events in, all under one lock, and returns how many.
func (g *Graph) store(b *batch, now time.Time) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests.Accepted++
	request := g.requests.Accepted
	ds, shared := unique.Make(b.dataset), b.call
	for i := range b.events {
		g.storeEvent(&b.events[i], b, ds, &shared, request, now)
	}
	return len(b.events)
}

func (g *Graph) storeEvent(e *event, b *batch, ds unique.Handle[string], shared *call, request uint64, now time.Time) {
	r := record{
		id: string(e.id), order: string(e.order), time: e.time, at: now.UnixNano(), keys: e.keys, lead: e.lead, request: request,
		dataset: ds, name: unique.Make(string(e.name)), source: unique.Make(string(e.source)), call: shared,
		browser: b.browser, crm: crmOf(e), warnings: e.warnings,
	}
	r.value, r.hasValue = amount(e.value)
	if c, ok := currencyCode(e.currency); ok {
		copy(r.currency[:], c)
	}
	a := arrival{
		dataset: b.dataset, name: r.name.Value(), id: r.id, source: r.source.Value(), fbp: string(e.fbp), externalID: string(e.externalID),
		order: r.order, item: string(e.item), device: string(e.device), at: r.at, seq: g.log.next, browser: b.browser,
	}
	if a.source == "physical_store" {
		a.time, a.user = strconv.FormatInt(e.time, 10), string(e.user)
	}
	if e.lead != 0 {
		created, state := g.leads.created(e.lead)
		a.discarded = state == leadKnown && e.time < created
	}
	v := g.dedup.judge(&a)
	r.reason, r.dup = v.reason, v.dup
	switch {
	case a.discarded:
		r.outcome = 2
	case v.dup != 0:
		r.outcome = 1
	}
	seq := g.log.add(&r, e.raw)
	t := g.tallyOf(ds, r.name)
	t.count(&r, 1)
	if old := g.log.find(v.loser); old != nil {
		t.count(old, -1)
		old.outcome, old.reason, old.dup = 1, reasonBrowserWins, seq
		t.count(old, 1)
		g.noteChange(v.loser)
	}
}

// crmOf tells whether an event is a CRM event and counts as a conversion lead.
func crmOf(e *event) uint8 {
	crm := string(e.eventSource) == "crm"
	switch {
	case crm && len(e.leadSource) > 0 && string(e.source) == "system_generated":
		return 1
	case crm || len(e.leadSource) > 0 || e.lead != 0:
		return 2
	}
	return 0
}

func (g *Graph) tallyOf(ds, name unique.Handle[string]) *tally {
	k := tallyKey{ds, name}
	t := g.tallies[k]
	if t == nil {
		if len(g.tallies) >= maxTallies {
			k.name = unique.Make("(other names)")
		}
		if t = g.tallies[k]; t == nil {
			t = &tally{}
			g.tallies[k] = t
		}
	}
	return t
}

func (t *tally) count(r *record, by int) {
	n := uint64(by) //nolint:gosec // minus one wraps around and subtracts
	t.received += n
	switch r.outcome {
	case 0:
		t.kept += n
	case 1:
		t.dropped += n
	case 2:
		t.discarded += n
	}
	if r.crm == 1 && r.outcome == 0 {
		t.conversionLeads += n
	}
}

// noteChange remembers that an earlier event's outcome changed, for the live page.
func (g *Graph) noteChange(seq uint64) {
	if len(g.changes) >= 1000 {
		g.changes = append(g.changes[:0], g.changes[500:]...)
		g.changesLost += 500
	}
	g.changes = append(g.changes, seq)
}

// Received returns every event that was accepted and is still remembered, in the
// order of arrival.
func (g *Graph) Received() []Received { return g.receivedIf(func(*record) bool { return true }) }

// Kept returns the events of a dataset that count; "" means all datasets.
func (g *Graph) Kept(dataset string) []Received {
	return g.receivedIf(func(r *record) bool { return r.outcome == 0 && (dataset == "" || r.dataset.Value() == dataset) })
}

func (g *Graph) receivedIf(want func(*record) bool) []Received {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := []Received{}
	for seq := g.log.first; seq < g.log.next; seq++ {
		if want(g.log.at(seq)) {
			all = append(all, g.log.received(seq))
		}
	}
	return all
}

// Times returns how often an event arrived in accepted requests and from the Pixel,
// duplicates included. It is exact however many events there were, until Reset.
func (g *Graph) Times(dataset, eventName, eventID string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return int(g.dedup.ids[g.dedup.hash('a', dataset, eventName, eventID)].times)
}

// Distinct returns how many different (dataset, event_name, event_id) arrived.
func (g *Graph) Distinct() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.dedup.ids)
}

// Repeat is one (dataset, event_name, event_id) and how often it arrived.
type Repeat struct {
	Dataset   string `json:"dataset"`
	EventName string `json:"event_name"`
	EventID   string `json:"event_id"`
	Times     int    `json:"times"`
}

// Twice returns the events, among those still remembered, that arrived more than
// once. Empty means that everything is held exactly once.
func (g *Graph) Twice() []Repeat {
	g.mu.Lock()
	defer g.mu.Unlock()
	found := map[key]Repeat{}
	for seq := g.log.first; seq < g.log.next; seq++ {
		r := g.log.at(seq)
		if r.id == "" {
			continue
		}
		k := g.dedup.hash('a', r.dataset.Value(), r.name.Value(), r.id)
		if n := g.dedup.ids[k].times; n > 1 {
			found[k] = Repeat{r.dataset.Value(), r.name.Value(), r.id, int(n)}
		}
	}
	all := make([]Repeat, 0, len(found))
	for _, r := range found {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Repeat) int {
		return cmp.Or(cmp.Compare(a.Dataset, b.Dataset), cmp.Compare(a.EventName, b.EventName), cmp.Compare(a.EventID, b.EventID))
	})
	return all
}

// SecondID is one thing that arrived under more than one event_id.
type SecondID struct {
	Dataset   string   `json:"dataset"`
	EventName string   `json:"event_name"`
	Thing     string   `json:"thing"` // "lead 1234567890123456" or "order 1001"
	EventIDs  []string `json:"event_ids"`
}

// SecondIDs returns the leads and orders, among the events still remembered, of
// which one event_name arrived under several event_ids: a sender that makes a new
// id on a retry is found here, for Meta would count such an event twice.
func (g *Graph) SecondIDs() []SecondID {
	type thing struct{ dataset, name, what string }
	g.mu.Lock()
	defer g.mu.Unlock()
	ids := map[thing][]string{}
	for seq := g.log.first; seq < g.log.next; seq++ {
		r := g.log.at(seq)
		var what string
		switch {
		case r.order != "":
			what = "order " + r.order
		case r.lead != 0:
			what = "lead " + strconv.FormatInt(r.lead, 10)
		default:
			continue
		}
		k := thing{r.dataset.Value(), r.name.Value(), what}
		if !slices.Contains(ids[k], r.id) {
			ids[k] = append(ids[k], r.id)
		}
	}
	all := []SecondID{}
	for k, v := range ids {
		if len(v) > 1 {
			all = append(all, SecondID{k.dataset, k.name, k.what, v})
		}
	}
	slices.SortFunc(all, func(a, b SecondID) int {
		return cmp.Or(cmp.Compare(a.Dataset, b.Dataset), cmp.Compare(a.EventName, b.EventName), cmp.Compare(a.Thing, b.Thing))
	})
	return all
}

// Requests counts the requests to POST /events.
type Requests struct {
	Count     uint64         `json:"count"`
	Accepted  uint64         `json:"accepted"` // answered as taken, or cut off after the events were stored
	Events    uint64         `json:"events"`   // in all requests that could be read
	Bytes     uint64         `json:"bytes"`    // of all bodies
	MaxEvents int            `json:"max_events"`
	MaxBytes  int            `json:"max_bytes"`
	Refused   map[string]int `json:"refused"` // by "code" or "code/subcode"
	Faults    int            `json:"faults"`  // requests met by a fault
	Sizes     []int          `json:"-"`       // events in each of the last 10,000 requests
}

// Requests returns what is known about the requests so far.
func (g *Graph) Requests() Requests {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.requests
	r.Refused = map[string]int{}
	maps.Copy(r.Refused, g.requests.Refused)
	r.Sizes = slices.Clone(r.Sizes)
	return r
}

// noteSize counts a request's events once their number is known.
func (g *Graph) noteSize(events int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := &g.requests
	q.Events += uint64(events) //nolint:gosec // a count
	q.MaxEvents = max(q.MaxEvents, events)
	if len(q.Sizes) >= 10_000 {
		q.Sizes = append(q.Sizes[:0], q.Sizes[5000:]...)
	}
	q.Sizes = append(q.Sizes, events)
}

func (g *Graph) noteBytes(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests.Count++
	g.requests.Bytes += uint64(n) //nolint:gosec // a count
	g.requests.MaxBytes = max(g.requests.MaxBytes, n)
}

func (g *Graph) noteRefusal(e *graphError) {
	name := strconv.Itoa(e.Code)
	if e.Subcode != 0 {
		name += "/" + strconv.Itoa(e.Subcode)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests.Refused[name]++
}

// Reset forgets every event, request, fault and count. Leads, tokens and datasets stay.
func (g *Graph) Reset() {
	g.ClearFaults()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forget()
}

func (g *Graph) forget() {
	g.log = newRecordLog(g.keepRecords, g.keepPayloads)
	g.dedup = newDedup(g.options.KeepServerRepeats)
	g.tallies = map[tallyKey]*tally{}
	g.requests = Requests{Refused: map[string]int{}}
	g.changes, g.changesLost = nil, 0
	g.epoch++
}
