package pipedrive

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

// fieldLooked is how long it is believed that a company has no field for the lead's id.
const fieldLooked = time.Hour

// knownKey is the key of the field for the lead's id, if no call is needed to know it.
func (p *Pipedrive) knownKey(a crm.Account) string {
	if key := a.Options.Text("lead_id_field"); key != "" {
		return key
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[a.ID]
}

// leadKey is fieldKey for reading: a company without the field has just no lead ids.
func (p *Pipedrive) leadKey(ctx context.Context, a crm.Account) (string, error) {
	if key := p.knownKey(a); key != "" {
		return key, nil
	}
	p.mu.Lock()
	looked := p.looked[a.ID]
	p.mu.Unlock()
	if time.Since(looked) < fieldLooked {
		return "", nil
	}
	key, o := p.fieldKey(ctx, a)
	if hold, ok := o.(ledger.Hold); ok && hold.Reason == ledger.FieldMissing {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.looked[a.ID] = time.Now()
		return "", nil
	}
	if o != nil {
		return "", crm.Unread("the deal fields", o)
	}
	return key, nil
}

// Complete reads whose deal it is, and what the hook left out. Stage, moment, amount and
// currency stay as the hook had them.
func (p *Pipedrive) Complete(ctx context.Context, a crm.Account, c *ledger.StageChange) error {
	key, err := p.leadKey(ctx, a)
	if err != nil {
		return err
	}
	if err := p.label(ctx, a, c); err != nil {
		return err
	}
	who := crm.RecordID(c.Records, "person")
	if who == "" || c.LeadID == "" && key != "" || c.Amount == "" || len(a.Options.List("read")) > 0 {
		id := cmp.Or(crm.RecordID(c.Records, "deal"), c.DealID)
		if id == "" {
			return crm.Unread("the deal", ledger.Refusal{Answer: ledger.Answer{Message: "the change names no deal"}})
		}
		d, raw, err := p.deal(ctx, a, id)
		if err != nil {
			return err
		}
		c.LeadID = cmp.Or(c.LeadID, string(d.Custom[key]))
		c.CreatedAt = cmp.Or(c.CreatedAt, moment(d.Added))
		c.Pipeline = cmp.Or(c.Pipeline, string(d.Pipeline))
		if c.Amount == "" {
			c.Amount, c.Currency = crm.Decimal(string(d.Value)), cmp.Or(strings.ToUpper(string(d.Currency)), c.Currency)
		}
		for _, r := range d.records() {
			if r != "" && !slices.Contains(c.Records, r) {
				c.Records = append(slices.Clone(c.Records), r)
			}
		}
		takeFields(a, c, raw)
		who = crm.RecordID(c.Records, "person")
	}
	if who != "" {
		x, err := p.individual(ctx, a, who)
		// A deal whose person is gone is still a deal: the lead's id may be enough.
		if err != nil && !crm.IsGone(err) {
			return err
		}
		if err == nil {
			x.take(a, c, personKeys(a))
		}
	}
	c.Thin = false
	return nil
}

// individual is a person as it is read: version 2 has emails and phones, version 1 email
// and phone.
type individual struct {
	Name      plain     `json:"name"`
	FirstName plain     `json:"first_name"`
	LastName  plain     `json:"last_name"`
	Emails    []address `json:"emails"`
	Phones    []address `json:"phones"`
	Custom    custom    `json:"custom_fields"`
	raw       json.RawMessage
}

type address struct {
	Value   plain `json:"value"`
	Primary bool  `json:"primary"`
}

// take fills in whose deal it is.
func (x *individual) take(a crm.Account, c *ledger.StageChange, keys []string) {
	c.Contact = ledger.Contact{FullName: string(x.Name), FirstName: string(x.FirstName), LastName: string(x.LastName)}
	c.Contact.Email, c.Contact.WorkEmail = firstTwo(x.Emails)
	c.Contact.Phone, c.Contact.WorkPhone = firstTwo(x.Phones)
	for _, key := range keys {
		c.LeadID = cmp.Or(c.LeadID, string(x.Custom[key]))
	}
	takeFields(a, c, x.raw)
}

// firstTwo returns the primary address and one more.
func firstTwo(list []address) (first, second string) {
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(x, y address) int {
		switch {
		case x.Primary && !y.Primary:
			return -1
		case y.Primary && !x.Primary:
			return 1
		}
		return 0
	})
	var texts []string
	for _, one := range sorted {
		if text := strings.TrimSpace(string(one.Value)); text != "" && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	texts = append(texts, "", "")
	return texts[0], texts[1]
}

// personKeys are the person's own fields that Deliver fills with the lead's id.
func personKeys(a crm.Account) []string {
	var keys []string
	for key, source := range a.Options.Map("fields") {
		if source = strings.TrimSpace(source); source == "id" || source == "lead_id" {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// takeFields takes what rules ask for: a field of the record, or a custom one by its key.
// The deal's own value goes before the person's.
func takeFields(a crm.Account, c *ledger.StageChange, raw json.RawMessage) {
	names := a.Options.List("read")
	if len(names) == 0 {
		return
	}
	var all map[string]plain
	var own struct {
		Custom custom `json:"custom_fields"`
	}
	_ = json.Unmarshal(raw, &all)
	_ = json.Unmarshal(raw, &own)
	for _, name := range names {
		value := string(cmp.Or(own.Custom[name], all[name]))
		if value == "" || c.Fields[name] != "" {
			continue
		}
		if c.Fields == nil {
			c.Fields = map[string]string{}
		}
		c.Fields[name] = value
	}
}

func (p *Pipedrive) deal(ctx context.Context, a crm.Account, id string) (*deal, json.RawMessage, error) {
	raw, err := p.record(ctx, a, "the deal", "/api/v2/deals/"+url.PathEscape(id))
	if err != nil {
		return nil, nil, err
	}
	var d deal
	if json.Unmarshal(raw, &d) != nil || record("deal", d.ID) == "" {
		return nil, nil, strangeAnswer("the deal")
	}
	return &d, raw, nil
}

func (p *Pipedrive) individual(ctx context.Context, a crm.Account, id string) (*individual, error) {
	raw, err := p.record(ctx, a, "the person", "/api/v2/persons/"+url.PathEscape(id))
	if err != nil {
		return nil, err
	}
	x := individual{raw: raw}
	if json.Unmarshal(raw, &x) != nil {
		return nil, strangeAnswer("the person")
	}
	return &x, nil
}

// record reads one record.
func (p *Pipedrive) record(ctx context.Context, a crm.Account, what, path string) (json.RawMessage, error) {
	r, err := p.do(ctx, a, http.MethodGet, path, nil)
	if err := crm.UnreadRecord(what, classify(r, err, crm.Private(a, nil))); err != nil {
		return nil, err
	}
	var one struct {
		Data json.RawMessage `json:"data"`
	}
	if json.Unmarshal(r.Body, &one) != nil || len(one.Data) == 0 || one.Data[0] != '{' {
		return nil, strangeAnswer(what)
	}
	return one.Data, nil
}

// strangeAnswer is a success that is not what was asked for: something between us and
// Pipedrive has answered.
func strangeAnswer(what string) error {
	return crm.Unread(what, ledger.RetryAt{Reason: ledger.Backlog, Answer: ledger.Answer{Status: http.StatusOK, Message: "the answer cannot be read"}})
}
