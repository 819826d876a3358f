package meta

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/leadform"
)

// Receive answers the handshake and takes the webhooks. Whatever is signed right
// gets 200: Meta would repeat anything else for 36 hours.
func (k *Kind) Receive(r leadform.Request, s leadform.Source, _ time.Time) leadform.Received {
	switch r.Method {
	case http.MethodGet:
		return leadform.Received{Answer: handshake(r, s)}
	case http.MethodPost:
	default:
		return leadform.Received{Answer: leadform.Answer{Status: http.StatusMethodNotAllowed}}
	}
	if !genuine(r, s.Options.Secret("app_secret").Reveal()) {
		return leadform.Received{Answer: leadform.Answer{
			Status: http.StatusUnauthorized, Body: []byte("X-Hub-Signature-256 is missing or was not made with this app's secret\n"),
		}}
	}
	return leadform.Received{Notices: notices(r.Body), Answer: leadform.Answer{Status: http.StatusOK}}
}

// handshake echoes the challenge to who knows the verify token.
func handshake(r leadform.Request, s leadform.Source) leadform.Answer {
	want := sha256.Sum256([]byte(s.Options.Secret("verify_token").Reveal()))
	got := sha256.Sum256([]byte(r.Query.Get("hub.verify_token")))
	same := subtle.ConstantTimeCompare(want[:], got[:]) == 1
	if r.Query.Get("hub.mode") != "subscribe" || !same || s.Options.Secret("verify_token").Reveal() == "" {
		return leadform.Answer{Status: http.StatusForbidden, Body: []byte("hub.verify_token is not the verify_token of this source\n")}
	}
	return leadform.Answer{Status: http.StatusOK, ContentType: "text/plain", Body: []byte(r.Query.Get("hub.challenge"))}
}

// genuine verifies the signature over the bytes as they came. The older
// X-Hub-Signature (SHA-1) does not count.
func genuine(r leadform.Request, appSecret string) bool {
	digits, ok := strings.CutPrefix(r.Header.Get("X-Hub-Signature-256"), "sha256=")
	if !ok || appSecret == "" {
		return false
	}
	given, err := hex.DecodeString(digits)
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, []byte(appSecret))
	mac.Write(r.Body)
	return hmac.Equal(given, mac.Sum(nil))
}

// word is what a notice keeps for Fetch.
type word struct {
	LeadID  leadform.Ident `json:"leadgen_id"`
	PageID  leadform.Ident `json:"page_id,omitempty"`
	FormID  leadform.Ident `json:"form_id,omitempty"`
	AdID    leadform.Ident `json:"ad_id,omitempty"`
	Created leadform.Ident `json:"created_time,omitempty"` // Unix seconds
}

// created is when the lead was made, zero if the webhook did not say.
func (w word) created() time.Time {
	n, err := json.Number(w.Created).Int64()
	if err != nil || n <= 0 {
		return time.Time{}
	}
	return time.Unix(n, 0).UTC()
}

// notices reads a webhook's body. What is not a lead is passed over, each piece by
// itself, so that a strange one does not take the others down.
func notices(body []byte) []leadform.Notice {
	var outer struct {
		Object leadform.Ident    `json:"object"`
		Entry  []json.RawMessage `json:"entry"`
	}
	if json.Unmarshal(body, &outer) != nil || outer.Object != "page" {
		return nil
	}
	var list []leadform.Notice
	seen := make(map[leadform.Ident]bool)
	for _, raw := range outer.Entry {
		var entry struct {
			ID      leadform.Ident    `json:"id"`
			Changes []json.RawMessage `json:"changes"`
		}
		if json.Unmarshal(raw, &entry) != nil {
			continue
		}
		for _, change := range entry.Changes {
			w, ok := wordOf(change, entry.ID)
			if !ok || seen[w.LeadID] {
				continue
			}
			small, err := json.Marshal(w)
			if err != nil {
				continue
			}
			seen[w.LeadID] = true
			list = append(list, leadform.Notice{Key: string(w.LeadID), Owner: string(w.PageID), Body: small})
		}
	}
	return list
}

func wordOf(raw json.RawMessage, entryID leadform.Ident) (word, bool) {
	var change struct {
		Field leadform.Ident  `json:"field"`
		Value json.RawMessage `json:"value"`
	}
	if json.Unmarshal(raw, &change) != nil || change.Field != "leadgen" {
		return word{}, false
	}
	var v struct {
		word
		AdGroup leadform.Ident `json:"adgroup_id"` // the ad under its old name
	}
	if json.Unmarshal(change.Value, &v) != nil || !isID(v.LeadID) {
		return word{}, false
	}
	w := v.word
	if !isID(w.AdID) {
		w.AdID = v.AdGroup
	}
	if !isID(w.PageID) {
		w.PageID = entryID
	}
	for _, id := range []*leadform.Ident{&w.PageID, &w.FormID, &w.AdID, &w.Created} {
		if !isID(*id) {
			*id = ""
		}
	}
	return w, true
}

// isID: Meta's ids are digits; 0 stands for none.
func isID(id leadform.Ident) bool {
	return len(id) > 0 && len(id) <= 20 && id[0] != '0' && strings.Trim(string(id), "0123456789") == ""
}
