package record

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
)

// Decision is a person's word on consent, and by what the person is known.
type Decision struct {
	LeadID, Platform         string // Platform "": whichever has a lead of this id
	Email, Phone, ExternalID string
	Granted                  bool
}

// ConsentResult is what a decision changed.
type ConsentResult struct {
	Leads    int           // of the person
	Events   int           // that waited and are skipped now
	Problems capi.Problems // what could not be read; then nothing was done
}

// Consent writes a decision down. A withdrawal marks the person's leads, skips the
// waiting events and all later ones; a later grant lets events go again that come
// after it. The person is known by what the decision names and by the e-mails and
// phones of the leads that these lead to. Leads still go into CRMs: that is no
// advertising.
//
// An event that is being sent at this very moment goes, and so may one that another
// node records within the next seconds. A waiting event whose e-mail or phone the
// workspace's keys keep at home is found only by what leaves.
func (r *Recorder) Consent(ctx context.Context, ws *config.Workspace, d Decision) (ConsentResult, error) {
	p, problems := d.person(ws.Country)
	if len(problems) > 0 {
		return ConsentResult{Problems: problems}, nil
	}
	c := &store.Consent{Workspace: ws.ID, Granted: d.Granted, At: r.c.Clock.Now(), IDs: d.ids(ws.Ring), People: p.indexed(ws.Ring)}
	rows, err := r.c.Store.LeadsOf(ctx, ws.ID, c.IDs, c.People)
	if err != nil {
		return ConsentResult{}, fmt.Errorf("consent in workspace %s: %w", ws.Name, err)
	}
	for i := range rows {
		if err := p.add(ws, &rows[i]); err != nil {
			return ConsentResult{}, fmt.Errorf("consent in workspace %s: %w", ws.Name, err)
		}
	}
	if !d.Granted { // a grant speaks for the person who gave it, not for who shares the phone
		c.People = p.indexed(ws.Ring)
	}
	values := p.values()
	for _, v := range values {
		c.Hashes = append(c.Hashes, ws.Ring.Index(consentKind, v))
	}
	leads, events, err := r.c.Store.SetConsent(ctx, c, func(payload []byte) bool { return carries(payload, values) })
	if err != nil {
		return ConsentResult{}, fmt.Errorf("consent in workspace %s: %w", ws.Name, err)
	}
	return ConsentResult{Leads: leads, Events: events}, nil
}

// consentKind is what the ring's index calls the values of withdrawn consent.
const consentKind = "consent"

// person is what somebody is known by, normalised.
type person struct {
	emails, phones, external []string
	hashes                   []string // that came hashed
	leadIDs                  []string // of Meta: others' are in no event yet
}

// personOf returns what a lead says of its person.
func personOf(l *ledger.Lead, country string) *person {
	p := &person{}
	email, phone := l.Normalised(country)
	put(&p.emails, email)
	put(&p.phones, phone)
	if l.ExternalID != "" {
		_ = p.take(capi.KeyExternalID, l.ExternalID, capi.Locale{}) // as it came it is taken in any case
	}
	if l.Platform == "meta" {
		put(&p.leadIDs, l.LeadID)
	}
	return p
}

func put(list *[]string, value string) {
	if value != "" && !slices.Contains(*list, value) {
		*list = append(*list, value)
	}
}

// take normalises a value and keeps it; not nil says that it is none.
func (p *person) take(key capi.Key, raw string, where capi.Locale) *capi.Problem {
	n, problem := capi.NormaliseValue(key, raw, where)
	if key == capi.KeyExternalID {
		put(&p.external, raw) // leads are found by it as it came
	}
	list := map[capi.Key]*[]string{capi.KeyEmail: &p.emails, capi.KeyPhone: &p.phones, capi.KeyExternalID: &p.external}[key]
	for _, text := range n.Texts {
		put(list, text)
	}
	if n.Hash != "" {
		put(&p.hashes, strings.ToLower(n.Hash[:min(len(n.Hash), 64)]))
	}
	if len(n.Texts) > 0 || n.Hash != "" {
		return nil
	}
	if problem == nil {
		problem = &capi.Problem{Code: capi.ProblemInvalidID, Reason: "nothing is left of it", Fix: "send the whole value, or leave it out"}
	}
	return problem
}

// add adds what a lead in the store says of the person, unless it was cleared.
func (p *person) add(ws *config.Workspace, row *store.LeadRow) error {
	lead := row.Lead
	if row.Wrapped != nil && row.Sealed != nil {
		plain, err := ws.Ring.ReadLead(int64(lead.ID), row.Wrapped, row.Sealed)
		if err == nil {
			err = lead.Join(plain)
		}
		if err != nil {
			return fmt.Errorf("open lead %s: %w", lead.ID, err)
		}
	}
	more := personOf(&lead, ws.Country)
	for _, pair := range []struct{ to, from *[]string }{
		{&p.emails, &more.emails}, {&p.phones, &more.phones}, {&p.external, &more.external}, {&p.leadIDs, &more.leadIDs},
	} {
		for _, v := range *pair.from {
			put(pair.to, v)
		}
	}
	return nil
}

// indexed are the hashes by which leads of the person are found.
func (p *person) indexed(ring *secret.Ring) [][]byte {
	return slices.Concat(ofKind(ring, "email", p.emails), ofKind(ring, "phone", p.phones), ofKind(ring, "external_id", p.external))
}

func ofKind(ring *secret.Ring, kind string, values []string) [][]byte {
	var list [][]byte
	for _, v := range values {
		if hash := ring.Index(kind, v); hash != nil {
			list = append(list, hash)
		}
	}
	return list
}

// values are what an event of the person carries, as platform.Encoded has it.
func (p *person) values() []string {
	list := slices.Clone(p.hashes)
	for _, text := range slices.Concat(p.emails, p.phones, p.external) {
		put(&list, capi.HashText(text))
	}
	for _, id := range p.leadIDs {
		put(&list, leadValue+id)
	}
	return list
}

const leadValue = "lead/meta/"

// person reads what a decision names.
func (d *Decision) person(country string) (*person, capi.Problems) {
	p := &person{}
	var problems capi.Problems
	for _, v := range []struct {
		field string
		key   capi.Key
		raw   string
	}{{"email", capi.KeyEmail, d.Email}, {"phone", capi.KeyPhone, d.Phone}, {"external_id", capi.KeyExternalID, d.ExternalID}} {
		if v.raw == "" {
			continue
		}
		if problem := p.take(v.key, v.raw, capi.Locale{Country: country}); problem != nil {
			problem.Field, problem.Severity = v.field, capi.SeverityError
			problems = append(problems, *problem)
		}
	}
	if d.LeadID != "" && (d.Platform == "" || d.Platform == "meta") {
		put(&p.leadIDs, d.LeadID)
	}
	return p, problems
}

func (d *Decision) ids(ring *secret.Ring) [][]byte {
	if d.LeadID == "" {
		return nil
	}
	platforms := []string{d.Platform}
	if d.Platform == "" {
		platforms = []string{"", "meta", "google", "tiktok", "linkedin"}
	}
	var list [][]byte
	for _, p := range platforms {
		list = append(list, ring.Index("lead/"+p, d.LeadID))
	}
	return list
}

// carries tells whether a payload has one of a person's values in it.
func carries(payload []byte, values []string) bool {
	for _, v := range values {
		id, isLead := strings.CutPrefix(v, leadValue)
		if !isLead {
			if bytes.Contains(payload, []byte(v)) {
				return true
			}
			continue
		}
		for _, name := range []string{`"lead_id":`, `"lead_id":"`} {
			if _, rest, ok := bytes.Cut(payload, []byte(name+id)); ok && (len(rest) == 0 || rest[0] < '0' || rest[0] > '9') {
				return true
			}
		}
	}
	return false
}

// hasWithdrawn tells whether one of the values belongs to who withdrew consent.
func hasWithdrawn(ws *config.Workspace, withdrawn store.Withdrawn, values []string) bool {
	if len(withdrawn) == 0 || ws.Ring == nil {
		return false
	}
	return slices.ContainsFunc(values, func(v string) bool { return withdrawn.Has(ws.Ring.Index(consentKind, v)) })
}

// withdrawn lets a withdrawal hold for a later lead of the person that says nothing
// about consent.
func (r *Recorder) withdrawn(ctx context.Context, ws *config.Workspace, l *ledger.Lead, p *person) error {
	if l.Consent != ledger.ConsentAbsent {
		return nil
	}
	set, err := r.c.Store.Withdrawn(ctx, ws.ID)
	if err != nil {
		return fmt.Errorf("record for workspace %s: %w", ws.Name, err)
	}
	if len(set) > 0 && hasWithdrawn(ws, set, p.values()) {
		l.Consent = ledger.ConsentDenied
	}
	return nil
}
