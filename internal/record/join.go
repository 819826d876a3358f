package record

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// formWait is how long one copy of a form's event waits for the other: the tag's knows the
// browser, the lead's the person, and Meta counts only the one that comes first.
const formWait = 10 * time.Second

// eventKind is what the ring's index calls the tag's id that a lead came with.
const eventKind = "event_id"

// tagged tells whether a website of the workspace has the tag.
func tagged(ws *config.Workspace) bool {
	return slices.ContainsFunc(ws.Sources, func(s *config.Source) bool { return s.Kind == "website" && s.Options.Text("site") != "" })
}

// receives tells whether leads are reported by an event of this name when they come in.
func receives(ws *config.Workspace, event string) bool {
	return slices.ContainsFunc(ws.Rules, func(rule ledger.Rule) bool { return rule.Stage == ledger.StageReceived && rule.Event == event })
}

// joinLead lets a lead's events take the places of the tag's copies that wait for them. It
// is done anew when the lead is sent again, so that a crash before it is made good.
func (r *Recorder) joinLead(ctx context.Context, ws *config.Workspace, id ledger.ID, l *ledger.Lead, now time.Time) error {
	if l.EventID == "" || l.Test || l.History || !tagged(ws) {
		return nil
	}
	for i := range ws.Rules {
		if rule := &ws.Rules[i]; rule.Stage == ledger.StageReceived {
			if err := r.join(ctx, ws, rule, &meeting{lead: id, eventID: l.EventID, now: now}); err != nil {
				return err
			}
		}
	}
	return nil
}

// joinForms adds what the tag's copies of forms' events say to those of leads that came
// before them.
func (r *Recorder) joinForms(ctx context.Context, ws *config.Workspace, items []Item, results []Result, now time.Time) error {
	if ws.Ring == nil {
		return nil
	}
	for i := range items {
		item, res := &items[i], &results[i]
		// Also where the page reports by itself, without a word of a form.
		if !item.Form && (!res.Duplicate || item.Event.ActionSource != capi.ActionSourceWebsite) || res.Rejected != nil {
			continue
		}
		m := &meeting{eventID: res.EventID, now: now}
		switch unsent := r.unsent(item); {
		case res.State == ledger.Skipped && res.Reason == ledger.NoConsent:
			withdrawn := unsent == ledger.None && item.Consent.Consent.Allows(ws.ConsentRequired)
			if m.denied = withdrawn || item.Consent.Consent == ledger.ConsentDenied; !m.denied {
				continue
			}
		case unsent != ledger.None:
			continue
		default:
			m.tag = item.Event
		}
		for n := range ws.Rules {
			rule := &ws.Rules[n]
			if rule.Stage != ledger.StageReceived || rule.Event != res.EventName {
				continue
			}
			var err error
			if m.lead, err = r.c.Store.LeadOfEvent(ctx, ws.ID, ws.Ring.Index(eventKind, m.eventID)); err == nil && m.lead != 0 {
				err = r.join(ctx, ws, rule, m)
			}
			if err != nil {
				return fmt.Errorf("record for workspace %s: %w", ws.Name, err)
			}
		}
	}
	return nil
}

// meeting is of the two copies of a form's event.
type meeting struct {
	lead    ledger.ID
	eventID string
	tag     *capi.Event // as it is sent; nil: it is in the row that waits
	denied  bool        // the tag's visitor refused
	now     time.Time
}

// join makes one event of both copies, if one of them waits for the other.
func (r *Recorder) join(ctx context.Context, ws *config.Workspace, rule *ledger.Rule, m *meeting) error {
	withdrawn, err := r.c.Store.Withdrawn(ctx, ws.ID)
	if err != nil {
		return err
	}
	destinations := make([]int64, len(ws.Datasets))
	for i, ds := range ws.Datasets {
		destinations[i] = ds.ID
	}
	return r.c.Store.JoinCopies(ctx, &store.Join{
		Workspace: ws.ID, Lead: m.lead, Name: rule.Event, EventID: m.eventID, Destinations: destinations, Now: m.now,
		Merge: func(f *store.StageFacts, waiting []store.WaitingCopy) (*store.Joined, error) {
			return r.merge(ws, rule, m, f, waiting, withdrawn)
		},
	})
}

// merge makes the event of a lead as at its receipt, with what the tag knows of the
// browser; nil where the two are not of one form.
func (r *Recorder) merge(ws *config.Workspace, rule *ledger.Rule, m *meeting, f *store.StageFacts, waiting []store.WaitingCopy, withdrawn store.Withdrawn) (*store.Joined, error) {
	lead, err := openLead(ws, f.Lead)
	if err != nil || f.Lead.Sealed == nil || lead.EventID != m.eventID || lead.Test || lead.History {
		return nil, err
	}
	if lead.Consent == ledger.ConsentAbsent && ws.ConsentRequired && !m.denied {
		return nil, nil // who agreed on the page alone is reported by the page's copy alone
	}
	tag, rows := m.tag, make(map[int64]ledger.ID, len(waiting))
	for _, c := range waiting {
		rows[c.Destination] = c.ID
		if tag != nil || m.denied || c.Payload == nil {
			continue
		}
		tag = &capi.Event{}
		if err := tag.UnmarshalJSON(c.Payload); err != nil {
			return nil, fmt.Errorf("read the tag's copy of an event: %w", err)
		}
	}
	joined := &store.Joined{}
	switch {
	case tag != nil && r.apart(ws, lead, tag), tag == nil && !m.denied:
		return nil, nil
	case tag != nil:
		if joined.Sealed, err = withClicks(ws, f.Lead, lead, tag); err != nil {
			return nil, err
		}
		seen := *lead
		seen.IP, seen.UserAgent, seen.PageURL = tag.UserData.ClientIPAddress, tag.UserData.ClientUserAgent, tag.EventSourceURL
		lead = &seen
	}
	o := receiptOf(ws, lead, m.now)
	o.root, o.metaID, o.denied, o.withdrawn, o.wrapped = f.Root, f.MetaID, f.Denied || m.denied, withdrawn, f.Lead.Wrapped
	o.tag, o.rows = tag, rows
	joined.LeadEvent, err = r.leadEvent(o, rule, "", f.Fired)
	return joined, err
}

// apart tells whether a lead and the tag's copy are of two people: a page that a cache
// keeps hands one id to all of them.
func (r *Recorder) apart(ws *config.Workspace, l *ledger.Lead, tag *capi.Event) bool {
	p := personOf(l, ws.Country)
	other := func(known, said []string) bool {
		return len(known) > 0 && len(said) > 0 && !slices.ContainsFunc(known, func(text string) bool { return slices.Contains(said, capi.HashText(text)) })
	}
	one, two := r.prints.FBP(l.Clicks.FBP), r.prints.FBP(tag.UserData.FBP)
	return other(p.emails, tag.UserData.Email) || other(p.phones, tag.UserData.Phone) || one != 0 && two != 0 && one != two
}

// withClicks adds the tag's click ids to a lead, for what the CRM says of it later, and
// returns what is sealed of it then; nil: nothing is new.
func withClicks(ws *config.Workspace, row *store.LeadRow, l *ledger.Lead, tag *capi.Event) ([]byte, error) {
	if !l.FillFrom(&ledger.Lead{Clicks: ledger.Clicks{FBC: tag.UserData.FBC, FBP: tag.UserData.FBP}}) {
		return nil, nil
	}
	_, plain, err := l.Split()
	if err != nil {
		return nil, err
	}
	key, err := ws.Ring.OpenLead(int64(l.ID), row.Wrapped)
	if err != nil {
		return nil, fmt.Errorf("open lead %s: %w", l.ID, err)
	}
	return ws.Ring.ReSealLead(int64(l.ID), key, plain), nil
}

// addTag adds to a lead's event what the tag alone knows: the browser's click ids, what
// the page says of the event, and limits on the use of it. What the lead says goes before.
func addTag(e, tag *capi.Event) {
	u, t := &e.UserData, &tag.UserData
	for _, v := range []struct{ to, from *[]string }{{&u.Email, &t.Email}, {&u.Phone, &t.Phone}, {&u.ExternalID, &t.ExternalID}} {
		if len(*v.to) == 0 {
			*v.to = slices.Clone(*v.from)
		}
	}
	if t.FBC != "" {
		u.FBC = t.FBC
	}
	if t.FBP != "" {
		u.FBP = t.FBP
	}
	e.ReferrerURL = tag.ReferrerURL
	e.DataProcessingOptions, e.DataProcessingOptionsCountry, e.DataProcessingOptionsState = tag.DataProcessingOptions, tag.DataProcessingOptionsCountry, tag.DataProcessingOptionsState
	if tag.CustomData != nil {
		about := *tag.CustomData
		e.CustomData = &about
	}
}
