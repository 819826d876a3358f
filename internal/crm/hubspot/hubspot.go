// Package hubspot creates and updates contacts, and where wanted deals, in HubSpot. In: a
// lead and the account's settings. Out: the ids of what holds the lead. A contact is found
// by its e-mail address, or by the lead's id in a property that HubSpot keeps unique; a deal
// by that property. So every call can be repeated.
//
// The way back: webhooks name a record and its new stage (hook.go, workflow.go), whose it
// is must be read (complete.go); without webhooks, changed deals are searched (moves.go).
package hubspot

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

const home = "https://api.hubapi.com"

// HubSpot is the kind "hubspot".
type HubSpot struct {
	oauth   *crm.OAuth
	pause   time.Duration // between the readings of Moves
	mu      sync.Mutex
	portals map[int64]portal // by account
}

// New returns it.
func New() *HubSpot {
	return &HubSpot{oauth: crm.NewOAuth(crm.NewCaller()), pause: searchPause, portals: map[int64]portal{}}
}

var _ crm.CRM = (*HubSpot)(nil)

// Options lists the settings.
func (h *HubSpot) Options() []crm.Option {
	return []crm.Option{
		{Name: "token", Type: crm.SecretText, Help: "token of a service key or a private app, with the scopes crm.objects.contacts and crm.schemas.contacts (read, write), and those of deals where deal is true"},
		{Name: "client_id", Help: "instead of token: OAuth"},
		{Name: "client_secret", Type: crm.SecretText, Help: "instead of token: OAuth"},
		{Name: "refresh_token", Type: crm.SecretText, Help: "instead of token: OAuth"},
		{Name: "fields", Type: crm.Map, Help: "HubSpot property: field of the lead; - takes a default out"},
		{Name: "lead_id_property", Help: "the property that holds the lead's id, unique in HubSpot (meta_lead_id)"},
		{Name: "deal", Help: "true: each lead opens a deal of its own"},
		{Name: "deal_fields", Type: crm.Map, Help: "HubSpot property of the deal: field of the lead"},
		{Name: "pipeline", Help: "id of the deal's pipeline (default)"},
		{Name: "stage", Help: "id of the stage in which a deal begins (appointmentscheduled)"},
		{Name: "webhook_secret", Type: crm.SecretText, Help: "client secret of the app whose webhooks tell of stage changes: it signs them; without: client_secret"},
		{Name: "portal_id", Help: "number of the HubSpot account; given, events of other accounts in which the app is installed are left out"},
		{Name: "read", Type: crm.List, Help: "further properties of deal and contact to read with a stage change, for rules that ask for them"},
		{Name: "version", Help: "v3, or a dated version such as 2026-03 (v3)"},
		{Name: "url", Help: "address of the API (" + home + ")"},
		{Name: "allow_private", Help: "true lets url lead into a private network"},
	}
}

// Pace keeps below 100 requests in 10 seconds; a new lead takes two, with a deal four.
func (h *HubSpot) Pace(a crm.Account) (int, float64) {
	if a.Options.Is("deal") {
		return 4, 2.2
	}
	return 4, 4.5
}

// call is one delivery on its way.
type call struct {
	h    *HubSpot
	a    crm.Account
	l    *ledger.Lead
	hide []string
	sent []byte
}

// Deliver creates or updates the contact, then the deal.
func (h *HubSpot) Deliver(ctx context.Context, a crm.Account, l *ledger.Lead, known []string) crm.Delivered {
	c := &call{h: h, a: a, l: l, hide: crm.Private(a, l)}
	id, o := c.contact(ctx, crm.RecordID(known, "contact"))
	d := crm.Delivered{Outcome: o, Sent: c.sent}
	if id == "" {
		return d
	}
	d.Records = []string{"contact:" + id}
	if !a.Options.Is("deal") {
		return d
	}
	deal := crm.RecordID(known, "deal")
	if deal == "" {
		deal, o = c.deal(ctx, id)
	}
	d.Outcome, d.Sent = o, c.sent
	if deal != "" {
		d.Records = []string{"deal:" + deal, "contact:" + id}
	}
	return d
}

// contact returns the contact's id if the outcome is Accepted.
func (c *call) contact(ctx context.Context, known string) (string, ledger.Outcome) {
	p := c.properties()
	if known != "" {
		r, err := c.send(ctx, http.MethodPatch, c.objects("contacts", known), object(without(p, onlyNew...)))
		if err != nil || r.Status != http.StatusNotFound {
			return c.taken(r, err)
		}
	}
	if p["email"] == "" {
		return c.upsert(ctx, p)
	}
	path := c.objects("contacts", p["email"]) + "?idProperty=email"
	r, err := c.send(ctx, http.MethodPatch, path, object(without(p, append(onlyNew, "email")...)))
	if err == nil && r.Status == http.StatusNotFound {
		r, err = c.send(ctx, http.MethodPost, c.objects("contacts", ""), object(p))
	}
	if err != nil {
		return c.taken(r, err)
	}
	if id := conflict(r); id != "" {
		// Somebody else made it since, or the address is a second one of that contact.
		r, err = c.send(ctx, http.MethodPatch, c.objects("contacts", id), object(without(p, append(onlyNew, "email")...)))
		return c.taken(r, err)
	}
	if r.Status == http.StatusBadRequest && strings.Contains(string(r.Body), "INVALID_EMAIL") {
		// A lead with a mistyped address can still be telephoned.
		return c.upsert(ctx, without(p, "email"))
	}
	return c.taken(r, err)
}

// upsert is for a lead without an e-mail address: its id is what makes it one.
func (c *call) upsert(ctx context.Context, p map[string]string) (string, ledger.Outcome) {
	r, err := c.send(ctx, http.MethodPost, c.objects("contacts", "batch/upsert"), c.upsertBody(p))
	if err != nil || r.Status >= 300 {
		return c.taken(r, err)
	}
	var batch struct {
		Results []struct {
			ID string `json:"id"`
		} `json:"results"`
		Errors []json.RawMessage `json:"errors"`
	}
	if json.Unmarshal(r.Body, &batch) == nil && len(batch.Results) == 1 && batch.Results[0].ID != "" {
		return batch.Results[0].ID, ledger.Accepted{Answer: crm.AnswerOf(r, c.hide)}
	}
	if len(batch.Errors) > 0 { // a 207: the status of the whole says nothing about the one
		r.Status, r.Body = http.StatusBadRequest, batch.Errors[0]
		return "", c.classify(r, nil)
	}
	return "", strange(r)
}

func (c *call) upsertBody(p map[string]string) []byte {
	return crm.JSON(map[string]any{"inputs": []any{map[string]any{
		"id": crm.Key(c.l), "idProperty": property(c.a), "objectWriteTraceId": c.l.ID.String(), "properties": without(p, onlyNew...),
	}}})
}

// strange is a success without the id of a record: it cannot be told what was done.
func strange(r crm.Reply) ledger.Outcome {
	return ledger.Lost{Answer: ledger.Answer{Status: r.Status, Message: "the answer names no record"}}
}

func (c *call) taken(r crm.Reply, err error) (string, ledger.Outcome) {
	o := c.classify(r, err)
	if _, ok := o.(ledger.Accepted); !ok {
		return "", o
	}
	if id := recordID(r.Body); id != "" {
		return id, o
	}
	return "", strange(r)
}

func recordID(body []byte) string {
	var record struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(body, &record) != nil {
		return ""
	}
	return record.ID
}

// deal looks for the lead's deal by the unique property, not by search, whose index is
// late; then it creates it. A deal that is there is left as it is: people work on it.
func (c *call) deal(ctx context.Context, contact string) (string, ledger.Outcome) {
	find := c.objects("deals", crm.Key(c.l)) + "?idProperty=" + url.QueryEscape(property(c.a))
	r, err := c.send(ctx, http.MethodGet, find, nil)
	if err != nil || r.Status != http.StatusNotFound {
		return c.taken(r, err)
	}
	body := c.dealBody(contact)
	r, err = c.send(ctx, http.MethodPost, c.objects("deals", ""), body)
	if err == nil {
		if id := conflict(r); id != "" {
			return id, ledger.Accepted{Answer: ledger.Answer{Status: r.Status, Message: "the lead has its deal already"}}
		}
	}
	return c.taken(r, err)
}

func (c *call) dealBody(contact string) []byte {
	return crm.JSON(map[string]any{
		"properties": crm.Values(c.a, c.l, crm.Fields(crm.Table(c.a, "deal_fields"), map[string]string{
			"dealname":    "title",
			"pipeline":    "=" + cmp.Or(c.a.Options.Text("pipeline"), "default"),
			"dealstage":   "=" + cmp.Or(c.a.Options.Text("stage"), "appointmentscheduled"),
			property(c.a): "id",
		})),
		"associations": []any{map[string]any{
			"to":    map[string]any{"id": contact},
			"types": []any{map[string]any{"associationCategory": "HUBSPOT_DEFINED", "associationTypeId": 3}},
		}},
	})
}

// onlyNew are the properties that only a new contact gets: a customer who asks again does
// not become a lead again.
var onlyNew = []string{"lifecyclestage", "hs_lead_status"}

func property(a crm.Account) string {
	return cmp.Or(a.Options.Text("lead_id_property"), "meta_lead_id")
}

// custom are the properties of contacts that we bring along.
func custom(a crm.Account) map[string]string {
	return map[string]string{property(a): "id", "lead_fbclid": "fbclid", "lead_gclid": "gclid"}
}

func contactFields(a crm.Account) map[string]string {
	defaults := map[string]string{
		"email": "email", "firstname": "first_name", "lastname": "last_name", "phone": "phone", "company": "company", "jobtitle": "job_title",
		"address": "street", "city": "city", "state": "state", "zip": "postcode", "country": "country",
		"lifecyclestage": "=lead", "hs_lead_status": "=NEW",
	}
	maps.Copy(defaults, custom(a))
	fields := crm.Fields(a, defaults)
	fields[property(a)] = "id" // by it a repeat is known
	return fields
}

func (c *call) properties() map[string]string {
	return crm.Values(c.a, c.l, contactFields(c.a))
}

func object(properties map[string]string) []byte {
	return crm.JSON(map[string]any{"properties": properties})
}

func without(p map[string]string, names ...string) map[string]string {
	rest := make(map[string]string, len(p))
	for k, v := range p {
		if !slices.Contains(names, k) {
			rest[k] = v
		}
	}
	return rest
}

// objects returns the path of an object type, or of one object.
func (c *call) objects(kind, id string) string {
	path := prefix(c.a, "objects") + "/" + kind
	if id == "batch/upsert" {
		return path + "/" + id
	}
	if id != "" {
		path += "/" + url.PathEscape(id)
	}
	return path
}

// prefix is /crm/v3/objects, or /crm/objects/2026-03.
func prefix(a crm.Account, what string) string {
	v := cmp.Or(a.Options.Text("version"), "v3")
	if strings.HasPrefix(v, "v") {
		return "/crm/" + v + "/" + what
	}
	return "/crm/" + what + "/" + v
}

// send makes the call and keeps the body of the last one that writes.
func (c *call) send(ctx context.Context, method, path string, body []byte) (crm.Reply, error) {
	if body != nil {
		c.sent = body
	}
	return c.h.do(ctx, c.a, method, path, body)
}

func (h *HubSpot) do(ctx context.Context, a crm.Account, method, path string, body []byte) (crm.Reply, error) {
	base := strings.TrimRight(cmp.Or(a.Options.Text("url"), home), "/")
	login := crm.Login{Token: a.Options.Secret("token")}
	if a.Options.Text("refresh_token") != "" {
		login.TokenURL = base + "/oauth/v1/token"
	}
	return h.oauth.Do(ctx, a, login, func(string) crm.Request {
		return crm.Request{Method: method, URL: base + path, Body: body, Private: a.Options.Is("allow_private")}
	})
}

var (
	existing = regexp.MustCompile(`Existing ID: ([0-9]+)`)
	holder   = regexp.MustCompile(`([0-9]+) already has that value`)
)

// conflict returns the id of the record that has a unique value already: of a 409, or of
// the 400 that HubSpot gives for a custom property.
func conflict(r crm.Reply) string {
	if r.Status != http.StatusConflict && r.Status != http.StatusBadRequest {
		return ""
	}
	for _, pattern := range []*regexp.Regexp{existing, holder} {
		if m := pattern.FindSubmatch(r.Body); m != nil {
			return string(m[1])
		}
	}
	return ""
}

func (c *call) classify(r crm.Reply, err error) ledger.Outcome { return classify(r, err, c.hide) }

// classify knows HubSpot's own errors.
func classify(r crm.Reply, err error, hide []string) ledger.Outcome {
	o := crm.Classify(r, err, hide)
	if err != nil {
		return o
	}
	var fault struct {
		Policy string `json:"policyName"`
	}
	_ = json.Unmarshal(r.Body, &fault)
	answer := crm.AnswerOf(r, hide)
	switch {
	case r.Status == http.StatusTooManyRequests:
		wait := map[string]time.Duration{"SECONDLY": time.Second, "TEN_SECONDLY_ROLLING": 10 * time.Second, "DAILY": 30 * time.Minute}[fault.Policy]
		return ledger.RetryAt{Answer: answer, Reason: ledger.Throttled, Wait: cmp.Or(crm.RetryAfter(r), wait)}
	case r.Status == http.StatusLocked:
		return ledger.RetryAt{Answer: answer, Reason: ledger.Backlog, Wait: max(crm.RetryAfter(r), 2*time.Second)}
	case r.Status == 477: // the account moves to another data centre
		return ledger.RetryAt{Answer: answer, Reason: ledger.Backlog, Wait: crm.RetryAfter(r)}
	case r.Status == http.StatusBadRequest && strings.Contains(string(r.Body), "PROPERTY_DOESNT_EXIST"):
		answer.Message += ": a property is missing in HubSpot; " + crm.Repair
		return ledger.Hold{Answer: answer, Reason: ledger.FieldMissing}
	}
	return o
}

// Preview returns the calls for a contact that HubSpot does not know.
func (h *HubSpot) Preview(a crm.Account, l *ledger.Lead) []crm.Call {
	c := &call{h: h, a: a, l: l}
	base := strings.TrimRight(cmp.Or(a.Options.Text("url"), home), "/")
	p := c.properties()
	var calls []crm.Call
	add := func(method, path string, body []byte) {
		calls = append(calls, crm.Call{Method: method, URL: base + path, Body: body})
	}
	if p["email"] == "" {
		add(http.MethodPost, c.objects("contacts", "batch/upsert"), c.upsertBody(p))
	} else {
		add(http.MethodPatch, c.objects("contacts", p["email"])+"?idProperty=email", object(without(p, append(onlyNew, "email")...)))
		add(http.MethodPost, c.objects("contacts", ""), object(p))
	}
	if a.Options.Is("deal") {
		add(http.MethodGet, c.objects("deals", crm.Key(l))+"?idProperty="+url.QueryEscape(property(a)), nil)
		add(http.MethodPost, c.objects("deals", ""), c.dealBody("<contact>"))
	}
	return calls
}
