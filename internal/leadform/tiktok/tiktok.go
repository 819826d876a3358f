// Package tiktok reads the lead webhook of TikTok's Leads Center and Business API.
//
// Takes the signed request, gives its leads, up to a thousand. TikTok repeats for a day
// whatever is not answered 200, so news of other things (ad reviews, reports) is
// answered that and left.
package tiktok

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/ledger"
)

// Name is the kind's name in the configuration.
const Name = "tiktok_leads"

// objectLead is what the body's object is for leads.
const objectLead = "1"

// Kind is TikTok's lead webhook. The zero value is ready.
type Kind struct{}

var _ leadform.Kind = Kind{}

// Options lists the settings.
func (Kind) Options() []leadform.Option {
	return []leadform.Option{
		{Name: "app_secret", Type: leadform.SecretText, Help: "secret of the TikTok app that subscribed; needed while signatures are required"},
		{Name: "require_signature", Type: leadform.Text, Help: "false lets unsigned requests in, for TikTok products that do not sign (default true)"},
	}
}

type payload struct {
	Object  text              `json:"object"`
	Entries []json.RawMessage `json:"entry"`
}

type entry struct {
	ID           text            `json:"id"`
	LeadSource   text            `json:"lead_source"`
	PageID       text            `json:"page_id"`
	PageName     text            `json:"page_name"`
	CampaignID   text            `json:"campaign_id"`
	CampaignName text            `json:"campaign_name"`
	AdGroupID    text            `json:"adgroup_id"`
	AdGroupName  text            `json:"adgroup_name"`
	AdID         text            `json:"ad_id"`
	AdName       text            `json:"ad_name"`
	CreateTime   text            `json:"create_time"`
	Changes      json.RawMessage `json:"changes"`
}

type change struct {
	Field text            `json:"field"`
	Value json.RawMessage `json:"value"`
}

// Receive checks the signature and reads the leads.
func (Kind) Receive(r leadform.Request, s leadform.Source, now time.Time) leadform.Received {
	if r.Method != http.MethodPost {
		answer := say(http.StatusMethodNotAllowed, "TikTok posts leads to this address; it answers nothing else")
		answer.Headers = http.Header{"Allow": {http.MethodPost}}
		return leadform.Received{Answer: answer}
	}
	if refusal := verify(r, s); refusal != "" {
		return leadform.Received{Answer: say(http.StatusUnauthorized, refusal)}
	}
	var p payload
	if json.Unmarshal(r.Body, &p) != nil {
		return leadform.Received{Answer: say(http.StatusBadRequest, "the body is not a JSON object as TikTok sends it")}
	}
	received := leadform.Received{Answer: say(http.StatusOK, ""), Busy: http.StatusServiceUnavailable}
	if p.Object != objectLead {
		return received
	}
	for _, raw := range p.Entries {
		if l, ok := lead(raw, s, now); ok {
			received.Leads = append(received.Leads, l)
		}
	}
	return received
}

// verify returns what is wrong with the signature, "" if nothing is. A signature that
// is there must be right even where none is required.
func verify(r leadform.Request, s leadform.Source) string {
	key, signature := s.Options.Secret("app_secret"), strings.TrimSpace(r.Header.Get("X-Open-Signature"))
	required := true
	switch strings.ToLower(s.Options.Text("require_signature")) {
	case "false", "no", "off", "0":
		required = false
	}
	switch {
	case !required && (key.IsZero() || signature == ""):
		return ""
	case key.IsZero():
		return "this source has no app_secret, so no signature can be checked"
	case signature == "":
		return "the header X-Open-Signature is missing"
	case !signed(r.Body, signature, []byte(key.Reveal())):
		return "X-Open-Signature does not fit the body: is app_secret the one of the app that subscribed?"
	}
	return ""
}

func lead(raw json.RawMessage, s leadform.Source, now time.Time) (ledger.Lead, bool) {
	var e entry
	if json.Unmarshal(raw, &e) != nil {
		return ledger.Lead{}, false
	}
	l := ledger.Lead{
		Workspace: s.Workspace, Source: s.Name, Kind: Name, Platform: "tiktok",
		LeadID: e.ID.id(),
		Origin: ledger.Origin{
			FormID: e.PageID.id(), FormName: string(e.PageName), CampaignID: e.CampaignID.id(), CampaignName: string(e.CampaignName),
			AdSetID: e.AdGroupID.id(), AdSetName: string(e.AdGroupName), AdID: e.AdID.id(), AdName: string(e.AdName),
		},
		CreatedAt: now,
	}
	if e.LeadSource == "DIRECT_MESSAGE" {
		l.Origin.Channel = "direct_message"
	}
	if seconds, given, problem := capi.NormaliseTime(string(e.CreateTime), now); given && problem == nil {
		l.CreatedAt = time.Unix(seconds, 0).UTC()
	}
	l.History = l.CreatedAt.Before(s.CreatedAt.Truncate(time.Second))
	answer(&l, e.Changes)
	if l.LeadID == "" { // never seen; a repeat is then known by its text
		if len(l.Answers) == 0 {
			return ledger.Lead{}, false
		}
		sum := sha256.Sum256(raw)
		l.DedupeKey = hex.EncodeToString(sum[:])
	}
	return l, true
}

// answer reads the answers; one that is none does not take the others down.
func answer(l *ledger.Lead, raw json.RawMessage) {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return
	}
	for _, item := range items {
		var c change
		if json.Unmarshal(item, &c) != nil || c.Field == "" {
			continue
		}
		leadform.Assign(l, leadform.TikTokField(string(c.Field)), ledger.FormAnswer{Question: string(c.Field), Values: texts(c.Value)})
	}
	leadform.Complete(l)
}

// texts reads one value or a list of them.
func texts(raw json.RawMessage) []string {
	var many []text
	if json.Unmarshal(raw, &many) != nil {
		var one text
		if json.Unmarshal(raw, &one) != nil {
			return nil
		}
		many = []text{one}
	}
	values := make([]string, len(many))
	for i, value := range many {
		values[i] = string(value)
	}
	return values
}

func say(status int, message string) leadform.Answer {
	code := 0
	if status != http.StatusOK {
		code = status
	}
	body, err := json.Marshal(struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}{code, message})
	if err != nil { // texts of our own always encode
		body = []byte("{}")
	}
	return leadform.Answer{Status: status, ContentType: "application/json", Body: body}
}

// signed tells whether a signature is that of the body. TikTok's pages say that it
// signs the text with everything beyond ASCII escaped; some of its senders sign what
// they send. Both are tried.
func signed(body []byte, signature string, key []byte) bool {
	given, err := hex.DecodeString(signature)
	if err != nil {
		return false
	}
	raw := hmac.Equal(given, digest(key, body))
	escaped := hmac.Equal(given, digest(key, escape(body)))
	return raw || escaped
}

func digest(key, message []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(message)
	return mac.Sum(nil)
}
