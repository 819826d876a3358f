// Package meta sends events to Meta's Conversions API: it turns the classes of
// package capi's answers into the ledger's outcomes. It never retries and never
// logs.
package meta

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/platform"
)

// Kind is the destinations' kind for this platform.
const Kind = "meta"

// Sandbox is the id of the built-in dataset that goes to the stand-in for Graph
// inside the process.
const Sandbox = "sandbox"

// sandboxID is what the sandbox is called on the wire: Graph's ids are numbers.
const sandboxID = "1000000000000001"

// partnerAgent names us to Meta (page "End-to-end implementation": under 23
// characters, at least two letters).
const partnerAgent = "capiloop"

// Config says how the platform reaches Graph.
type Config struct {
	Transport http.RoundTripper // for every dataset but the sandbox
	Sandbox   http.RoundTripper // serves the sandbox; nil: there is none
	URL       string            // Graph's base; "" is Meta's
	Version   string            // Graph's version; "" is capi's default
}

// Platform is Meta.
type Platform struct {
	config Config

	mu      sync.Mutex
	clients map[int64]clientOf // by destination
}

// clientOf is a client and the account that it was made for.
type clientOf struct {
	account platform.Account
	client  *capi.Client
}

// New returns the platform.
func New(c Config) *Platform {
	return &Platform{config: c, clients: make(map[int64]clientOf)}
}

// Limits returns Meta's 1000 events and a cautious 1 MB per request.
func (*Platform) Limits() (rows, bytes int) {
	return capi.MaxBatchEvents, capi.MaxBatchBytes - 4096
}

// Encode makes the payload that Meta gets.
func (*Platform) Encode(e *capi.Event, r platform.Rules) platform.Encoded {
	if r.Locale.Now.IsZero() {
		r.Locale.Now = time.Now()
	}
	x := platform.Encoded{Came: e.UserData.Keys()}
	x.Problems = e.Normalise(r.Locale)
	if r.People {
		x.People = people(&e.UserData)
	}
	if r.Keys != 0 {
		// Meta's own id of its own lead says nothing that Meta does not know, and without it
		// no Conversion Leads event counts.
		e.UserData.Keep(r.Keys.Add(capi.KeyLeadID))
	}
	x.Problems = append(x.Problems, e.Validate(r.Locale.Now)...)
	x.Kept = e.UserData.Keys()
	x.PersonBy, x.Person = person(&e.UserData)
	x.Payload = e.AppendJSON(make([]byte, 0, 2048)) // 1.6 KB is usual
	return x
}

// person is the value that tells two people apart best. It is what a repeated event_id is
// compared by; weak keys such as an address differ between two requests of one person and
// are left out.
func person(u *capi.UserData) (capi.Key, []byte) {
	for _, k := range []struct {
		key    capi.Key
		values []string
	}{{capi.KeyEmail, u.Email}, {capi.KeyPhone, u.Phone}, {capi.KeyExternalID, u.ExternalID}} {
		if len(k.values) > 0 {
			return k.key, []byte(k.values[0])
		}
	}
	for _, k := range []struct {
		key   capi.Key
		value string
	}{{capi.KeyLeadID, u.LeadID}, {capi.KeyFBP, u.FBP}, {capi.KeyFBC, u.FBC}} {
		if k.value != "" {
			return k.key, []byte(k.value)
		}
	}
	return "", nil
}

// hashDigits is the length of a SHA-256; an appendix of Meta's own may follow.
const hashDigits = 64

// people lists the values by which somebody may have withdrawn consent.
func people(u *capi.UserData) []string {
	var list []string
	for _, values := range [][]string{u.Email, u.Phone, u.ExternalID} {
		for _, v := range values {
			list = append(list, strings.ToLower(v[:min(len(v), hashDigits)]))
		}
	}
	if u.LeadID != "" {
		list = append(list, "lead/"+Kind+"/"+u.LeadID)
	}
	return list
}

// Send posts the batch. Every failure becomes an outcome by its class; see
// package capi for which code means what.
func (p *Platform) Send(ctx context.Context, a platform.Account, b *ledger.Batch) ledger.Outcome {
	client, err := p.client(a)
	if err != nil {
		return ledger.Hold{Reason: ledger.TokenInvalid, Answer: ledger.Answer{Message: err.Error()}}
	}
	batch := capi.Batch{Events: make([]json.RawMessage, len(b.Rows)), PartnerAgent: cmp.Or(b.Envelope.Agent, partnerAgent), TestEventCode: b.Envelope.TestCode}
	for i, r := range b.Rows {
		batch.Events[i] = r.Payload
	}
	result, err := client.Send(ctx, graphID(a.Destination.Name), batch)
	if err == nil {
		answer := ledger.Answer{Status: http.StatusOK, TraceID: result.FBTraceID, Message: strings.Join(result.Messages, "; ")}
		if result.EventsReceived < len(b.Rows) {
			return ledger.Split{Answer: answer, OneByOne: true}
		}
		return ledger.Accepted{Answer: answer}
	}
	var e *capi.APIError
	if !errors.As(err, &e) {
		return ledger.RetryAt{Reason: ledger.Backlog, Answer: ledger.Answer{Message: err.Error()}}
	}
	return outcome(e, len(b.Rows))
}

func outcome(e *capi.APIError, rows int) ledger.Outcome {
	a := ledger.Answer{Status: e.HTTPStatus, Code: e.Code, Subcode: e.Subcode, TraceID: e.FBTraceID, Message: words(e)}
	switch e.Class {
	case capi.ClassThrottled:
		return ledger.RetryAt{Answer: a, Reason: ledger.Throttled, Wait: e.Wait}
	case capi.ClassAccess:
		return ledger.Hold{Answer: a, Reason: accessReason(e)}
	case capi.ClassPayload, capi.ClassUnclear:
		unclear := e.Class == capi.ClassUnclear
		if rows > 1 {
			return ledger.Split{Answer: a, Unclear: unclear}
		}
		return ledger.Refusal{Answer: a, Unclear: unclear}
	case capi.ClassAmbiguous:
		return ledger.Lost{Answer: a}
	case capi.ClassRetry, capi.ClassUnsent:
	}
	return ledger.RetryAt{Answer: a, Reason: ledger.Backlog}
}

// words are Meta's own where it had some.
func words(e *capi.APIError) string {
	for _, w := range []string{e.UserMessage, e.Message, e.Body} {
		if w != "" {
			return w
		}
	}
	return e.Explanation().Title
}

func accessReason(e *capi.APIError) ledger.Reason {
	switch e.Code {
	case 190, 102, 104:
		return ledger.TokenInvalid
	case 100, 803:
		return ledger.DatasetOutOfReach
	case 368:
		return ledger.Blocked
	case 0:
		return ledger.TokenInvalid // refused by our own client: settings that cannot work
	}
	return ledger.PermissionMissing
}

func graphID(dataset string) string {
	if dataset == Sandbox {
		return sandboxID
	}
	return dataset
}

// client returns the client of an account; it is made again when a token or version
// changes.
func (p *Platform) client(a platform.Account) (*capi.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if have, ok := p.clients[a.Destination.ID]; ok && have.account.Same(a) {
		return have.client, nil
	}
	c, err := capi.NewClient(p.clientConfig(a))
	if err != nil {
		return nil, err
	}
	p.clients[a.Destination.ID] = clientOf{a, c}
	return c, nil
}

func (p *Platform) clientConfig(a platform.Account) capi.Config {
	c := capi.Config{
		BaseURL: a.URL, Version: a.Version, Token: a.Token.Reveal(), AppSecret: a.AppSecret.Reveal(),
		HTTPClient: &http.Client{Transport: p.config.Transport},
	}
	if c.BaseURL == "" {
		c.BaseURL = p.config.URL
	}
	if c.Version == "" {
		c.Version = p.config.Version
	}
	if a.Destination.Name == Sandbox {
		c.BaseURL, c.Token, c.AppSecret = "http://sandbox.invalid", "sandbox", ""
		c.HTTPClient.Transport = p.config.Sandbox
	}
	return c
}
