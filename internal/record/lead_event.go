package record

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/platform"
	"github.com/capiloop/capiloop/internal/store"
)

// Codes of the notes that an event made of a lead can carry.
const (
	ProblemBeforeLead    = "time_before_lead"
	ProblemBeforeStage   = "time_before_predecessor"
	ProblemOutsideWindow = "outside_meta_window"
)

// metaWindow is how long after the lead a conversion still counts for Meta's Conversion
// Leads (page "Conversion Leads integration", requirements).
const metaWindow = 28 * 24 * time.Hour

// occasion is why an event is made of a lead.
type occasion struct {
	ws        *config.Workspace
	lead      *ledger.Lead // opened
	root      ledger.ID
	metaID    string
	denied    bool
	withdrawn store.Withdrawn
	source    string // what the book calls it by
	crm       string // the CRM's name, for Meta
	at        time.Time
	receipt   bool // the lead has just come in
	now       time.Time
	amount    string
	currency  string
	held      ledger.Reason // the guard's
	notBefore time.Time     // its events wait until then
	wrapped   []byte        // the lead's key; nil: it was cleared

	// Where the tag's copy of the event is at hand: what it says, and by destination the
	// deliveries in whose place the event goes.
	tag  *capi.Event
	rows map[int64]ledger.ID
}

// leadEvent makes the event of a rule. It always comes back with deliveries: those that
// can go, and those that cannot, each with its reason.
func (r *Recorder) leadEvent(o *occasion, rule *ledger.Rule, part string, fired []store.Fired) (store.LeadEvent, error) {
	var notes capi.Problems
	at, state, why := o.moment(&notes)
	sequence := false
	if rule.After != "" {
		at, sequence = o.follow(rule, at, fired, &notes)
	}
	e := o.event(rule, part, at)
	out := &ledger.Event{
		ID: r.c.IDs.Next(), Workspace: o.ws.ID, Source: o.source, Name: e.EventName, EventID: e.EventID, Time: at,
		ActionSource: string(e.ActionSource), Came: e.UserData.Keys(), Consent: ledger.Decision{Consent: o.lead.Consent, By: ledger.ByLead}.String(),
	}
	made := store.LeadEvent{Name: rule.Event, Part: part, At: at, Event: out, Shared: o.receipt && o.lead.EventID != ""}
	if sequence {
		made.After = rule.After
	}
	if at.Sub(o.lead.CreatedAt) > metaWindow {
		notes = append(notes, timeNote(ProblemOutsideWindow, "it happened more than 28 days after the lead: outside of the window in which Meta counts conversions of leads", "nothing; Meta may still learn from it"))
	}
	away := !rule.RouteAll && !o.reaches()
	made.Unclaimed = away
	for n, ds := range o.datasets(rule) {
		copied := *e
		x := r.c.Platforms[ds.Kind].Encode(&copied, platform.Rules{Locale: capi.Locale{Country: o.ws.Country, Now: later(o.now, at)}, Keys: o.ws.Keys, People: len(o.withdrawn) > 0})
		out.Person = r.prints.Person(x.PersonBy, x.Person)
		d := ledger.Delivery{
			ID: cmp.Or(o.rows[ds.ID], out.ID.Delivery(n+1)), Destination: ds.ID, State: ledger.Waiting, Payload: x.Payload, Kept: x.Kept,
			Notes: slices.Concat(notes, x.Problems), Priority: ledger.PriorityOf(&copied), Deadline: ledger.Deadline(at, e.ActionSource),
			Envelope: ledger.Envelope{TestCode: ds.TestEventCode},
		}
		switch {
		case o.denied, !o.lead.Consent.Allows(o.ws.ConsentRequired), hasWithdrawn(o.ws, o.withdrawn, x.People):
			skip(&d, ledger.NoConsent)
		case away:
			skip(&d, ledger.OtherPlatform)
		case !ds.Live:
			skip(&d, ledger.NotLive)
		case state == ledger.Failed:
			fail(&d, why)
		case x.Kept == 0:
			fail(&d, ledger.NoMatchKey)
		case len(onlyErrors(x.Problems)) > 0:
			fail(&d, ledger.Refused)
		case state == ledger.Held:
			d.State, d.Reason, d.DueAt = state, why, at
		case o.held != ledger.None:
			d.State, d.Reason = ledger.Held, o.held
		case sequence:
			d.State, d.Reason, d.DueAt = ledger.Held, ledger.Sequence, o.notBefore
		default:
			d.DueAt = o.notBefore
		}
		if len(d.Payload) > 0 && o.wrapped != nil {
			sealed, err := o.ws.Ring.SealCopy(int64(o.lead.ID), int64(d.ID), o.wrapped, d.Payload)
			if err != nil {
				return made, fmt.Errorf("seal the event of lead %s: %w", o.lead.ID, err)
			}
			d.Payload = store.SealedPayload(o.lead.ID, sealed)
		}
		out.Deliveries = append(out.Deliveries, d)
	}
	if len(out.Deliveries) == 0 {
		out.Deliveries = append(out.Deliveries, nowhere(out.ID))
	}
	return made, nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func timeNote(code, reason, fix string) capi.Problem {
	return capi.Problem{Field: "event_time", Code: code, Severity: capi.SeverityWarning, Reason: reason, Fix: fix}
}

// fail empties a delivery that can never be sent.
func fail(d *ledger.Delivery, why ledger.Reason) {
	d.State, d.Reason, d.Payload, d.Kept = ledger.Failed, why, nil, 0
}

// moment says when the event happened, and whether that can be sent. The only re-dating
// there is: seconds ahead become now, and up to ten minutes before the lead (two clocks)
// becomes just after it.
func (o *occasion) moment(notes *capi.Problems) (at time.Time, state ledger.State, why ledger.Reason) {
	at = o.at.Truncate(time.Second)
	created := o.lead.CreatedAt.Truncate(time.Second)
	switch ahead := at.Sub(o.now); {
	case ahead > maxAhead:
		*notes = append(*notes, timeNote(ProblemTimeAhead, "the time lies more than a minute ahead; the event waits until then", "set the clock of the CRM"))
		return at, ledger.Held, ledger.ClockAhead
	case ahead > 0:
		at = o.now.Truncate(time.Second)
		*notes = append(*notes, timeNote(ProblemTimeClamped, "the time lay a few seconds ahead and was set to the moment of receipt", "set the clock of the CRM"))
	}
	if at.Before(created) && !o.receipt {
		if created.Sub(at) > ledger.ClockSkew {
			return at, ledger.Failed, ledger.InvalidTime
		}
		at = created.Add(time.Second)
		*notes = append(*notes, timeNote(ProblemBeforeLead, "the CRM's time lay before the lead came in and was set to a second after it: Meta drops events from before their lead", "set the clocks of the CRM and of the lead's source"))
	}
	if at.After(o.now) { // the clock of the lead's source is ahead
		return at, ledger.Held, ledger.ClockAhead
	}
	if !ledger.Deadline(at, o.action()).After(o.now) {
		return at, ledger.Failed, ledger.Expired
	}
	return at, ledger.Waiting, ledger.None
}

// follow keeps the order that a rule asks for: not before its predecessor, in time and in
// sending. wait tells that the predecessor must be waited for.
func (o *occasion) follow(rule *ledger.Rule, at time.Time, fired []store.Fired, notes *capi.Problems) (t time.Time, wait bool) {
	for _, f := range fired {
		if f.Name != rule.After {
			continue
		}
		if before := f.At.Truncate(time.Second); at.Before(before) {
			at = before
			*notes = append(*notes, timeNote(ProblemBeforeStage, "the CRM's time lay before that of "+rule.After+", which must go before; it was set to that", "nothing, unless the CRM's times are wrong"))
		}
		return at, f.Event != 0
	}
	return at, true
}

// reaches tells whether Meta is to hear of the lead: one that came from its ads, or whose
// origin nobody knows because a CRM or a caller brought it.
func (o *occasion) reaches() bool {
	c := &o.lead.Clicks
	if o.metaID != "" || c.FBC != "" || c.FBP != "" || c.FBClid != "" || c.CTWAClid != "" {
		return true
	}
	switch o.lead.Platform {
	case "meta":
		return true
	case "":
		return o.lead.Kind != "website" && c.GClid == "" && c.GBraid == "" && c.WBraid == "" && c.TTClid == "" && c.LiFatID == "" && c.MSClkid == ""
	}
	return false
}

func (o *occasion) datasets(rule *ledger.Rule) []*config.Dataset {
	if len(rule.Datasets) == 0 {
		return o.ws.Datasets
	}
	var list []*config.Dataset
	for _, d := range o.ws.Datasets {
		if slices.Contains(rule.Datasets, d.Name) {
			list = append(list, d)
		}
	}
	return list
}

// action is where Meta is told that it happened: what a website reports at once is of the
// website, what a CRM says is of the CRM.
func (o *occasion) action() capi.ActionSource {
	if o.receipt && o.metaID == "" && o.lead.PageURL != "" {
		return capi.ActionSourceWebsite
	}
	return capi.ActionSourceSystemGenerated
}

// event builds what Meta is told. Names never: only what may leave of a lead that the
// product itself reports.
func (o *occasion) event(rule *ledger.Rule, part string, at time.Time) *capi.Event {
	l := o.lead
	e := &capi.Event{EventName: rule.Event, EventTime: at.Unix(), EventID: o.eventID(rule, part), ActionSource: o.action()}
	u := &e.UserData
	for _, v := range []string{l.Contact.Email, l.Contact.WorkEmail} {
		put(&u.Email, strings.TrimSpace(v))
	}
	for _, v := range []string{l.Contact.Phone, l.Contact.WorkPhone} {
		put(&u.Phone, strings.TrimSpace(v))
	}
	put(&u.ExternalID, l.ExternalID)
	u.LeadID, u.FBC, u.FBP, u.CTWAClid = o.metaID, l.Clicks.FBC, l.Clicks.FBP, l.Clicks.CTWAClid
	if u.FBC == "" && l.Clicks.FBClid != "" { // the form Meta's page "fbp and fbc" gives for it
		u.FBC = "fb.1." + strconv.FormatInt(l.CreatedAt.UnixMilli(), 10) + "." + l.Clicks.FBClid
	}
	if e.ActionSource == capi.ActionSourceWebsite {
		e.EventSourceURL, u.ClientIPAddress, u.ClientUserAgent = l.PageURL, l.IP, l.UserAgent
	}
	if o.tag != nil {
		addTag(e, o.tag)
	}
	if o.metaID != "" { // Meta's Conversion Leads form: only with both fields, and only with its lead id
		if e.CustomData == nil {
			e.CustomData = &capi.CustomData{}
		}
		e.CustomData.EventSource, e.CustomData.LeadEventSource = "crm", o.crm
	}
	if amount, currency := o.value(rule); amount != "" {
		if e.CustomData == nil {
			e.CustomData = &capi.CustomData{}
		}
		e.CustomData.Value, e.CustomData.Currency = amount, currency
	}
	return e
}

// value is what the event is worth by its rule; without a currency it is worth nothing.
func (o *occasion) value(rule *ledger.Rule) (amount, currency string) {
	switch rule.Value {
	case ledger.ValueFixed:
		amount, currency = rule.Amount, firstWord(rule.Currency, o.ws.Currency)
	case ledger.ValueDeal:
		amount, currency = o.amount, firstWord(rule.Currency, o.currency, o.ws.Currency)
	case ledger.ValueNone:
	}
	if amount == "" || currency == "" {
		return "", ""
	}
	return amount, currency
}

func firstWord(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

// eventID is the same however often the event is made: after a restart, by another node,
// out of a second import. The tag's id stands for the one event that the browser reports
// as well.
func (o *occasion) eventID(rule *ledger.Rule, part string) string {
	if o.receipt && o.lead.EventID != "" {
		return o.lead.EventID
	}
	whose := o.root.String()
	if o.root == o.lead.ID && o.lead.LeadID != "" {
		whose = o.lead.Platform + "/" + o.lead.LeadID
	}
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s\x00%s\x00%s", whose, rule.Event, part)))
	return "lead." + hex.EncodeToString(sum[:16])
}
