package pipedrive

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

// window is how far back new persons are listed; the index is late by seconds, clocks differ by more.
const window = time.Hour

// found is the person of a lead.
type found struct {
	id    string
	fresh bool // just created: nothing can hang on it yet
}

// person is one of an answer. The search gives addresses as texts, the list as objects.
type person struct {
	ID     ident   `json:"id"`
	Emails []reach `json:"emails"`
	Phones []reach `json:"phones"`
}

type reach string

// UnmarshalJSON takes a text or an object with a value.
func (v *reach) UnmarshalJSON(text []byte) error {
	var plain string
	var object struct {
		Value string `json:"value"`
	}
	if json.Unmarshal(text, &plain) == nil {
		*v = reach(plain)
	} else if json.Unmarshal(text, &object) == nil {
		*v = reach(object.Value)
	}
	return nil
}

// person finds or creates it. What people have written about somebody is left as it is;
// only an address that is missing is filled in.
func (c *call) person(ctx context.Context, known string) (found, ledger.Outcome) {
	if known != "" {
		return found{id: known}, nil
	}
	for path := range c.searches() {
		p, o := c.look(ctx, path)
		if o != nil {
			return found{}, o
		}
		if p != nil {
			return found{id: string(p.ID)}, c.complete(ctx, p)
		}
	}
	c.sent = crm.JSON(c.newPerson())
	r, err := c.send(ctx, http.MethodPost, "/api/v2/persons", c.sent)
	id, o := c.taken(r, err)
	return found{id: id, fresh: true}, o
}

// searches are where a person may be found: in the index by address and by number, and,
// since the index is late, among those who were touched last.
func (c *call) searches() iter.Seq[string] {
	return func(yield func(string) bool) {
		email, phone := crm.Email(c.l), c.phone()
		if email != "" && !yield("/api/v2/persons/search?term="+url.QueryEscape(email)+"&fields=email&exact_match=true&limit=20") {
			return
		}
		if len(phone) > 1 && !yield("/api/v2/persons/search?term="+url.QueryEscape(phone)+"&fields=phone&exact_match=true&limit=20") {
			return
		}
		if email != "" || phone != "" {
			since := time.Now().Add(-window).UTC().Format(time.RFC3339)
			yield("/api/v2/persons?updated_since=" + url.QueryEscape(since) + "&sort_by=update_time&sort_direction=desc&limit=500")
		}
	}
}

func (c *call) phone() string {
	return crm.Value(c.a, c.l, "phone")
}

// look returns the person in an answer who really has the address or, without one, the
// number: a search may find more than was asked for.
func (c *call) look(ctx context.Context, path string) (*person, ledger.Outcome) {
	r, err := c.send(ctx, http.MethodGet, path, nil)
	o := c.classify(r, err)
	if _, ok := o.(ledger.Accepted); !ok {
		return nil, o
	}
	return c.pick(r)
}

func (c *call) pick(r crm.Reply) (*person, ledger.Outcome) {
	var answer struct {
		Data json.RawMessage `json:"data"`
	}
	var items struct {
		Items []struct {
			Item person `json:"item"`
		} `json:"items"`
	}
	var list []person
	if json.Unmarshal(r.Body, &answer) != nil {
		return nil, unreadable(r)
	}
	if json.Unmarshal(answer.Data, &list) != nil {
		if json.Unmarshal(answer.Data, &items) != nil {
			return nil, unreadable(r)
		}
		for _, i := range items.Items {
			list = append(list, i.Item)
		}
	}
	for _, by := range []func(*person) bool{c.sameEmail, c.samePhone} {
		for i := range list {
			if list[i].ID != "" && by(&list[i]) {
				return &list[i], nil
			}
		}
	}
	return nil, nil
}

func unreadable(r crm.Reply) ledger.Outcome {
	return ledger.RetryAt{Reason: ledger.Backlog, Answer: ledger.Answer{Status: r.Status, Message: "the answer is no list"}}
}

func (c *call) sameEmail(p *person) bool {
	email := crm.Email(c.l)
	return email != "" && slices.ContainsFunc(p.Emails, func(v reach) bool { return strings.EqualFold(strings.TrimSpace(string(v)), email) })
}

func (c *call) samePhone(p *person) bool {
	phone := c.phone()
	return phone != "" && slices.ContainsFunc(p.Phones, func(v reach) bool { return crm.Phone(c.a, c.l, string(v)) == phone })
}

// complete fills in what the person lacks.
func (c *call) complete(ctx context.Context, p *person) ledger.Outcome {
	all := c.newPerson()
	change := map[string]any{}
	if len(p.Emails) == 0 && all["emails"] != nil {
		change["emails"] = all["emails"]
	}
	if len(p.Phones) == 0 && all["phones"] != nil {
		change["phones"] = all["phones"]
	}
	if all["custom_fields"] != nil {
		change["custom_fields"] = all["custom_fields"]
	}
	if len(change) == 0 {
		return nil
	}
	c.sent = crm.JSON(change)
	r, err := c.send(ctx, http.MethodPatch, "/api/v2/persons/"+url.PathEscape(string(p.ID)), c.sent)
	_, o := c.taken(r, err)
	return o
}

// newPerson is the body that makes a person.
func (c *call) newPerson() map[string]any {
	email, phone := crm.Email(c.l), c.phone()
	name := crm.Value(c.a, c.l, "full_name")
	for _, other := range []string{email, phone, "Lead " + crm.Key(c.l)} {
		if name == "" {
			name = other
		}
	}
	b := map[string]any{"name": name}
	entry := func(value, label string) []any {
		return []any{map[string]any{"value": value, "primary": true, "label": label}}
	}
	if email != "" {
		b["emails"] = entry(email, "work")
	}
	if phone != "" {
		b["phones"] = entry(phone, "mobile")
	}
	custom := map[string]any{}
	for target, value := range crm.Values(c.a, c.l, crm.Fields(c.a, nil)) {
		if hexKey.MatchString(target) {
			custom[target] = value
		}
	}
	if len(custom) > 0 {
		b["custom_fields"] = custom
	}
	return b
}

// find returns the lead or deal that carries the lead's id: among those of the person, a
// list that is not late, else in the index, for it may hang on somebody else by now.
func (c *call) find(ctx context.Context, who string) (string, ledger.Outcome) {
	path := "/api/v1/leads?person_id=" + url.QueryEscape(who) + "&sort=" + url.QueryEscape("add_time DESC") + "&start=0&limit=100"
	search := "/api/v2/leads/search?term="
	if c.kind() == "deal" {
		path = "/api/v2/deals?person_id=" + url.QueryEscape(who) + "&custom_fields=" + url.QueryEscape(c.key) + "&sort_by=add_time&sort_direction=desc&limit=100"
		search = "/api/v2/deals/search?term="
	}
	r, err := c.send(ctx, http.MethodGet, path, nil)
	o := c.classify(r, err)
	if _, ok := o.(ledger.Accepted); !ok {
		return "", o
	}
	if id, ok := c.carrier(r.Body); !ok {
		return "", unreadable(r)
	} else if id != "" {
		return id, nil
	}
	r, err = c.send(ctx, http.MethodGet, search+url.QueryEscape(crm.Key(c.l))+"&fields=custom_fields&exact_match=true&limit=10", nil)
	if o = c.classify(r, err); ledger.AnswerOf(o).Status != http.StatusOK {
		return "", o
	}
	var answer struct {
		Data struct {
			Items []struct {
				Item struct {
					ID     ident `json:"id"`
					Custom []any `json:"custom_fields"`
				} `json:"item"`
			} `json:"items"`
		} `json:"data"`
	}
	if json.Unmarshal(r.Body, &answer) != nil {
		return "", unreadable(r)
	}
	for _, i := range answer.Data.Items {
		if i.Item.ID != "" && slices.Contains(i.Item.Custom, any(crm.Key(c.l))) {
			return string(i.Item.ID), nil
		}
	}
	return "", nil
}

// carrier looks through a list for the record with the lead's id: at the top level in v1,
// under custom_fields in v2, there as a text or an object with a value.
func (c *call) carrier(body []byte) (id string, readable bool) {
	var list struct {
		Data []map[string]json.RawMessage `json:"data"`
	}
	if json.Unmarshal(body, &list) != nil {
		return "", false
	}
	for _, record := range list.Data {
		var custom map[string]json.RawMessage
		_ = json.Unmarshal(record["custom_fields"], &custom)
		for _, raw := range []json.RawMessage{record[c.key], record["origin_id"], custom[c.key]} {
			var value reach
			var number ident
			if len(raw) == 0 || json.Unmarshal(raw, &value) != nil || string(value) != crm.Key(c.l) {
				continue
			}
			if json.Unmarshal(record["id"], &number) == nil && number != "" {
				return string(number), true
			}
		}
	}
	return "", true
}
