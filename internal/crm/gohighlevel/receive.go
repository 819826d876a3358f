package gohighlevel

import (
	"cmp"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

var _ crm.StageCompleter = (*CRM)(nil)

const (
	// publicKey is the vendor's, for X-GHL-Signature.
	publicKey = "MCowBQYDK2VwAyEAi2HR1srL4o18O8BRa7gVJY7G7bupbN3H9AwJrHCDiOg="

	// How old or how far ahead a signed request may be. GoHighLevel repeats what we could not
	// store for some 70 minutes under the moment of the first try; a copy played back within
	// that time is known by its webhookId.
	tolerance = 90 * time.Minute
	maxText   = 500 // bytes of an id or a name
)

// statusField is the field of an opportunity in which it is won or lost; its stage says
// nothing about that.
const statusField = "status"

// word is a text, or a number or truth value as it is written.
type word string

// UnmarshalJSON takes them; what is neither, or is longer than any id, is "".
func (w *word) UnmarshalJSON(text []byte) error {
	var s string
	switch {
	case len(text) == 0 || strings.ContainsRune("{[n", rune(text[0])):
	case text[0] == '"':
		if err := json.Unmarshal(text, &s); err != nil {
			return err
		}
	default:
		s = string(text)
	}
	s = strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", ""))
	if len(s) > maxText {
		s = ""
	}
	*w = word(s)
	return nil
}

// hook is what an app is told. Opportunities and contacts share one shape.
type hook struct {
	Type      word          `json:"type"`
	Location  word          `json:"locationId"`
	ID        word          `json:"id"`
	WebhookID word          `json:"webhookId"`
	At        word          `json:"timestamp"`
	Added     word          `json:"dateAdded"` // when the record was made, not when it changed
	Contact   word          `json:"contactId"`
	Assigned  word          `json:"assignedTo"`
	Value     word          `json:"monetaryValue"`
	Pipeline  word          `json:"pipelineId"`
	Stage     word          `json:"pipelineStageId"`
	Status    word          `json:"status"`
	Tags      []word        `json:"tags"`
	Fields    []customValue `json:"customFields"`
}

type customValue struct {
	ID    word `json:"id"`
	Value any  `json:"value"`
}

// Receive reads the webhook of an app, which is signed, and, where the account allows it,
// that of a workflow, which is not. GoHighLevel sends again after a 429 only.
func (c *CRM) Receive(r crm.Incoming, a crm.Account, now time.Time) crm.Received {
	signature := r.Header.Get("X-Ghl-Signature")
	workflow := a.Options.Is("workflow_hooks")
	switch {
	case r.Method != http.MethodPost:
		return answer(http.StatusMethodNotAllowed, "GoHighLevel sends POST\n")
	case signature == "" && r.Header.Get("X-Wh-Signature") != "":
		return answer(http.StatusUnauthorized, "X-WH-Signature has ended: send X-GHL-Signature\n")
	case signature == "" && !workflow:
		return answer(http.StatusUnauthorized, "X-GHL-Signature is missing; the webhooks of workflows, which have none, are taken with workflow_hooks: true\n")
	case signature != "" && !genuine(r.Body, signature, cmp.Or(a.Options.Text("webhook_public_key"), publicKey)):
		return answer(http.StatusUnauthorized, "X-GHL-Signature was not made over these bytes by the key of webhook_public_key\n")
	case !json.Valid(r.Body):
		return answer(http.StatusBadRequest, "the body is no JSON\n")
	}
	if signature == "" {
		return readWorkflow(r.Body, a, now)
	}
	var h hook
	_ = json.Unmarshal(r.Body, &h) // what is of another shape than is known stays empty
	if at := moment(h.At); at.Before(now.Add(-tolerance)) || at.After(now.Add(tolerance)) {
		return answer(http.StatusUnauthorized, "timestamp is missing or more than 5 minutes from now\n")
	}
	out := answer(http.StatusOK, "")
	if own := a.Options.Text("location_id"); own == "" || h.Location == "" || string(h.Location) == own {
		out.Changes = h.changes(a)
	}
	return out
}

func answer(status int, text string) crm.Received {
	return crm.Received{Busy: http.StatusTooManyRequests, Answer: crm.Answer{Status: status, Body: []byte(text)}}
}

// genuine verifies an Ed25519 signature over the raw bytes.
func genuine(body []byte, signature, key string) bool {
	public, err := readKey(key)
	if err != nil {
		return false
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(signature))
	return err == nil && len(raw) == ed25519.SignatureSize && ed25519.Verify(public, body, raw)
}

var errKey = errors.New("it is no Ed25519 public key")

// readKey reads a key in SPKI, as the vendor shows it: base64, with or without PEM's lines.
func readKey(text string) (ed25519.PublicKey, error) {
	text = strings.NewReplacer("-----BEGIN PUBLIC KEY-----", "", "-----END PUBLIC KEY-----", "").Replace(text)
	raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return nil, errKey
	}
	key, err := x509.ParsePKIXPublicKey(raw)
	if err != nil {
		return nil, errKey
	}
	public, ok := key.(ed25519.PublicKey)
	if !ok {
		return nil, errKey
	}
	return public, nil
}

// changes are the moves that a hook tells of. An update that is of no stage tells of none.
func (h *hook) changes(a crm.Account) []ledger.StageChange {
	if strings.HasPrefix(string(h.Type), "Contact") {
		return h.watched(a)
	}
	if h.ID == "" {
		return nil
	}
	whole := ledger.StageChange{
		Key: string(h.WebhookID), Thin: true, Records: records("opportunity", h.ID, "contact", h.Contact), DealID: string(h.ID),
		Pipeline: string(h.Pipeline), At: moment(h.At), Amount: amount(h.Value),
	}
	stage, status := whole, whole
	stage.Stage = string(h.Stage)
	status.Field, status.Stage, status.Meaning = statusField, strings.ToLower(string(h.Status)), meaning(h.Status)
	switch h.Type {
	case "OpportunityCreate":
		if status.Key != "" {
			status.Key += " " + statusField
		}
		if m := status.Meaning; m == ledger.MeaningWon || m == ledger.MeaningLost {
			return named([]ledger.StageChange{stage, status})
		}
		return named([]ledger.StageChange{stage})
	case "OpportunityStageUpdate":
		return named([]ledger.StageChange{stage})
	case "OpportunityStatusUpdate":
		return named([]ledger.StageChange{status})
	}
	return nil
}

// named leaves out what names no stage.
func named(list []ledger.StageChange) []ledger.StageChange {
	return slices.DeleteFunc(list, func(c ledger.StageChange) bool { return c.Stage == "" })
}

// watched are the values of the contact's fields that the account watches. The hook does
// not tell which field has changed, so each value of a contact counts once.
func (h *hook) watched(a crm.Account) []ledger.StageChange {
	if h.ID == "" || h.Type == "ContactDelete" {
		return nil
	}
	return reached(a, h.Tags, h.Fields, ledger.StageChange{Thin: true, Records: records("contact", h.ID), At: moment(h.At)})
}

// meaning of an opportunity's status.
func meaning(status word) ledger.Meaning {
	switch strings.ToLower(string(status)) {
	case "won":
		return ledger.MeaningWon
	case "lost", "abandoned":
		return ledger.MeaningLost
	case "open":
		return ledger.MeaningOpen
	}
	return ledger.MeaningUnknown
}

// records names records as Deliver does: kinds and ids by turns.
func records(pairs ...word) []string {
	var list []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			list = append(list, string(pairs[i]+":"+pairs[i+1]))
		}
	}
	return list
}

// amount is what an opportunity is worth. An opportunity without a value has 0.
func amount(value word) string {
	text := crm.Decimal(string(value))
	if strings.Trim(text, "0.") == "" || strings.HasPrefix(text, "-") {
		return ""
	}
	return text
}

func moment(text word) time.Time {
	at, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}

// plain is the text of a custom field's value; several choices are joined.
func plain(value any) word {
	raw, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	if list, ok := value.([]any); ok {
		texts := make([]string, 0, len(list))
		for _, v := range list {
			texts = append(texts, string(plain(v)))
		}
		raw, _ = json.Marshal(strings.Join(texts, ", ")) // a text
	}
	var w word
	if json.Unmarshal(raw, &w) != nil {
		return ""
	}
	return w
}
