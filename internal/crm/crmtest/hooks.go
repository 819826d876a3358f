package crmtest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/capiloop/capiloop/internal/crm"
)

// Hook is one request that a CRM would make, to be given to Receive or really sent.
type Hook struct {
	URL    string
	Header http.Header
	Body   []byte
}

// Incoming is the request as the gateway would see it.
func (h Hook) Incoming() crm.Incoming {
	in := crm.Incoming{Method: http.MethodPost, URL: h.URL, Header: h.Header, Body: h.Body}
	if u, err := url.Parse(h.URL); err == nil {
		in.Query = u.Query()
	}
	return in
}

// Send posts it to where the gateway really listens, and returns the answer's status: as
// CRMs do, it follows no redirect.
func (h Hook) Send(ctx context.Context, to string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(h.Body))
	if err != nil {
		return 0, err
	}
	req.Header = h.Header.Clone()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// HubSpotSender sends what an app of HubSpot does.
type HubSpotSender struct {
	Secret string // the app's client secret
	URL    string // the public address, as the app has it
	Seed   uint64 // of the order
}

// DealStage is the event of a deal that was moved, in the older format; what is
// different in a test is put over it.
func (s HubSpotSender) DealStage(deal int64, stage string, at time.Time) map[string]any {
	return map[string]any{
		"eventId": 3001, "subscriptionId": 25, "portalId": 4000001, "appId": 1160001, "occurredAt": at.UnixMilli(), "subscriptionType": "deal.propertyChange",
		"attemptNumber": 0, "objectId": deal, "propertyName": "dealstage", "propertyValue": stage, "changeSource": "CRM_UI", "sourceId": "userId:9999",
	}
}

// ContactProperty is the event of a contact's property that got another value.
func (s HubSpotSender) ContactProperty(contact int64, name, value string, at time.Time) map[string]any {
	e := s.DealStage(contact, value, at)
	e["subscriptionType"], e["propertyName"] = "contact.propertyChange", name
	return e
}

// Requests is what becomes of the events: shuffled, in arrays of up to 100, and every
// event once more as the repeat after an answer that came too late.
func (s HubSpotSender) Requests(now time.Time, events ...map[string]any) []Hook {
	var all []map[string]any
	for attempt := range 2 {
		for _, e := range events {
			again := maps.Clone(e)
			again["attemptNumber"] = attempt
			all = append(all, again)
		}
	}
	order := rand.New(rand.NewPCG(1, s.Seed)) //nolint:gosec // a test's order is to be the same each time
	order.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var list []Hook
	for len(all) > 0 {
		n := min(len(all), 1+order.IntN(100))
		body, err := json.Marshal(all[:n])
		if err != nil {
			panic(err)
		}
		list = append(list, s.Sign(now, body))
		all = all[n:]
	}
	return list
}

// Sign is a request with signature v3. The address must hold none of the escapes that
// HubSpot undoes.
func (s HubSpotSender) Sign(now time.Time, body []byte) Hook {
	stamp := strconv.FormatInt(now.UnixMilli(), 10)
	mac := hmac.New(sha256.New, []byte(s.Secret))
	_, _ = fmt.Fprintf(mac, "POST%s%s%s", s.URL, body, stamp)
	h := http.Header{"Content-Type": {"application/json"}}
	h.Set("X-HubSpot-Signature-v3", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	h.Set("X-HubSpot-Request-Timestamp", stamp)
	return Hook{URL: s.URL, Header: h, Body: body}
}

// SignWorkflow is a request with signature v2, as the webhook of a workflow has it.
func (s HubSpotSender) SignWorkflow(body []byte) Hook {
	sum := sha256.Sum256(append([]byte(s.Secret+"POST"+s.URL), body...))
	h := http.Header{"Content-Type": {"application/json"}}
	h.Set("X-HubSpot-Signature", hex.EncodeToString(sum[:]))
	h.Set("X-HubSpot-Signature-Version", "v2")
	return Hook{URL: s.URL, Header: h, Body: body}
}

// PipedriveSender sends what a webhook of Pipedrive does.
type PipedriveSender struct{ User, Password, URL string }

// Request is one delivery of a body.
func (s PipedriveSender) Request(body any) Hook {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	r := http.Request{Header: http.Header{"Content-Type": {"application/json"}}}
	if s.User != "" || s.Password != "" {
		r.SetBasicAuth(s.User, s.Password)
	}
	return Hook{URL: s.URL, Header: r.Header, Body: raw}
}

// Requests are the attempts 1 to 4 of one event of version 2: meta.id stays, and
// meta.attempt rises.
func (s PipedriveSender) Requests(body map[string]any) []Hook {
	list := make([]Hook, 0, 4)
	for attempt := 1; attempt <= 4; attempt++ {
		again := maps.Clone(body)
		meta := map[string]any{}
		if old, ok := body["meta"].(map[string]any); ok {
			maps.Copy(meta, old)
		}
		meta["attempt"] = attempt
		again["meta"] = meta
		list = append(list, s.Request(again))
	}
	return list
}

// Deal is the body of an event of version 2: what became of a deal's fields. previous has
// those that changed, as they were.
func (s PipedriveSender) Deal(id string, at time.Time, data, previous map[string]any) map[string]any {
	action := "change"
	if previous == nil {
		action = "create"
	}
	return map[string]any{
		"meta": map[string]any{
			"action": action, "entity": "deal", "entity_id": fmt.Sprint(data["id"]), "id": id, "company_id": "5000001", "user_id": "1",
			"correlation_id": id, "is_bulk_edit": false, "timestamp": at.UTC().Format("2006-01-02T15:04:05.000Z"), "type": "general", "version": "2.0",
			"webhook_id": "600", "webhook_owner_id": "1", "change_source": "app", "attempt": 1, "host": "example.pipedrive.com", "permitted_user_ids": []string{"1"},
		},
		"data": data, "previous": previous,
	}
}
