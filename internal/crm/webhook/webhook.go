// Package webhook hands leads to any URL as JSON: Zapier, Make, n8n, a Google Apps Script, a
// system of one's own. In: a lead and the account's settings. Out: one POST, signed by
// Standard Webhooks where there is a secret. The header webhook-id and the field id stay
// the same through all repeats, so that the receiver can tell a repeat from a new lead.
// Back comes what became of leads: Receive reads stage changes as JSON or as a form.
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

// Webhook is the kind "webhook".
type Webhook struct{ caller *crm.Caller }

// New returns it.
func New() *Webhook { return &Webhook{caller: crm.NewCaller()} }

var _ crm.CRM = (*Webhook)(nil)

// Options lists the settings.
func (w *Webhook) Options() []crm.Option {
	return []crm.Option{
		{Name: "url", Type: crm.SecretText, Required: true, Help: "where each lead is posted to; https, and a public address unless allow_private is true"},
		{Name: "secret", Type: crm.SecretText, Help: "whsec_ and base64, for Standard Webhooks signatures; two with a space between while one replaces the other; without: unsigned. Given, stage changes that come in must be signed by it, too"},
		{Name: "format", Help: "flat (one level, every key always there; the default), full (type, timestamp, data) or fields (only what fields lists)"},
		{Name: "fields", Type: crm.Map, Help: "further keys, each with its source: a field of the lead, answer:<question>, a text with {{field}}, or =fixed text; - takes a key out"},
		{Name: "headers", Type: crm.Map, Help: "further headers, such as Authorization"},
		{Name: "timezone", Help: "zone of times without one in stage changes that come in, such as Europe/Berlin (UTC)"},
		{Name: "dates", Help: "dmy or mdy: what 03/04/2026 means in stage changes that come in; without, such a date is refused"},
		{Name: "allow_private", Help: "true lets the URL lead into a private network and be plain http, such as an n8n beside this server"},
	}
}

// Pace keeps well below Make's 300 in 10 seconds.
func (w *Webhook) Pace(crm.Account) (int, float64) { return 4, 10 }

// Deliver posts the lead.
func (w *Webhook) Deliver(ctx context.Context, a crm.Account, l *ledger.Lead, _ []string) crm.Delivered {
	r, err := request(a, l, time.Now())
	if err != nil {
		return crm.Delivered{Outcome: ledger.Hold{Reason: ledger.TokenInvalid, Answer: ledger.Answer{Message: err.Error()}}}
	}
	reply, err := w.caller.Do(ctx, r)
	return crm.Delivered{Outcome: judge(a, l, reply, err), Sent: r.Body}
}

// Preview returns the request, without its headers and without the path of the URL, which
// with Zapier and Make is all the credential there is.
func (w *Webhook) Preview(a crm.Account, l *ledger.Lead) []crm.Call {
	address := "***"
	if u, err := url.Parse(a.Options.Text("url")); err == nil && u.Host != "" {
		address = u.Scheme + "://" + u.Host + "/***"
	}
	return []crm.Call{{Method: http.MethodPost, URL: address, Body: Body(a, l)}}
}

// ID is the webhook-id of a lead.
func ID(l *ledger.Lead) string { return "lead_" + l.ID.String() }

func request(a crm.Account, l *ledger.Lead, now time.Time) (crm.Request, error) {
	r := crm.Request{
		Method: http.MethodPost, URL: a.Options.Text("url"), Body: Body(a, l),
		Header: map[string]string{}, Private: a.Options.Is("allow_private"),
	}
	for name, value := range a.Options.Map("headers") {
		r.Header[http.CanonicalHeaderKey(name)] = value
	}
	stamp := strconv.FormatInt(now.Unix(), 10)
	r.Header["Webhook-Id"], r.Header["Webhook-Timestamp"] = ID(l), stamp
	if secrets := a.Options.Text("secret"); secrets != "" {
		signature, err := Sign(secrets, ID(l), stamp, r.Body)
		if err != nil {
			return r, err
		}
		r.Header["Webhook-Signature"] = signature
	}
	return r, nil
}

var errSecret = errors.New("the webhook's secret must be whsec_ and base64 of 24 to 64 bytes; copy it again")

// Sign returns the header webhook-signature for one or more secrets.
func Sign(secrets, id, timestamp string, body []byte) (string, error) {
	var list []string
	for one := range strings.FieldsSeq(secrets) {
		text, ok := strings.CutPrefix(one, "whsec_")
		key, err := base64.StdEncoding.DecodeString(text)
		if !ok || err != nil || len(key) < 24 || len(key) > 64 {
			return "", errSecret
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		list = append(list, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	if len(list) == 0 {
		return "", errSecret
	}
	return strings.Join(list, " "), nil
}

// judge knows the ways in which the well-known receivers answer.
func judge(a crm.Account, l *ledger.Lead, r crm.Reply, err error) ledger.Outcome {
	done := err == nil && r.Status >= 200 && r.Status < 300
	if done && len(bytes.TrimSpace(r.Body)) == 0 { // the usual answer, with nothing to look through
		return ledger.Accepted{Answer: ledger.Answer{Status: r.Status}}
	}
	hide := crm.Private(a, l)
	o := crm.Classify(r, err, hide)
	if err != nil {
		return o
	}
	host := hostOf(a.Options.Text("url"))
	answer := ledger.AnswerOf(o)
	switch {
	case r.Status == http.StatusBadRequest && strings.HasSuffix(host, ".make.com") && bytes.Contains(bytes.ToLower(r.Body), []byte("queue")):
		return ledger.RetryAt{Answer: answer, Reason: ledger.Backlog, Wait: crm.RetryAfter(r)}
	case host == "script.google.com" && r.Status == http.StatusOK:
		return judgeScript(r, answer, hide)
	case done && isPage(r.Body):
		answer.Message = "a page of HTML is at this address (such as a login, a parked domain or a firewall's notice) and not a receiver, so the lead did not arrive; " +
			"open the address to see the page, then set the URL that takes leads; a receiver of one's own must answer with JSON, a short text or nothing"
		return ledger.Hold{Answer: answer, Reason: ledger.AddressGone}
	}
	return o
}

// isPage tells a page for people, which takes no leads although its status is 200.
func isPage(body []byte) bool {
	body = bytes.TrimLeft(body, " \t\r\n\f\v\ufeff")
	for _, start := range []string{"<!doctype", "<html"} {
		if len(body) >= len(start) && strings.EqualFold(string(body[:len(start)]), start) {
			return true
		}
	}
	return false
}

// judgeScript reads the body, for an Apps Script has no status of its own.
func judgeScript(r crm.Reply, answer ledger.Answer, hide []string) ledger.Outcome {
	body := bytes.TrimSpace(r.Body)
	if bytes.HasPrefix(body, []byte("<")) {
		answer.Message = "Google answered with a page instead of the script's own words: deploy the script as a web app that anyone can reach, with a doPost that returns JSON"
		return ledger.Hold{Answer: answer, Reason: ledger.AddressGone}
	}
	var said struct {
		OK     *bool `json:"ok"`
		Status any   `json:"status"`
		Result any   `json:"result"`
		Error  any   `json:"error"`
	}
	if json.Unmarshal(body, &said) == nil &&
		(said.OK != nil && !*said.OK || said.Status == "error" || said.Result == "error" || said.Error != nil && said.Error != "" && said.Error != false) {
		// It is the user's own script: its trouble is seldom the lead's.
		answer.Message = "the script says: " + crm.AnswerOf(crm.Reply{Status: http.StatusBadRequest, Body: body}, hide).Message
		return ledger.RetryAt{Answer: answer, Reason: ledger.Backlog}
	}
	return ledger.Accepted{Answer: answer}
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// Check looks at the settings; it calls nothing, for a hook cannot be asked without
// setting it off.
func (w *Webhook) Check(_ context.Context, a crm.Account, _ bool) []crm.Check {
	checks := []crm.Check{checkURL(a)}
	add := func(c crm.Check) { checks = append(checks, c) }
	if strings.Contains(a.Options.Text("url"), "/webhook-test/") {
		add(crm.Check{
			Name: "url", Warning: true, Sentence: "The URL is n8n's test URL, which answers only for two minutes after somebody pressed Listen.",
			NextStep: "Activate the workflow and use its production URL, with /webhook/ in it.",
		})
	}
	if secrets := a.Options.Text("secret"); secrets == "" {
		add(crm.Check{Name: "secret", OK: true, Sentence: "The requests are not signed; whoever knows the receiver's URL can send to it."})
	} else if _, err := Sign(secrets, "x", "0", nil); err != nil {
		add(crm.Check{Name: "secret", Sentence: "The secret cannot be read.", NextStep: errSecret.Error()})
	} else {
		add(crm.Check{Name: "secret", OK: true, Sentence: "The requests are signed by Standard Webhooks."})
	}
	if !slices.Contains([]string{"", "flat", "full", "fields"}, a.Options.Text("format")) {
		add(crm.Check{Name: "format", Warning: true, Sentence: "There is no such format; flat is used.", NextStep: "Set format to flat, full or fields."})
	}
	for _, name := range slices.Sorted(maps.Keys(a.Options.Map("headers"))) {
		if !headerFits(name, a.Options.Map("headers")[name]) {
			add(crm.Check{Name: "headers", Sentence: "A header cannot be sent as it is written.", NextStep: "Take spaces and line breaks out of the header's name and value."})
		}
	}
	checks = append(checks, checkIncoming(a)...)
	return append(checks, crm.CheckFields(a)...)
}

func checkURL(a crm.Account) crm.Check {
	u, err := url.Parse(a.Options.Text("url"))
	plain := err == nil && u.Scheme == "http" && a.Options.Is("allow_private")
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && !plain {
		return crm.Check{Name: "url", Sentence: "The URL must look like https://host/path.", NextStep: "Copy the webhook's URL again."}
	}
	return crm.Check{Name: "url", OK: true, Sentence: "Leads go to " + u.Hostname() + ". Whether it takes them shows with the first lead."}
}

func headerFits(name, value string) bool {
	const more = "!#$%&'*+-.^_`|~"
	odd := strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(more, r)
	})
	control := strings.IndexFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
	return name != "" && odd < 0 && control < 0
}
