package kommo

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

// currencyKept is how long it is believed in what an account counts.
const currencyKept = time.Hour

type currency struct {
	code, url string
	at        time.Time
}

// readField is a custom field of a record with its names.
type readField struct {
	ID     int64  `json:"field_id"`
	Name   string `json:"field_name"`
	Code   string `json:"field_code"`
	Values []struct {
		Value any  `json:"value"`
		Enum  word `json:"enum_id"`
	} `json:"values"`
}

// readLead is a lead as the API gives it.
type readLead struct {
	ID       json.Number `json:"id"`
	Price    json.Number `json:"price"`
	Status   json.Number `json:"status_id"`
	Pipeline json.Number `json:"pipeline_id"`
	Created  json.Number `json:"created_at"`
	Updated  json.Number `json:"updated_at"`
	Closed   json.Number `json:"closed_at"`
	By       json.Number `json:"updated_by"`
	Deleted  bool        `json:"is_deleted"`
	Fields   []readField `json:"custom_fields_values"` // null where there are none
	Embedded struct {
		Contacts []struct {
			ID   json.Number `json:"id"`
			Main bool        `json:"is_main"`
		} `json:"contacts"`
	} `json:"_embedded"`
}

type readContact struct {
	ID        json.Number `json:"id"`
	Name      string      `json:"name"`
	FirstName string      `json:"first_name"`
	LastName  string      `json:"last_name"`
	Fields    []readField `json:"custom_fields_values"`
}

// Complete reads the lead, its contact and the account's currency.
func (c *CRM) Complete(ctx context.Context, a crm.Account, change *ledger.StageChange) error {
	id := crm.RecordID(change.Records, "lead")
	if id == "" {
		return crm.Unread("the lead", ledger.Refusal{Answer: ledger.Answer{Message: "the change names no lead"}})
	}
	var l readLead
	found, err := c.read(ctx, a, "the lead", "/leads/"+url.PathEscape(id)+"?with=contacts", &l)
	if err != nil {
		return err
	}
	if !found || l.Deleted {
		return missing("the lead")
	}
	var who *readContact
	if contact := l.contact(); contact != "" {
		who = &readContact{}
		found, err := c.read(ctx, a, "the contact", "/contacts/"+url.PathEscape(contact), who)
		if err != nil && !crm.IsGone(err) { // a lead whose contact is gone is still a lead
			return err
		}
		if err != nil || !found {
			who = nil
		}
	}
	l.tell(a, who, change)
	if change.Amount != "" && change.Currency == "" {
		if change.Currency, err = c.currencyOf(ctx, a); err != nil {
			return err
		}
	}
	if change.Field != "" {
		if err := c.date(ctx, a, &l, change); err != nil {
			return err
		}
	}
	change.Thin = false
	return nil
}

// missing is the error for a record that is not there: Kommo answers 204 for it, or 404.
func missing(what string) error {
	return crm.UnreadRecord(what, ledger.Refusal{Answer: ledger.Answer{Status: http.StatusNotFound, Message: "it is not there any more"}})
}

// contact is the id of the lead's main contact, "" if it has none.
func (l *readLead) contact() string {
	for _, x := range l.Embedded.Contacts {
		if x.Main {
			return x.ID.String()
		}
	}
	if len(l.Embedded.Contacts) > 0 {
		return l.Embedded.Contacts[0].ID.String()
	}
	return ""
}

// tell writes whose change it is and what the lead is worth. What the hook said stays.
func (l *readLead) tell(a crm.Account, who *readContact, c *ledger.StageChange) {
	c.Amount = cmp.Or(c.Amount, amount(l.Price.String()))
	c.Pipeline = cmp.Or(c.Pipeline, l.Pipeline.String())
	if c.CreatedAt.IsZero() {
		c.CreatedAt = moment(l.Created.String())
	}
	fields := map[string]string{}
	for _, f := range l.Fields {
		text := f.text()
		if text == "" {
			continue
		}
		fields[cmp.Or(f.Name, f.Code, number64(f.ID))] = text
		if f.is(leadIDField(a)) || a.Options.Text("lead_id_field") == "" && strings.EqualFold(f.Code, leadIDCode) {
			c.LeadID = cmp.Or(c.LeadID, strings.TrimPrefix(text, "l:"))
		}
	}
	if len(fields) > 0 {
		c.Fields = fields
	}
	if id := l.contact(); id != "" && !slices.Contains(c.Records, "contact:"+id) {
		c.Records = append(slices.Clone(c.Records), "contact:"+id)
	}
	if who == nil {
		return
	}
	c.Contact = ledger.Contact{FullName: who.Name, FirstName: who.FirstName, LastName: who.LastName}
	for _, f := range who.Fields {
		first, second := f.at(0), f.at(1)
		switch strings.ToUpper(f.Code) {
		case "EMAIL":
			c.Contact.Email, c.Contact.WorkEmail = first, second
		case "PHONE":
			c.Contact.Phone, c.Contact.WorkPhone = first, second
		case "POSITION":
			c.Contact.JobTitle = first
		}
	}
}

// is tells whether a field is the one of this id, code or name.
func (f *readField) is(name string) bool {
	return number64(f.ID) == name || strings.EqualFold(f.Name, name) || strings.EqualFold(f.Code, name)
}

// at is the value at a place, "" if there is none.
func (f *readField) at(i int) string {
	if i >= len(f.Values) {
		return ""
	}
	switch v := f.Values[i].Value.(type) {
	case string:
		return strings.TrimSpace(strings.ReplaceAll(v, "\x00", ""))
	case json.Number:
		return v.String()
	case bool:
		if v {
			return "true"
		}
		return "false"
	}
	return ""
}

// text is all values, joined.
func (f *readField) text() string {
	var list []string
	for i := range f.Values {
		if v := f.at(i); v != "" {
			list = append(list, v)
		}
	}
	return strings.Join(list, ", ")
}

// read makes a GET and reads its answer; false: there is nothing, which is a 204.
func (c *CRM) read(ctx context.Context, a crm.Account, what, path string, into any) (bool, error) {
	reply, o := c.call(ctx, a, crm.Private(a, nil), http.MethodGet, path, nil)
	if o != nil {
		return false, crm.UnreadRecord(what, o)
	}
	if reply.Status == http.StatusNoContent || len(reply.Body) == 0 {
		return false, nil
	}
	d := json.NewDecoder(strings.NewReader(string(reply.Body)))
	d.UseNumber()
	if d.Decode(into) != nil {
		return false, crm.Unread(what, ledger.RetryAt{Reason: ledger.Backlog, Answer: ledger.Answer{Status: reply.Status, Message: "what answered is not Kommo"}})
	}
	return true, nil
}

// currencyOf returns in what the account counts, from memory while it is believed.
func (c *CRM) currencyOf(ctx context.Context, a crm.Account) (string, error) {
	c.mu.Lock()
	known := c.currencies[a.ID]
	c.mu.Unlock()
	if known.url == address(a) && time.Since(known.at) < currencyKept {
		return known.code, nil
	}
	var account struct {
		Currency string `json:"currency"`
	}
	if _, err := c.read(ctx, a, "the account", "/account", &account); err != nil {
		return "", err
	}
	known = currency{code: strings.ToUpper(strings.TrimSpace(account.Currency)), url: address(a), at: time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.currencies[a.ID] = known
	return known.code, nil
}
