package linkedin

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/leadform"
)

// signedAs stands before the body in what LinkedIn signs. The challenge is signed
// with the same secret and without it, so whoever signs any challenge signs events
// for anybody: hence the strict pattern.
const signedAs = "hmacsha256="

var (
	challengePattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	responsePattern  = regexp.MustCompile(`^urn:li:leadGenFormResponse:([0-9A-Za-z][0-9A-Za-z_-]{0,99})$`)
)

// Receive answers the challenge and takes the events. An event that is signed right
// gets 200 whatever it says.
func (k *Kind) Receive(r leadform.Request, s leadform.Source, _ time.Time) leadform.Received {
	key := s.Options.Secret("client_secret").Reveal()
	switch {
	case r.Method == http.MethodGet:
		return leadform.Received{Answer: challenge(r.Query.Get("challengeCode"), key)}
	case r.Method != http.MethodPost:
		return leadform.Received{Answer: leadform.Answer{Status: http.StatusMethodNotAllowed}}
	case !genuine(r, key):
		return leadform.Received{Answer: leadform.Answer{
			Status: http.StatusUnauthorized, Body: []byte("X-LI-Signature is missing or was not made with this app's client secret\n"),
		}}
	}
	return leadform.Received{Notices: notices(r.Body), Answer: leadform.Answer{Status: http.StatusOK}}
}

func challenge(code, key string) leadform.Answer {
	if key == "" || !challengePattern.MatchString(code) {
		return leadform.Answer{Status: http.StatusForbidden, Body: []byte("challengeCode must be a UUID in lower case, as LinkedIn sends it\n")}
	}
	body, err := json.Marshal(struct {
		Code     string `json:"challengeCode"`
		Response string `json:"challengeResponse"`
	}{code, hex.EncodeToString(sign(key, []byte(code)))})
	if err != nil {
		return leadform.Answer{Status: http.StatusInternalServerError}
	}
	return leadform.Answer{Status: http.StatusOK, ContentType: "application/json", Body: body}
}

func genuine(r leadform.Request, key string) bool {
	if key == "" {
		return false
	}
	given, err := hex.DecodeString(strings.TrimPrefix(r.Header.Get("X-LI-Signature"), signedAs))
	return err == nil && hmac.Equal(given, sign(key, []byte(signedAs), r.Body))
}

func sign(key string, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, []byte(key))
	for _, p := range parts {
		mac.Write(p)
	}
	return mac.Sum(nil)
}

// word is what a notice keeps for Fetch.
type word struct {
	ID string         `json:"id"`
	At leadform.Ident `json:"occurred_at,omitempty"` // Unix milliseconds
}

// occurred is when LinkedIn told of the lead, zero if it did not say.
func (w word) occurred() time.Time {
	n, err := json.Number(w.At).Int64()
	if err != nil || n <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// notices reads an event. CREATED and DELETED of one lead have the same key and are
// told apart by Deleted.
func notices(body []byte) []leadform.Notice {
	var e struct {
		Type     leadform.Ident `json:"type"`
		Response leadform.Ident `json:"leadGenFormResponse"`
		Action   leadform.Ident `json:"leadAction"`
		At       leadform.Ident `json:"occurredAt"`
	}
	if json.Unmarshal(body, &e) != nil || e.Type != "LEAD_ACTION" || e.Action != "CREATED" && e.Action != "DELETED" {
		return nil
	}
	m := responsePattern.FindStringSubmatch(string(e.Response))
	if m == nil {
		return nil
	}
	small, err := json.Marshal(word{m[1], e.At})
	if err != nil {
		return nil
	}
	return []leadform.Notice{{Key: m[1], Deleted: e.Action == "DELETED", Body: small}}
}
