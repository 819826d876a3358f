// Package gohighlevel hands leads to GoHighLevel (LeadConnector): a contact with the
// lead id and the click ids in custom fields and, where a pipeline is set, an
// opportunity.
//
// The contact goes by contacts/upsert, which matches by e-mail and phone unless the
// location allows duplicates; so a contact that already carries the lead id is looked
// for first, and is updated in its place. Tags never go with the contact, for there they
// would replace all tags: they have a call of their own.
package gohighlevel

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
const Kind = "gohighlevel"

const (
	base    = "https://services.leadconnectorhq.com"
	version = "2021-07-28" // of the API; each call names it
)

// CRM is GoHighLevel.
type CRM struct {
	oauth    *crm.OAuth
	pause    time.Duration // between the readings of a list
	patience time.Duration // how long a list waits for a window of calls
	pages    int           // how many a list may have

	mu    sync.Mutex
	known map[int64]fieldNames // by account
}

// New returns the kind.
func New() *CRM {
	return &CRM{oauth: crm.NewOAuth(crm.NewCaller()), pause: readPause, patience: longWait, pages: maxPages, known: map[int64]fieldNames{}}
}

// Options lists the settings.
func (*CRM) Options() []crm.Option {
	return []crm.Option{
		{Name: "token", Type: crm.SecretText, Help: "Private Integration token of the location; or client_id, client_secret and refresh_token"},
		{Name: "client_id", Help: "of the OAuth app"},
		{Name: "client_secret", Type: crm.SecretText, Help: "of the OAuth app"},
		{Name: "refresh_token", Type: crm.SecretText, Help: "of the OAuth app in this location; each use renews it"},
		{Name: "location_id", Required: true, Help: "id of the location (sub-account)"},
		{Name: "pipeline_id", Help: "with stage_id: each lead gets an opportunity in this pipeline"},
		{Name: "stage_id", Help: "stage in which the opportunity begins"},
		{Name: "tags", Type: crm.List, Help: "tags that the contact gets in addition to those it has"},
		{Name: "fields", Type: crm.Map, Help: "contact field, custom field key or id:<custom field id>: field of the lead"},
		{Name: "lead_id_field", Help: "key of the custom field for the lead id; meta_lead_id if not given"},
		{Name: "workflow_hooks", Help: "true takes stage changes from the action Webhook of workflows, too, which signs nothing: the address is all the secret there is"},
		crm.WatchOption("contact fields whose values are told like stages: tags, or ids of custom fields; from the webhooks of an app"),
		{Name: "webhook_public_key", Help: "key that signs the webhooks of an app, if it is not GoHighLevel's own"},
		{Name: "url", Help: "base address of the API, if it is not " + base},
		{Name: "allow_private", Help: "true lets url lead into a private network"},
	}
}

// Pace keeps to 100 calls in 10 seconds: a lead takes up to four.
func (*CRM) Pace(crm.Account) (parallel int, perSecond float64) { return 4, 2.5 }

// Deliver creates or updates the contact, its opportunity and its tags. Each step can be
// repeated: what an earlier try left half done is finished.
func (c *CRM) Deliver(ctx context.Context, a crm.Account, l *ledger.Lead, known []string) crm.Delivered {
	v := visit{crm: c, account: a, lead: l, hide: crm.Private(a, l)}
	return v.deliver(ctx, known)
}

// Preview shows the requests for a lead that is not known.
func (*CRM) Preview(a crm.Account, l *ledger.Lead) []crm.Call {
	var calls []crm.Call
	if q := lookUp(a, l); q != "" {
		calls = append(calls, crm.Call{Method: http.MethodGet, URL: address(a) + q})
	}
	calls = append(calls, crm.Call{Method: http.MethodPost, URL: address(a) + "/contacts/upsert", Body: crm.JSON(contact(a, l, true))})
	if wantsDeal(a) {
		calls = append(calls, crm.Call{Method: http.MethodPost, URL: address(a) + "/opportunities/upsert", Body: crm.JSON(deal(a, l, "{contact}"))})
	}
	if t := tags(a, l); len(t) > 0 {
		calls = append(calls, crm.Call{Method: http.MethodPost, URL: address(a) + "/contacts/{contact}/tags", Body: crm.JSON(map[string]any{"tags": t})})
	}
	return calls
}

func address(a crm.Account) string {
	return strings.TrimSuffix(cmp.Or(a.Options.Text("url"), base), "/")
}

func login(a crm.Account) crm.Login {
	l := crm.Login{Token: a.Options.Secret("token")}
	if !a.Options.Secret("refresh_token").IsZero() {
		l.TokenURL, l.Extra = address(a)+"/oauth/token", map[string]string{"user_type": "Location"}
	}
	return l
}

// call makes one call; what is not 2xx is an outcome.
func (c *CRM) call(ctx context.Context, a crm.Account, hide []string, method, path string, body any) (crm.Reply, ledger.Outcome) {
	r := crm.Request{
		Method: method, URL: address(a) + path, Header: map[string]string{"Version": version}, Private: a.Options.Is("allow_private"),
	}
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

// classify knows what is GoHighLevel's own: a token without the scope is a 401, and a
// wrong location or pipeline is a 400 or 422 that no lead can help.
func classify(r crm.Reply, err error, hide []string) ledger.Outcome {
	o := crm.Classify(r, err, hide)
	a := ledger.AnswerOf(o)
	low := strings.ToLower(a.Message)
	switch o := o.(type) {
	case ledger.Hold:
		if r.Status == http.StatusUnauthorized && (strings.Contains(low, "scope") || strings.Contains(low, "not have access")) {
			o.Reason = ledger.PermissionMissing
		}
		return o
	case ledger.Refusal:
		for _, word := range []string{"location", "pipeline", "version"} {
			if strings.Contains(low, word) {
				return ledger.Hold{Answer: a, Reason: ledger.FieldMissing}
			}
		}
	case ledger.RetryAt:
		if r.Status == http.StatusTooManyRequests && o.Wait == 0 {
			o.Wait = pause(r.Header)
		}
		return o
	}
	return o
}

// pause is how long a 429 asks to wait: the rest of its window, or, when the day's calls
// are used up, an hour at a time.
func pause(h http.Header) time.Duration {
	if h.Get("X-Ratelimit-Daily-Remaining") == "0" {
		return time.Hour
	}
	ms, err := strconv.Atoi(h.Get("X-Ratelimit-Interval-Milliseconds"))
	if err != nil || ms <= 0 || ms > 3_600_000 {
		return 10 * time.Second
	}
	return time.Duration(ms) * time.Millisecond
}

// visit is one delivery.
type visit struct {
	crm     *CRM
	account crm.Account
	lead    *ledger.Lead
	hide    []string
	done    crm.Delivered
}

func (v *visit) deliver(ctx context.Context, known []string) crm.Delivered {
	id, deals := "", []string(nil)
	for _, record := range known {
		kind, value, _ := strings.Cut(record, ":")
		switch kind {
		case "contact":
			id = cmp.Or(id, value)
		case "opportunity":
			deals = append(deals, record)
		}
	}
	id, o := v.contact(ctx, id)
	if o != nil {
		v.done.Outcome, v.done.Records = o, known
		return v.done
	}
	v.done.Records = append(v.done.Records, deals...)
	v.done.Records = append(v.done.Records, "contact:"+id)
	if len(deals) == 0 && wantsDeal(v.account) {
		// A known opportunity is left alone: it may stand in a later stage by now.
		if o := v.deal(ctx, id); o != nil {
			v.done.Outcome = o
			return v.done
		}
	}
	if t := tags(v.account, v.lead); len(t) > 0 {
		if _, o := v.call(ctx, http.MethodPost, "/contacts/"+url.PathEscape(id)+"/tags", map[string]any{"tags": t}); o != nil {
			v.done.Outcome = o
			return v.done
		}
	}
	v.done.Outcome = ledger.Accepted{Answer: ledger.Answer{Status: http.StatusOK}}
	return v.done
}

func (v *visit) call(ctx context.Context, method, path string, body any) (crm.Reply, ledger.Outcome) {
	return v.crm.call(ctx, v.account, v.hide, method, path, body)
}

// contact creates or updates the contact and returns its id.
func (v *visit) contact(ctx context.Context, id string) (string, ledger.Outcome) {
	if id == "" {
		var o ledger.Outcome
		if id, o = v.find(ctx); o != nil {
			return "", o
		}
	}
	if id != "" {
		body := contact(v.account, v.lead, false)
		v.done.Sent = crm.JSON(body)
		reply, o := v.call(ctx, http.MethodPut, "/contacts/"+url.PathEscape(id), body)
		if o == nil || !gone(reply) {
			return id, o
		}
	}
	body := contact(v.account, v.lead, true)
	v.done.Sent = crm.JSON(body)
	reply, o := v.call(ctx, http.MethodPost, "/contacts/upsert", body)
	if o != nil {
		return "", o
	}
	var answer struct {
		Contact struct {
			ID string `json:"id"`
		} `json:"contact"`
	}
	if json.Unmarshal(reply.Body, &answer) != nil || answer.Contact.ID == "" {
		return "", v.unreadable(reply)
	}
	return answer.Contact.ID, nil
}

// gone tells whether an update found no contact any more.
func gone(r crm.Reply) bool {
	words, _ := crm.Words(r)
	return r.Status == http.StatusNotFound || r.Status == http.StatusBadRequest && strings.Contains(strings.ToLower(words), "contact not found")
}

// find returns the contact that carries the lead id already.
func (v *visit) find(ctx context.Context) (string, ledger.Outcome) {
	path := lookUp(v.account, v.lead)
	if path == "" {
		return "", nil
	}
	reply, o := v.call(ctx, http.MethodGet, path, nil)
	switch {
	case reply.Status == http.StatusNotFound:
		return "", nil
	case o != nil:
		if _, lost := o.(ledger.Lost); lost { // nothing was written
			return "", ledger.RetryAt{Answer: ledger.AnswerOf(o), Reason: ledger.Backlog}
		}
		return "", o
	}
	var answer struct {
		Contact *struct {
			ID     string `json:"id"`
			Fields []struct {
				Value any `json:"value"`
			} `json:"customFields"`
		} `json:"contact"`
	}
	if json.Unmarshal(reply.Body, &answer) != nil {
		return "", v.unreadable(reply)
	}
	if answer.Contact != nil {
		for _, f := range answer.Contact.Fields {
			if f.Value == any(crm.Key(v.lead)) {
				return answer.Contact.ID, nil
			}
		}
	}
	return "", nil
}

func (v *visit) deal(ctx context.Context, contactID string) ledger.Outcome {
	body := deal(v.account, v.lead, contactID)
	reply, o := v.call(ctx, http.MethodPost, "/opportunities/upsert", body)
	if o != nil {
		return o
	}
	var answer struct {
		Opportunity struct {
			ID string `json:"id"`
		} `json:"opportunity"`
	}
	if json.Unmarshal(reply.Body, &answer) != nil || answer.Opportunity.ID == "" {
		return v.unreadable(reply)
	}
	v.done.Records = append([]string{"opportunity:" + answer.Opportunity.ID}, v.done.Records...)
	return nil
}

// unreadable is for a success whose words are not GoHighLevel's: something in between may
// have answered.
func (v *visit) unreadable(r crm.Reply) ledger.Outcome {
	return ledger.RetryAt{Reason: ledger.Backlog, Answer: ledger.Answer{Status: r.Status, Message: "the answer does not name the record"}}
}
