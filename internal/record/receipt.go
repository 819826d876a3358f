package record

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// receiptEvents makes the events of the rules for the stage "received". History only
// marks them as made.
func (r *Recorder) receiptEvents(ctx context.Context, ws *config.Workspace, l *ledger.Lead, wrapped []byte, now time.Time) ([]store.LeadEvent, error) {
	if l.Test {
		return nil, nil
	}
	withdrawn, err := r.c.Store.Withdrawn(ctx, ws.ID)
	if err != nil {
		return nil, err
	}
	o := receiptOf(ws, l, now)
	o.root, o.withdrawn, o.wrapped = l.ID, withdrawn, wrapped
	if l.EventID != "" && l.UserAgent == "" && tagged(ws) {
		o.notBefore = now.Add(formWait)
	}
	if l.Platform == "meta" {
		o.metaID = l.LeadID
	}
	return r.receive(o, nil)
}

func receiptOf(ws *config.Workspace, l *ledger.Lead, now time.Time) *occasion {
	o := &occasion{ws: ws, lead: l, source: l.Source, crm: crmOf(ws), at: l.CreatedAt, receipt: true, now: now}
	if isTestName(l) && !ws.Guard.Off {
		o.held = ledger.TestName
	}
	return o
}

func (r *Recorder) receive(o *occasion, fired []store.Fired) ([]store.LeadEvent, error) {
	var list []store.LeadEvent
	for i := range o.ws.Rules {
		rule := &o.ws.Rules[i]
		made := func(f store.Fired) bool { return f.Name == rule.Event && f.Part == "" }
		if rule.Stage != ledger.StageReceived || slices.ContainsFunc(fired, made) {
			continue
		}
		if o.lead.History {
			list = append(list, store.LeadEvent{Name: rule.Event, At: o.at})
		} else {
			made, err := r.leadEvent(o, rule, "", fired)
			if err != nil {
				return nil, err
			}
			list = append(list, made)
		}
		fired = append(fired, store.Fired{Name: rule.Event, At: o.at})
	}
	return list, nil
}

// reconsider makes the events of a lead's receipt that its first touch could not: an
// enquiry by the website goes nowhere, until the same person's by Meta's form joins it.
func (r *Recorder) reconsider(ctx context.Context, ws *config.Workspace, id ledger.ID, now time.Time) error {
	if !slices.ContainsFunc(ws.Rules, func(rule ledger.Rule) bool { return rule.Stage == ledger.StageReceived }) {
		return nil
	}
	withdrawn, err := r.c.Store.Withdrawn(ctx, ws.ID)
	if err != nil {
		return err
	}
	return r.c.Store.Reconsider(ctx, ws.ID, id, func(f *store.StageFacts) (store.StageDecision, error) {
		lead, err := openLead(ws, f.Lead)
		if err != nil {
			return store.StageDecision{}, err
		}
		o := receiptOf(ws, lead, now)
		o.root, o.metaID, o.denied, o.withdrawn, o.wrapped = f.Root, f.MetaID, f.Denied, withdrawn, f.Lead.Wrapped
		events, err := r.receive(o, f.Fired)
		if err != nil {
			return store.StageDecision{}, err
		}
		// What still goes nowhere is in the book already.
		return store.StageDecision{Events: slices.DeleteFunc(events, func(e store.LeadEvent) bool { return e.Unclaimed })}, nil
	})
}

// crmOf is what Meta is told that leads are kept in.
func crmOf(ws *config.Workspace) string {
	for _, c := range ws.CRMs {
		if name := crmNames[c.Kind]; name != "" {
			return name
		}
	}
	for _, c := range ws.CRMs {
		return cmp.Or(c.Name, "Capiloop")
	}
	return "Capiloop"
}
