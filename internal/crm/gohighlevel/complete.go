package gohighlevel

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

// namesKept is how long the keys of an account's custom fields are believed.
const namesKept = 10 * time.Minute

// fieldNames are the keys of a location's custom fields, by id.
type fieldNames struct {
	keys map[string]string
	url  string
	at   time.Time
}

// person is a contact as GoHighLevel gives it.
type person struct {
	ID        word          `json:"id"`
	FirstName word          `json:"firstName"`
	LastName  word          `json:"lastName"`
	Name      word          `json:"name"`
	Email     word          `json:"email"`
	Phone     word          `json:"phone"`
	Address   word          `json:"address1"`
	City      word          `json:"city"`
	State     word          `json:"state"`
	Postcode  word          `json:"postalCode"`
	Country   word          `json:"country"`
	Company   word          `json:"companyName"`
	Source    word          `json:"source"`
	Added     word          `json:"dateAdded"`
	Tags      []word        `json:"tags"`
	Fields    []customValue `json:"customFields"`
}

// Complete reads the contact and, where the change does not name it, the opportunity.
func (c *CRM) Complete(ctx context.Context, a crm.Account, change *ledger.StageChange) error {
	deal, contact := crm.RecordID(change.Records, "opportunity"), crm.RecordID(change.Records, "contact")
	if deal != "" && contact == "" {
		var answer struct {
			Opportunity opportunity `json:"opportunity"`
		}
		if err := c.read(ctx, a, "the opportunity", "/opportunities/"+url.PathEscape(deal), &answer); err != nil {
			return err
		}
		o := answer.Opportunity
		change.Amount, change.Pipeline = cmp.Or(change.Amount, amount(o.Value)), cmp.Or(change.Pipeline, string(o.Pipeline))
		contact = string(cmp.Or(o.ContactID, o.Contact.ID))
	}
	if contact == "" {
		if deal == "" {
			return crm.Unread("the record", ledger.Refusal{Answer: ledger.Answer{Message: "the change names no opportunity and no contact"}})
		}
		change.Thin = false
		return nil // an opportunity without a contact
	}
	p, err := c.person(ctx, a, contact)
	if crm.IsGone(err) && deal != "" { // the opportunity's records are known by its id alone
		change.Thin = false
		return nil
	}
	if err != nil {
		return err
	}
	names, err := c.names(ctx, a)
	if err != nil {
		return err
	}
	p.tell(a, names, change)
	return nil
}

// tell writes whose change it is. What the hook said stays.
func (p *person) tell(a crm.Account, names map[string]string, c *ledger.StageChange) {
	c.Thin = false
	c.Contact = ledger.Contact{
		FullName: string(cmp.Or(p.Name, word(strings.TrimSpace(string(p.FirstName+" "+p.LastName))))), FirstName: string(p.FirstName), LastName: string(p.LastName),
		Email: string(p.Email), Phone: string(p.Phone), Street: string(p.Address), City: string(p.City), State: string(p.State), Postcode: string(p.Postcode),
		Country: string(p.Country), Company: string(p.Company),
	}
	if at := moment(p.Added); c.CreatedAt.IsZero() {
		c.CreatedAt = at
	}
	if r := records("contact", p.ID); len(r) > 0 && !slices.Contains(c.Records, r[0]) {
		c.Records = append(slices.Clone(c.Records), r[0])
	}
	fields := map[string]string{}
	if p.Source != "" {
		fields["source"] = string(p.Source)
	}
	if len(p.Tags) > 0 {
		tags := make([]string, 0, len(p.Tags))
		for _, t := range p.Tags {
			tags = append(tags, string(t))
		}
		fields["tags"] = strings.Join(tags, ", ")
	}
	for _, f := range p.Fields {
		if value := plain(f.Value); value != "" {
			fields[cmp.Or(names[string(f.ID)], string(f.ID))] = string(value)
		}
	}
	c.LeadID = cmp.Or(c.LeadID, strings.TrimPrefix(fields[leadIDField(a)], "l:"))
	if len(fields) > 0 {
		c.Fields = fields
	}
}

// read makes a GET and reads its answer.
func (c *CRM) read(ctx context.Context, a crm.Account, what, path string, into any) error {
	reply, o := c.call(ctx, a, crm.Private(a, nil), http.MethodGet, path, nil)
	if o != nil {
		if gone(reply) {
			answer := ledger.AnswerOf(o)
			answer.Status = http.StatusNotFound // some of its 400s mean that
			o = ledger.Refusal{Answer: answer}
		}
		return crm.UnreadRecord(what, o)
	}
	if json.Unmarshal(reply.Body, into) != nil {
		return crm.Unread(what, ledger.RetryAt{Reason: ledger.Backlog, Answer: ledger.Answer{Status: reply.Status, Message: "what answered is not GoHighLevel"}})
	}
	return nil
}

func (c *CRM) person(ctx context.Context, a crm.Account, id string) (*person, error) {
	var answer struct {
		Contact *person `json:"contact"`
	}
	if err := c.read(ctx, a, "the contact", "/contacts/"+url.PathEscape(id), &answer); err != nil {
		return nil, err
	}
	if answer.Contact == nil {
		return nil, crm.Unread("the contact", ledger.Refusal{Answer: ledger.Answer{Status: http.StatusNotFound, Message: "the answer holds no contact"}})
	}
	return answer.Contact, nil
}

// names returns the keys of the custom fields by id, from memory while they are believed. A
// token that may not ask has none.
func (c *CRM) names(ctx context.Context, a crm.Account) (map[string]string, error) {
	c.mu.Lock()
	known, ok := c.known[a.ID]
	c.mu.Unlock()
	if ok && known.url == address(a) && time.Since(known.at) < namesKept {
		return known.keys, nil
	}
	var have struct {
		Fields []struct {
			ID  word `json:"id"`
			Key word `json:"fieldKey"`
		} `json:"customFields"`
	}
	path := "/locations/" + url.PathEscape(a.Options.Text("location_id")) + "/customFields?model=contact"
	if err := c.read(ctx, a, "the custom fields", path, &have); err != nil {
		return nil, err
	}
	list := fieldNames{keys: map[string]string{}, url: address(a), at: time.Now()}
	for _, f := range have.Fields {
		list.keys[string(f.ID)] = bare(string(f.Key))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[a.ID] = list
	return list.keys, nil
}
