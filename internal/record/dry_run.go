package record

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// DryRun is what rules would have sent of what is recorded since a time, had they been in
// force and every dataset live. Nothing of it was written.
type DryRun struct {
	Since     time.Time  `json:"since"`
	Leads     int        `json:"leads"`     // that came in since
	Moves     int        `json:"moves"`     // that happened since
	Events    []DryEvent `json:"events"`    // in the order of the rules
	NoRule    []DryStage `json:"no_rule"`   // stages without a rule, the most frequent first
	Condition int        `json:"condition"` // moves that only a rule with a condition is for: the CRM's fields are not kept
}

// DryEvent is what would have been sent of one event.
type DryEvent struct {
	Event         string                `json:"event"`
	WouldSend     int                   `json:"would_send"`
	WithValue     int                   `json:"with_value"`     // of those that would be sent
	OutsideWindow int                   `json:"outside_window"` // of those: more than 28 days after the lead
	History       int                   `json:"history"`        // of those: recorded as history, which is never sent in earnest
	Keys          map[string]int        `json:"keys"`           // of those: which match keys would go
	NotSent       map[ledger.Reason]int `json:"not_sent"`       // by reason: expired is too late for Meta's seven days
	Repeats       int                   `json:"repeats"`        // went before, so nothing more
	Test          int                   `json:"test"`           // of test leads
	Cleared       int                   `json:"cleared"`        // the contact is cleared by now: keys that would have gone are not counted
}

// DryStage is a stage without a rule.
type DryStage struct {
	Source   string `json:"source"`
	Field    string `json:"field"`
	Pipeline string `json:"pipeline"`
	Stage    string `json:"stage"`
	Label    string `json:"label"`
	Moves    int    `json:"moves"`
}

// dryRun is a look at the past that is under way.
type dryRun struct {
	r         *Recorder
	ws        *config.Workspace
	withdrawn store.Withdrawn
	stages    map[string][]ledger.Stage // by source
	kinds     map[string]string         // of CRMs, by their name
	fired     map[ledger.ID][]store.Fired
	received  map[ledger.ID]bool
	waiting   []dryWait
	out       *DryRun
	noRule    map[DryStage]int
}

// dryWait is an event that waits for another one of its lead.
type dryWait struct {
	root         ledger.ID
	event, after string
	count        func()
}

// DryRun looks at what rules would have made of the leads and moves since a time. It
// decides as Stages and Lead do, with what was made before counted from nothing. Moves
// that are history are looked at as if they had been told of at once.
func (r *Recorder) DryRun(ctx context.Context, ws *config.Workspace, rules []ledger.Rule, since time.Time) (*DryRun, error) {
	d, err := r.newDryRun(ctx, ws, rules, since)
	if err != nil {
		return nil, fmt.Errorf("look at the past of workspace %s: %w", ws.Name, err)
	}
	err = r.c.Store.PastLeads(ctx, ws.ID, since, func(p *store.PastLead) error {
		d.out.Leads++
		return d.receipt(p, true)
	})
	if err == nil {
		err = r.c.Store.PastMoves(ctx, ws.ID, since, func(m *store.PastMove) error {
			d.out.Moves++
			return d.move(m)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("look at the past of workspace %s: %w", ws.Name, err)
	}
	d.finish()
	return d.out, nil
}

func (r *Recorder) newDryRun(ctx context.Context, ws *config.Workspace, rules []ledger.Rule, since time.Time) (*dryRun, error) {
	shadow := *ws
	shadow.Rules, shadow.Guard, shadow.Datasets = rules, ledger.Guard{Off: true}, nil
	for _, d := range ws.Datasets {
		live := *d
		live.Live = true
		shadow.Datasets = append(shadow.Datasets, &live)
	}
	// Ids of its own: those of events that are never made must not be missing elsewhere.
	own := &Recorder{c: r.c}
	own.c.IDs = ledger.NewIDs(0, r.c.Clock.Now)
	d := &dryRun{
		r: own, ws: &shadow, stages: map[string][]ledger.Stage{}, kinds: map[string]string{}, fired: map[ledger.ID][]store.Fired{},
		received: map[ledger.ID]bool{}, noRule: map[DryStage]int{}, out: &DryRun{Since: since, Events: []DryEvent{}, NoRule: []DryStage{}},
	}
	for _, c := range ws.CRMs {
		d.kinds[c.Name] = c.Kind
	}
	for _, receipt := range []bool{true, false} {
		for i := range rules {
			if receipt == (rules[i].Stage == ledger.StageReceived) {
				d.event(rules[i].Event)
			}
		}
	}
	known, err := r.c.Store.Stages(ctx, ws.ID)
	if err != nil {
		return nil, err
	}
	for _, st := range known {
		d.stages[st.Source] = append(d.stages[st.Source], st.Stage)
	}
	d.withdrawn, err = r.c.Store.Withdrawn(ctx, ws.ID)
	return d, err
}

// event returns the line of an event.
func (d *dryRun) event(name string) *DryEvent {
	for i := range d.out.Events {
		if d.out.Events[i].Event == name {
			return &d.out.Events[i]
		}
	}
	d.out.Events = append(d.out.Events, DryEvent{Event: name, Keys: map[string]int{}, NotSent: map[ledger.Reason]int{}})
	return &d.out.Events[len(d.out.Events)-1]
}

// open returns a lead as one that was never history.
func (d *dryRun) open(p *store.PastLead) (*ledger.Lead, error) {
	lead, err := openLead(d.ws, p.Row)
	if err == nil {
		lead.History = false
	}
	return lead, err
}

// bornOfMove tells whether a lead was made of its first move, and never came in by itself.
func bornOfMove(p *store.PastLead) bool {
	const atOnce = 100 * time.Millisecond
	l := &p.Row.Lead
	return p.First != 0 && p.Teller == l.Source && p.First.Time().Sub(l.ID.Time()) < atOnce
}

// receipt looks at the moment in which a lead came in. One from before the span is not
// counted, but its events were made.
func (d *dryRun) receipt(p *store.PastLead, counted bool) error {
	id := p.Row.Lead.ID
	if d.received[id] || bornOfMove(p) {
		return nil
	}
	d.received[id] = true
	lead, err := d.open(p)
	if err != nil {
		return err
	}
	if lead.Test {
		for i := range d.ws.Rules {
			if counted && d.ws.Rules[i].Stage == ledger.StageReceived {
				d.event(d.ws.Rules[i].Event).Test++
			}
		}
		return nil
	}
	told := id.Time()
	if p.Row.Lead.History {
		told = lead.CreatedAt
	}
	o := receiptOf(d.ws, lead, told)
	o.root, o.metaID, o.denied, o.withdrawn = p.Root, p.MetaID, p.Denied, d.withdrawn
	events, err := d.r.receive(o, d.fired[p.Root])
	if err != nil {
		return err
	}
	d.made(p, events, p.Row.Lead.History, counted)
	return nil
}

// move looks at a recorded move.
func (d *dryRun) move(m *store.PastMove) error {
	if err := d.receipt(&m.PastLead, false); err != nil {
		return err
	}
	lead, err := d.open(&m.PastLead)
	if err != nil {
		return err
	}
	history := m.Effect == ledger.EffectHistory || m.Row.Lead.History && !m.Change.At.After(m.Row.Lead.ID.Time())
	told := m.ID.Time()
	if history {
		told = m.Change.At
	}
	c := m.Change
	c.Test = m.Effect == ledger.EffectTest
	who := mover{source: m.Source, kind: d.kinds[m.Source]}
	stages := d.stages[m.Source]
	decision, err := d.r.decide(d.ws, who, &c, &store.StageFacts{
		Lead: &store.LeadRow{Lead: *lead}, Denied: m.Denied, Root: m.Root, MetaID: m.MetaID, Stages: stages, Fired: d.fired[m.Root],
	}, &judge{now: told, withdrawn: d.withdrawn, guard: guard{off: true}})
	if err != nil {
		return err
	}
	d.made(&m.PastLead, decision.Events, history, true)
	switch decision.Effect {
	case ledger.EffectNoRule:
		d.noRule[DryStage{Source: m.Source, Field: c.Field, Pipeline: c.Pipeline, Stage: c.Stage, Label: labelOf(&c, stages)}]++
	case ledger.EffectCondition:
		d.out.Condition++
	case ledger.EffectTest, ledger.EffectEvent, ledger.EffectAlreadySent:
		d.repeats(who.source, &c, stages, decision)
	default:
	}
	return nil
}

// repeats counts the events of the rules for a move that were not made of it.
func (d *dryRun) repeats(source string, c *ledger.StageChange, stages []ledger.Stage, decision store.StageDecision) {
	var done []string
	for _, e := range decision.Events {
		done = append(done, e.Name)
	}
	rules, _ := matching(d.ws.Rules, source, c, stages)
	for _, rule := range rules {
		if slices.Contains(done, rule.Event) {
			continue
		}
		done = append(done, rule.Event)
		if line := d.event(rule.Event); decision.Effect == ledger.EffectTest {
			line.Test++
		} else {
			line.Repeats++
		}
	}
}

func labelOf(c *ledger.StageChange, stages []ledger.Stage) string {
	for _, st := range stages {
		if st.ID == c.Stage && st.Pipeline == c.Pipeline && st.Field == c.Field {
			return st.Label
		}
	}
	return ""
}

// made keeps what was made of a lead, and counts it.
func (d *dryRun) made(p *store.PastLead, events []store.LeadEvent, history, counted bool) {
	for i := range events {
		e := &events[i]
		if !e.Unclaimed {
			d.fired[p.Root] = append(d.fired[p.Root], store.Fired{Name: e.Name, Part: e.Part, Event: e.Event.ID, At: e.At})
		}
		if !counted {
			continue
		}
		line := d.event(e.Name)
		if !p.Row.ClearedAt.IsZero() {
			line.Cleared++
		}
		sent := wouldGo(e.Event.Deliveries)
		if sent == nil {
			line.NotSent[e.Event.Deliveries[0].Reason]++
			continue
		}
		count := func() { d.event(e.Name).count(sent, history) }
		if e.After == "" {
			count()
			continue
		}
		d.waiting = append(d.waiting, dryWait{p.Root, e.Name, e.After, count})
	}
}

// count counts an event that would be sent.
func (e *DryEvent) count(sent *ledger.Delivery, history bool) {
	e.WouldSend++
	if history {
		e.History++
	}
	if bytes.Contains(sent.Payload, []byte(`"value":`)) {
		e.WithValue++
	}
	if slices.ContainsFunc(sent.Notes, func(n capi.Problem) bool { return n.Code == ProblemOutsideWindow }) {
		e.OutsideWindow++
	}
	for name := range strings.SplitSeq(sent.Kept.String(), ",") {
		e.Keys[name]++
	}
}

// wouldGo returns the delivery that would be sent, now or once its time has come; nil if
// there is none.
func wouldGo(list []ledger.Delivery) *ledger.Delivery {
	for i := range list {
		if s := list[i].State; s == ledger.Waiting || s == ledger.Held {
			return &list[i]
		}
	}
	return nil
}

// finish counts what waited for another event, if that came, and sorts.
func (d *dryRun) finish() {
	for _, w := range d.waiting {
		if slices.ContainsFunc(d.fired[w.root], func(f store.Fired) bool { return f.Name == w.after }) {
			w.count()
		} else {
			d.event(w.event).NotSent[ledger.Sequence]++
		}
	}
	for st, n := range d.noRule {
		st.Moves = n
		d.out.NoRule = append(d.out.NoRule, st)
	}
	slices.SortFunc(d.out.NoRule, func(a, b DryStage) int {
		if a.Moves != b.Moves {
			return b.Moves - a.Moves
		}
		return strings.Compare(a.Source+a.Pipeline+a.Stage, b.Source+b.Pipeline+b.Stage)
	})
}
