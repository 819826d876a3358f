// Package kommo hands leads to Kommo (amoCRM): a lead with its contact, by
// leads/complex.
//
// That call makes a new lead each time, so the lead id is looked for before each create.
// Kommo's search lags behind by some seconds: after a create whose answer was lost the
// look waits for it, and just after the start of the process, when an earlier process may
// have died in the middle of a create, there is a second look. An update touches only our
// custom fields: what sales people changed stays.
//
// Stage changes come by its hooks, which are not signed and have two seconds to be
// answered, or out of the account's history. So do the values of the fields that the account
// watches (watch.go); hooks do not tell which field has changed, so the history says when.
package kommo

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

// Kind is the kind of the accounts.
const Kind = "kommo"

const (
	searchLag  = 10 * time.Second // how long a new lead may be missing in the search
	fieldsKept = 10 * time.Minute // how long the list of custom fields is believed
)

// CRM is Kommo.
type CRM struct {
	oauth *crm.OAuth
	lag   time.Duration
	pause time.Duration // between the readings of a list
	born  time.Time

	mu         sync.Mutex
	fields     map[int64]fieldList  // by account
	currencies map[int64]currency   // by account
	unsure     map[unsure]time.Time // creates that may have been done, and when
}

// unsure names a lead in an account.
type unsure struct {
	account int64
	key     string
}

// New returns the kind.
func New() *CRM {
	return &CRM{oauth: crm.NewOAuth(crm.NewCaller()), lag: searchLag, pause: readPause, born: time.Now(), fields: map[int64]fieldList{}, currencies: map[int64]currency{}, unsure: map[unsure]time.Time{}}
}

// Options lists the settings.
func (*CRM) Options() []crm.Option {
	return []crm.Option{
		{Name: "url", Required: true, Help: "address of the account: https://NAME.kommo.com, or https://NAME.amocrm.ru"},
		{Name: "token", Type: crm.SecretText, Help: "long-lived token of a private integration; or client_id, client_secret, redirect_uri and refresh_token"},
		{Name: "client_id", Help: "of the integration"},
		{Name: "client_secret", Type: crm.SecretText, Help: "of the integration"},
		{Name: "redirect_uri", Help: "of the integration, as it stands there"},
		{Name: "refresh_token", Type: crm.SecretText, Help: "of the integration; each use renews it"},
		{Name: "pipeline_id", Help: "pipeline in which leads begin; the main one if not given"},
		{Name: "status_id", Help: "stage in which leads begin; the first one if not given"},
		{Name: "lead_id_field", Help: "id or name of the lead's custom field for the lead id; " + leadIDName + " if not given"},
		{Name: "tags", Type: crm.List, Help: "tags of new leads"},
		{Name: "fields", Type: crm.Map, Help: "id, code or name of the lead's custom field (contact.CODE for the contact's; name and price for the lead itself): field of the lead"},
		crm.WatchOption("id or name of the lead's custom fields whose values are told like stages; from the webhook Lead edited, or out of the account's history"),
		{Name: "allow_private", Help: "true lets url lead into a private network"},
	}
}

// Pace keeps to 7 calls a second: a lead takes two.
func (*CRM) Pace(crm.Account) (parallel int, perSecond float64) { return 2, 3 }

// Deliver creates the lead with its contact, or updates the one that carries its lead id.
func (c *CRM) Deliver(ctx context.Context, a crm.Account, l *ledger.Lead, known []string) crm.Delivered {
	hide := crm.Private(a, l)
	list, o := c.customFields(ctx, a, hide, false)
	if o != nil {
		return crm.Delivered{Outcome: unwritten(o), Records: known}
	}
	field, ok := list.leadID(a)
	if !ok {
		c.forget(a)
		return crm.Delivered{Records: known, Outcome: ledger.Hold{Reason: ledger.FieldMissing, Answer: ledger.Answer{
			Message: "the account has no custom field " + leadIDField(a) + " for the lead id, without which a repeat would make a second lead; capiloop doctor --repair creates it",
		}}}
	}
	v := visit{crm: c, account: a, lead: l, hide: hide, fields: list, field: field}
	for _, record := range known {
		if id, ok := strings.CutPrefix(record, "lead:"); ok {
			if d, there := v.update(ctx, id, known); there {
				return d
			}
		}
	}
	found, o := v.find(ctx)
	if o == nil && found == nil && l.CreatedAt.Before(c.born) && time.Since(c.born) < c.lag {
		c.suspect(a, l)
		found, o = v.find(ctx)
	}
	if o != nil {
		return crm.Delivered{Outcome: unwritten(o), Records: known}
	}
	if len(found) > 0 {
		if d, there := v.update(ctx, strings.TrimPrefix(found[0], "lead:"), found); there {
			return d
		}
	}
	return v.create(ctx)
}

// Preview shows the requests for a lead that is not known; custom fields that are known
// by name only are left out.
func (*CRM) Preview(a crm.Account, l *ledger.Lead) []crm.Call {
	list := fieldList{}
	field, ok := list.leadID(a)
	if !ok {
		list.all = []customField{{ID: 0, Name: leadIDField(a), Type: "text"}}
		field = list.all[0]
	}
	v := visit{account: a, lead: l, fields: list, field: field}
	return []crm.Call{
		{Method: http.MethodGet, URL: address(a) + v.query()},
		{Method: http.MethodPost, URL: address(a) + "/leads/complex", Body: crm.JSON([]any{v.body(true)})},
	}
}

func address(a crm.Account) string {
	return strings.TrimSuffix(a.Options.Text("url"), "/") + "/api/v4"
}

func login(a crm.Account) crm.Login {
	l := crm.Login{Token: a.Options.Secret("token")}
	if !a.Options.Secret("refresh_token").IsZero() {
		l.TokenURL, l.JSON = strings.TrimSuffix(a.Options.Text("url"), "/")+"/oauth2/access_token", true
		l.Extra = map[string]string{"redirect_uri": a.Options.Text("redirect_uri")}
	}
	return l
}

// call makes one call; what is not 2xx is an outcome.
func (c *CRM) call(ctx context.Context, a crm.Account, hide []string, method, path string, body any) (crm.Reply, ledger.Outcome) {
	r := crm.Request{Method: method, URL: address(a) + path, Private: a.Options.Is("allow_private")}
	if body != nil {
		r.Body = crm.JSON(body)
	}
	reply, err := c.oauth.Do(ctx, a, login(a), func(string) crm.Request { return r })
	o := classify(reply, err, hide)
	if _, ok := o.(ledger.Accepted); ok {
		return reply, nil
	}
	return reply, o
}

// unwritten is the outcome of a call that wrote nothing: it cannot be Lost.
func unwritten(o ledger.Outcome) ledger.Outcome {
	switch o.(type) {
	case ledger.Lost:
		return ledger.RetryAt{Answer: ledger.AnswerOf(o), Reason: ledger.Backlog}
	case ledger.Refusal: // a question is never the lead's fault
		return ledger.Hold{Answer: ledger.AnswerOf(o), Reason: ledger.FieldMissing}
	}
	return o
}

// visit is one delivery.
type visit struct {
	crm     *CRM
	account crm.Account
	lead    *ledger.Lead
	hide    []string
	fields  fieldList
	field   customField // of the lead id
}

func (v *visit) call(ctx context.Context, method, path string, body any) (crm.Reply, ledger.Outcome) {
	return v.crm.call(ctx, v.account, v.hide, method, path, body)
}

// update writes our custom fields; false: there is no such lead any more.
func (v *visit) update(ctx context.Context, id string, records []string) (crm.Delivered, bool) {
	body := v.body(false)
	reply, o := v.call(ctx, http.MethodPatch, "/leads/"+url.PathEscape(id), body)
	if reply.Status == http.StatusNotFound || reply.Status == http.StatusBadRequest && strings.Contains(complaint(reply), "NotFound") {
		return crm.Delivered{}, false
	}
	d := crm.Delivered{Outcome: o, Records: records, Sent: crm.JSON(body)}
	if o == nil {
		v.crm.settle(v.account, v.lead, true)
		d.Outcome = ledger.Accepted{Answer: ledger.Answer{Status: reply.Status, Message: "the lead was there and was updated"}}
	}
	return d, true
}

func (v *visit) query() string {
	return "/leads?" + url.Values{"query": {crm.Key(v.lead)}, "with": {"contacts"}, "limit": {"50"}}.Encode()
}

// find returns the records of the lead that carries the lead id, nil if there is none. It
// waits until the search must know a lead that may have been made.
func (v *visit) find(ctx context.Context) ([]string, ledger.Outcome) {
	if !v.crm.wait(ctx, v.account, v.lead) {
		return nil, ledger.RetryAt{Reason: ledger.Backlog, Answer: ledger.Answer{Message: "stopped while waiting for the search"}}
	}
	reply, o := v.call(ctx, http.MethodGet, v.query(), nil)
	if o != nil || reply.Status == http.StatusNoContent || len(reply.Body) == 0 {
		return nil, o
	}
	var answer struct {
		Embedded struct {
			Leads []struct {
				ID       json.Number `json:"id"`
				Deleted  bool        `json:"is_deleted"`
				Fields   []setField  `json:"custom_fields_values"`
				Embedded struct {
					Contacts []struct {
						ID   json.Number `json:"id"`
						Main bool        `json:"is_main"`
					} `json:"contacts"`
				} `json:"_embedded"`
			} `json:"leads"`
		} `json:"_embedded"`
	}
	if json.Unmarshal(reply.Body, &answer) != nil {
		return nil, ledger.RetryAt{Reason: ledger.Backlog, Answer: ledger.Answer{Status: reply.Status, Message: "what answered is not Kommo"}}
	}
	for _, l := range answer.Embedded.Leads {
		if l.Deleted || !carries(l.Fields, v.field.ID, crm.Key(v.lead)) {
			continue
		}
		records := []string{"lead:" + l.ID.String()}
		for _, x := range l.Embedded.Contacts {
			if x.Main || len(l.Embedded.Contacts) == 1 {
				records = append(records, "contact:"+x.ID.String())
			}
		}
		return records, nil
	}
	return nil, nil
}

// create makes the lead. Where Kommo does not like what we say about the form it is made
// without that.
func (v *visit) create(ctx context.Context) crm.Delivered {
	body := v.body(true)
	reply, o := v.call(ctx, http.MethodPost, "/leads/complex", []any{body})
	if _, refused := o.(ledger.Refusal); refused && strings.Contains(complaint(reply), "metadata") {
		embedded, _ := body["_embedded"].(map[string]any)
		delete(embedded, "metadata")
		reply, o = v.call(ctx, http.MethodPost, "/leads/complex", []any{body})
	}
	d := crm.Delivered{Outcome: o, Sent: crm.JSON([]any{body})}
	if o != nil {
		_, lost := o.(ledger.Lost)
		v.crm.settle(v.account, v.lead, !lost && reply.Status < 500)
		if hold, ok := o.(ledger.Hold); ok && hold.Reason == ledger.FieldMissing {
			v.crm.forget(v.account) // a custom field may have been removed
		}
		return d
	}
	var made []struct {
		ID      json.Number `json:"id"`
		Contact json.Number `json:"contact_id"`
		Merged  bool        `json:"merged"`
	}
	if json.Unmarshal(reply.Body, &made) != nil || len(made) == 0 || made[0].ID == "" {
		v.crm.settle(v.account, v.lead, false)
		d.Outcome = ledger.Lost{Answer: ledger.Answer{Status: reply.Status, Message: "the answer does not name the lead"}}
		return d
	}
	v.crm.settle(v.account, v.lead, true)
	d.Records = []string{"lead:" + made[0].ID.String()}
	if made[0].Contact != "" {
		d.Records = append(d.Records, "contact:"+made[0].Contact.String())
	}
	answer := ledger.Answer{Status: reply.Status}
	if made[0].Merged {
		answer.Message = "Kommo's duplicate control merged it into lead " + made[0].ID.String()
	}
	d.Outcome = ledger.Accepted{Answer: answer}
	return d
}

// settle remembers whether it is sure what became of a create.
func (c *CRM) settle(a crm.Account, l *ledger.Lead, sure bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := unsure{a.ID, crm.Key(l)}
	if sure {
		delete(c.unsure, key)
		return
	}
	now := time.Now()
	for k, at := range c.unsure { // what is old the search knows by now
		if now.Sub(at) > c.lag {
			delete(c.unsure, k)
		}
	}
	c.unsure[key] = now
}

// suspect takes a lead for one that an earlier process may have made, at the latest when
// this one began.
func (c *CRM) suspect(a crm.Account, l *ledger.Lead) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := unsure{a.ID, crm.Key(l)}
	if _, ok := c.unsure[key]; !ok {
		c.unsure[key] = c.born
	}
}

// wait waits until the search knows a lead that may have been made; false: the context
// ended first.
func (c *CRM) wait(ctx context.Context, a crm.Account, l *ledger.Lead) bool {
	c.mu.Lock()
	at, ok := c.unsure[unsure{a.ID, crm.Key(l)}]
	c.mu.Unlock()
	if !ok {
		return true
	}
	timer := time.NewTimer(c.lag - time.Since(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// classify knows what is Kommo's own: its validation errors, the faults among them that
// lie in the settings, and the block that follows too many 429s.
func classify(r crm.Reply, err error, hide []string) ledger.Outcome {
	o := crm.Classify(r, err, hide)
	said := complaint(r)
	switch o := o.(type) {
	case ledger.Hold:
		if r.Status == http.StatusForbidden && (strings.Contains(strings.ToLower(said), "block") || strings.HasPrefix(strings.TrimSpace(string(r.Body)), "<")) {
			o.Reason = ledger.Blocked
		}
		return o
	case ledger.Refusal:
		o.Answer.Message = crm.Scrub(cmp.Or(said, o.Answer.Message), hide)
		for _, part := range []string{"pipeline_id", "status_id", "field_id", "field_code"} {
			if strings.Contains(said, part) {
				return ledger.Hold{Answer: o.Answer, Reason: ledger.FieldMissing}
			}
		}
		return o
	case ledger.RetryAt:
		if r.Status == http.StatusTooManyRequests && o.Wait == 0 {
			o.Wait = 2 * time.Second
		}
		return o
	}
	return o
}

// complaint reads problem+json: each fault with the place it is about.
func complaint(r crm.Reply) string {
	if r.Status < 400 {
		return ""
	}
	var p struct {
		Title  string `json:"title"`
		Detail string `json:"detail"`
		Rows   []struct {
			Errors []struct{ Code, Path, Detail string } `json:"errors"`
		} `json:"validation-errors"`
	}
	if json.Unmarshal(r.Body, &p) != nil {
		return ""
	}
	var list []string
	for _, row := range p.Rows {
		for _, e := range row.Errors {
			list = append(list, e.Path+": "+e.Detail+" ("+e.Code+")")
		}
	}
	if len(list) == 0 {
		return cmp.Or(p.Detail, p.Title)
	}
	return strings.Join(list, "; ")
}

func number(text string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n, err == nil && n > 0
}
