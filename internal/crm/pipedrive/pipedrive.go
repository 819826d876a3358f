// Package pipedrive creates persons, and a lead or a deal for each enquiry, in Pipedrive.
// In: a lead and the account's settings. Out: the ids of what holds the lead. Pipedrive has
// no call that can be repeated, and its search index is seconds late; so each delivery looks
// first, in the index and in the lists, which are not late, and creates what is not there.
//
// The way back: webhooks tell of a deal's stage and status (hook.go) and of the fields that
// the account watches (watch.go), whose it is must be read (complete.go); without webhooks, changed deals are listed (moves.go).
package pipedrive

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

const (
	home      = "https://api.pipedrive.com"
	tokenHome = "https://oauth.pipedrive.com/oauth/token" //nolint:gosec // an address
	fieldName = "Lead id (Capiloop)"
)

// Pipedrive is the kind "pipedrive".
type Pipedrive struct {
	oauth *crm.OAuth
	mu    sync.Mutex
	keys  map[int64]string // the key of the field for the lead's id, by account, where it was found by name
	// looked says when an account was found to have no such field.
	looked map[int64]time.Time
	listed map[int64]fieldList // the deal fields, by account
	pause  time.Duration       // between the readings of Moves
}

// New returns it.
func New() *Pipedrive {
	return &Pipedrive{oauth: crm.NewOAuth(crm.NewCaller()), keys: map[int64]string{}, looked: map[int64]time.Time{}, listed: map[int64]fieldList{}, pause: readPause}
}

var _ crm.CRM = (*Pipedrive)(nil)

// Options lists the settings.
func (p *Pipedrive) Options() []crm.Option {
	return []crm.Option{
		{Name: "token", Type: crm.SecretText, Help: "the personal API token"},
		{Name: "client_id", Help: "instead of token: OAuth"},
		{Name: "client_secret", Type: crm.SecretText, Help: "instead of token: OAuth"},
		{Name: "refresh_token", Type: crm.SecretText, Help: "instead of token: OAuth"},
		{Name: "deal", Help: "true: each enquiry becomes a deal; otherwise a lead in the Leads Inbox"},
		{Name: "pipeline", Help: "id of the deal's pipeline"},
		{Name: "stage", Help: "id of the stage in which a deal begins"},
		{Name: "lead_id_field", Help: "the 40-character key of the deal field that holds the lead's id; without: the field named " + fieldName},
		{Name: "fields", Type: crm.Map, Help: "key of a person's custom field: field of the lead"},
		{Name: "deal_fields", Type: crm.Map, Help: "key of a custom field of the deal or lead: field of the lead"},
		{Name: "title", Help: "title of the deal or lead, a text with {{field}}"},
		{Name: "webhook_user", Help: "HTTP auth username of the webhook that tells of stage changes; Pipedrive signs nothing, so set one with a password"},
		{Name: "webhook_password", Type: crm.SecretText, Help: "HTTP auth password of that webhook"},
		{Name: "read", Type: crm.List, Help: "further fields of deal and person to read with a stage change, custom ones by their key, for rules that ask for them"},
		crm.WatchOption("fields of the deal whose values are told like stages, custom ones by their 40-character key; from webhooks"),
		{Name: "url", Help: "address of the API (" + home + ", or https://company.pipedrive.com)"},
		{Name: "oauth_url", Help: "address that renews OAuth tokens (" + tokenHome + ")"},
		{Name: "allow_private", Help: "true lets url lead into a private network"},
	}
}

// Pace is one lead after the other: two enquiries of one new person at the same time would
// make two persons. A lead takes about five calls, of the 10 a second of the smallest plan.
func (p *Pipedrive) Pace(crm.Account) (int, float64) { return 1, 2 }

// call is one delivery on its way.
type call struct {
	p    *Pipedrive
	a    crm.Account
	l    *ledger.Lead
	hide []string
	key  string // of the field for the lead's id
	sent []byte
}

// Deliver finds or creates the person, then the lead or deal.
func (p *Pipedrive) Deliver(ctx context.Context, a crm.Account, l *ledger.Lead, known []string) crm.Delivered {
	c := &call{p: p, a: a, l: l, hide: crm.Private(a, l)}
	key, o := p.fieldKey(ctx, a)
	if o != nil {
		return crm.Delivered{Outcome: o}
	}
	c.key = key
	if record := crm.RecordID(known, c.kind()); record != "" {
		return crm.Delivered{Outcome: ledger.Accepted{Answer: ledger.Answer{Message: "the lead has its record already"}}, Records: known}
	}
	who, o := c.person(ctx, crm.RecordID(known, "person"))
	if o != nil {
		return crm.Delivered{Outcome: o, Sent: c.sent}
	}
	d := crm.Delivered{Records: []string{"person:" + who.id}}
	record := ""
	if !who.fresh {
		record, o = c.find(ctx, who.id)
	}
	if record == "" && o == nil {
		record, o = c.create(ctx, who.id)
	}
	d.Outcome, d.Sent = o, c.sent
	if record != "" {
		d.Outcome = ledger.Accepted{Answer: ledger.Answer{Status: http.StatusOK}}
		d.Records = []string{c.kind() + ":" + record, "person:" + who.id}
	}
	return d
}

func (c *call) kind() string {
	if c.a.Options.Is("deal") {
		return "deal"
	}
	return "lead"
}

// create makes the lead or the deal.
func (c *call) create(ctx context.Context, person string) (string, ledger.Outcome) {
	n, err := strconv.ParseInt(person, 10, 64)
	if err != nil {
		return "", strange(crm.Reply{})
	}
	path := "/api/v1/leads"
	if c.kind() == "deal" {
		path = "/api/v2/deals"
	}
	c.sent = c.body(n)
	r, failed := c.send(ctx, http.MethodPost, path, c.sent)
	return c.taken(r, failed)
}

// taken returns the id of the record that was written.
func (c *call) taken(r crm.Reply, err error) (string, ledger.Outcome) {
	o := c.classify(r, err)
	if _, ok := o.(ledger.Accepted); !ok {
		return "", o
	}
	var answer struct {
		Data struct {
			ID ident `json:"id"`
		} `json:"data"`
	}
	if json.Unmarshal(r.Body, &answer) != nil || answer.Data.ID == "" {
		return "", strange(r)
	}
	return string(answer.Data.ID), nil
}

// strange is a success without the id of a record: it cannot be told what was done.
func strange(r crm.Reply) ledger.Outcome {
	return ledger.Lost{Answer: ledger.Answer{Status: r.Status, Message: "the answer names no record"}}
}

// ident is an id, a number or a text.
type ident string

// UnmarshalJSON takes both.
func (i *ident) UnmarshalJSON(text []byte) error {
	*i = ident(strings.Trim(string(text), `"`))
	if *i == "null" || strings.ContainsAny(string(*i), `{}[]\/?# `) {
		*i = ""
	}
	return nil
}

var hexKey = regexp.MustCompile(`^[0-9a-f]{40}$`)

// body is what makes the lead or the deal; person is its id, or a placeholder.
func (c *call) body(person any) []byte {
	title := crm.Value(c.a, c.l, cmp.Or(c.a.Options.Text("title"), "title"))
	b := map[string]any{"title": cmp.Or(title, "Lead"), "person_id": person}
	custom := map[string]any{c.key: crm.Key(c.l)}
	for target, v := range crm.Values(c.a, c.l, crm.Fields(crm.Table(c.a, "deal_fields"), nil)) {
		if hexKey.MatchString(target) && target != c.key {
			custom[target] = v
		}
	}
	if c.kind() == "lead" {
		maps.Copy(b, custom)
		b["origin_id"] = crm.Key(c.l)
		return crm.JSON(b)
	}
	b["custom_fields"] = custom
	for option, target := range map[string]string{"pipeline": "pipeline_id", "stage": "stage_id"} {
		if n, err := strconv.ParseInt(c.a.Options.Text(option), 10, 64); err == nil {
			b[target] = n
		}
	}
	return crm.JSON(b)
}

// send makes the call. A reading that was cut off has done nothing.
func (c *call) send(ctx context.Context, method, path string, body []byte) (crm.Reply, error) {
	return c.p.do(ctx, c.a, method, path, body)
}

func (p *Pipedrive) do(ctx context.Context, a crm.Account, method, path string, body []byte) (crm.Reply, error) {
	login := crm.Login{Token: a.Options.Secret("token"), Header: "X-Api-Token"}
	if a.Options.Text("refresh_token") != "" {
		login.TokenURL, login.Basic = cmp.Or(a.Options.Text("oauth_url"), tokenHome), true
	}
	r, err := p.oauth.Do(ctx, a, login, func(domain string) crm.Request {
		base := strings.TrimRight(cmp.Or(a.Options.Text("url"), domain, home), "/")
		return crm.Request{Method: method, URL: base + path, Body: body, Private: a.Options.Is("allow_private")}
	})
	if e, ok := err.(*crm.CallError); ok && e.Stage == crm.Cut && method == http.MethodGet { //nolint:errorlint // Do returns exactly this type
		e.Stage = crm.Unsent
	}
	return r, err
}

func (c *call) classify(r crm.Reply, err error) ledger.Outcome {
	o := classify(r, err, c.hide)
	if f, ok := o.(ledger.Refusal); ok && c.key != "" && strings.Contains(string(r.Body), c.key) {
		f.Answer.Message += ": the field for the lead's id is not there; " + crm.Repair
		c.p.forget(c.a)
		return ledger.Hold{Answer: f.Answer, Reason: ledger.FieldMissing}
	}
	return o
}

// classify knows Pipedrive's own errors.
func classify(r crm.Reply, err error, hide []string) ledger.Outcome {
	o := crm.Classify(r, err, hide)
	if err != nil {
		return o
	}
	answer := ledger.AnswerOf(o)
	switch {
	case r.Status == http.StatusTooManyRequests:
		wait := crm.RetryAfter(r)
		if n, err := strconv.Atoi(r.Header.Get("X-Ratelimit-Reset")); err == nil && wait == 0 && n > 0 && n <= 86400 {
			wait = time.Duration(n) * time.Second
		}
		if r.Header.Get("X-Daily-Requests-Left") == "0" {
			wait = max(wait, 30*time.Minute)
		}
		return ledger.RetryAt{Answer: answer, Reason: ledger.Throttled, Wait: wait}
	case r.Status == http.StatusForbidden && strings.HasPrefix(strings.TrimSpace(string(r.Body)), "<"):
		answer.Message = "Cloudflare has shut us out for a while, because too much was asked"
		return ledger.RetryAt{Answer: answer, Reason: ledger.Throttled, Wait: 5 * time.Minute}
	}
	return o
}

// Preview returns the calls for a person whom Pipedrive does not know.
func (p *Pipedrive) Preview(a crm.Account, l *ledger.Lead) []crm.Call {
	c := &call{p: p, a: a, l: l, key: cmp.Or(a.Options.Text("lead_id_field"), "<"+fieldName+">")}
	base := strings.TrimRight(cmp.Or(a.Options.Text("url"), home), "/")
	var calls []crm.Call
	for _, path := range slices.Collect(c.searches()) {
		calls = append(calls, crm.Call{Method: http.MethodGet, URL: base + path})
	}
	path := "/api/v1/leads"
	if c.kind() == "deal" {
		path = "/api/v2/deals"
	}
	return append(calls,
		crm.Call{Method: http.MethodPost, URL: base + "/api/v2/persons", Body: crm.JSON(c.newPerson())},
		crm.Call{Method: http.MethodPost, URL: base + path, Body: c.body("<person>")})
}
