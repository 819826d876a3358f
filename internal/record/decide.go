package record

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// judge is what the decision about a stage change needs besides the lead.
type judge struct {
	now       time.Time
	withdrawn store.Withdrawn
	guard     guard
}

// decide says what a stage change brings about. It is pure, but for the ids it makes.
func (r *Recorder) decide(ws *config.Workspace, m mover, c *ledger.StageChange, f *store.StageFacts, j *judge) (store.StageDecision, error) {
	lead, err := openLead(ws, f.Lead)
	if err != nil {
		return store.StageDecision{}, err
	}
	if lead.Test || c.Test {
		return store.StageDecision{Effect: ledger.EffectTest}, nil
	}
	stages := f.Stages
	if m.kind == ledger.KindMark { // not what happened to be used so far: Bad is passed by nobody
		stages = ledger.MarkStages()
	}
	rules, unmet := matching(ws.Rules, m.source, c, stages)
	history := isHistory(c, lead)
	d := store.StageDecision{Effect: ledger.EffectNoRule}
	if unmet {
		d.Effect = ledger.EffectCondition
	}
	if history {
		d.Effect = ledger.EffectHistory
	}
	o := &occasion{
		ws: ws, lead: lead, root: f.Root, metaID: f.MetaID, denied: f.Denied, withdrawn: j.withdrawn, source: m.source,
		crm: crmName(m), at: c.At, now: j.now, amount: c.Amount, currency: c.Currency, notBefore: c.NotBefore,
		wrapped: f.Lead.Wrapped,
	}
	fired := slices.Clone(f.Fired)
	for _, rule := range rules {
		if rule.Skipped && !history && !lead.History {
			for _, before := range jumpedOver(ws.Rules, rule, m.source, c, stages) {
				if err := r.fire(o, before, c, history, j, f, &fired, &d); err != nil {
					return d, err
				}
			}
		}
		if err := r.fire(o, rule, c, history, j, f, &fired, &d); err != nil {
			return d, err
		}
	}
	return d, nil
}

// fire makes the event of one rule, unless the lead's went before.
func (r *Recorder) fire(o *occasion, rule *ledger.Rule, c *ledger.StageChange, history bool, j *judge, f *store.StageFacts, fired *[]store.Fired, d *store.StageDecision) error {
	part := ""
	if rule.Again {
		part = cmp.Or(c.DealID, firstOfRecords(c))
	}
	if slices.ContainsFunc(*fired, func(x store.Fired) bool { return x.Name == rule.Event && x.Part == part }) {
		if d.Effect == ledger.EffectNoRule || d.Effect == ledger.EffectCondition {
			d.Effect = ledger.EffectAlreadySent
		}
		return nil
	}
	if history {
		d.Events = append(d.Events, store.LeadEvent{Name: rule.Event, Part: part, At: c.At})
		*fired = append(*fired, store.Fired{Name: rule.Event, Part: part, At: c.At})
		return nil
	}
	o.held = j.guard.judge(o.lead, rule, o, f.Around)
	made, err := r.leadEvent(o, rule, part, *fired)
	if err != nil {
		return err
	}
	d.Effect, d.Events = ledger.EffectEvent, append(d.Events, made)
	if !made.Unclaimed {
		*fired = append(*fired, store.Fired{Name: rule.Event, Part: part, Event: made.Event.ID, At: made.At})
	}
	return nil
}

func firstOfRecords(c *ledger.StageChange) string {
	if len(c.Records) == 0 {
		return ""
	}
	return c.Records[0]
}

// isHistory tells whether a moment lies before the connection. History marks moments, not
// people: what a lead of the past reaches later is sent.
func isHistory(c *ledger.StageChange, l *ledger.Lead) bool {
	return c.History || l.History && !c.At.After(l.ID.Time())
}

// matching returns the rules for a change, in the order of the file; unmet tells that the
// condition of one did not hold.
func matching(rules []ledger.Rule, source string, c *ledger.StageChange, stages []ledger.Stage) (list []*ledger.Rule, unmet bool) {
	labels, pipelines := namesOf(c, stages)
	for i := range rules {
		rule := &rules[i]
		if !rule.Matches(source, c, labels, pipelines) {
			continue
		}
		if !rule.Applies(c) {
			unmet = true
			continue
		}
		list = append(list, rule)
	}
	return list, unmet
}

// namesOf are the names that the change's stage and pipeline have or had.
func namesOf(c *ledger.StageChange, stages []ledger.Stage) (labels, pipelines []string) {
	labels, pipelines = []string{c.StageLabel}, []string{c.PipelineLabel}
	for _, st := range stages {
		if st.Pipeline == c.Pipeline && st.Field == c.Field {
			pipelines = append(pipelines, st.PipelineLabel)
			if st.ID == c.Stage {
				labels = append(append(labels, st.Label), st.Labels...)
			}
		}
	}
	none := func(s string) bool { return s == "" }
	return slices.DeleteFunc(labels, none), slices.DeleteFunc(pipelines, none)
}

// jumpedOver returns the rules before one, in the order of the file, whose stages stand
// before the change's in its pipeline: what the lead must have passed. A lost stage is
// passed by nobody.
func jumpedOver(rules []ledger.Rule, to *ledger.Rule, source string, c *ledger.StageChange, stages []ledger.Stage) []*ledger.Rule {
	position := -1
	for _, st := range stages {
		if st.ID == c.Stage && st.Pipeline == c.Pipeline && st.Field == c.Field {
			position = st.Position
		}
	}
	var list []*ledger.Rule
	for i := range rules {
		rule := &rules[i]
		if rule == to {
			break
		}
		if rule.Field != "" || rule.Stage == ledger.StageReceived || rule.CRM != "" && rule.CRM != source {
			continue
		}
		listed, passed := false, false
		for _, st := range stages {
			at := &ledger.StageChange{Pipeline: st.Pipeline, Stage: st.ID, Field: st.Field}
			labels, pipelines := namesOf(at, stages)
			if st.Pipeline != c.Pipeline || !rule.Matches(source, at, labels, pipelines) {
				continue
			}
			listed = true
			passed = passed || st.Meaning != ledger.MeaningLost && (st.Position < position || st.Position == position && st.ID != c.Stage)
		}
		// A stage that no list has stands where the file has it.
		if passed || !listed && (rule.Pipeline == "" || rule.Pipeline == to.Pipeline) {
			list = append(list, rule)
		}
	}
	return list
}

// openLead returns a lead with what is sealed of it; a cleared one has nothing.
func openLead(ws *config.Workspace, row *store.LeadRow) (*ledger.Lead, error) {
	lead := row.Lead
	if row.Wrapped == nil || row.Sealed == nil {
		return &lead, nil
	}
	plain, err := ws.Ring.ReadLead(int64(lead.ID), row.Wrapped, row.Sealed)
	if err == nil {
		err = lead.Join(plain)
	}
	if err != nil {
		return nil, fmt.Errorf("open lead %s: %w", lead.ID, errors.Join(errLeadSealed, err))
	}
	return &lead, nil
}

var errLeadSealed = errors.New("the lead cannot be opened with the keys that this server has; was it restored with another master key?")

// crmNames are what Meta is told a CRM is called.
var crmNames = map[string]string{"hubspot": "HubSpot", "pipedrive": "Pipedrive", "gohighlevel": "GoHighLevel", "kommo": "Kommo"}

func crmName(m mover) string { return cmp.Or(crmNames[m.kind], m.source) }
