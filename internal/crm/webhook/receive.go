package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

var _ crm.StageReader = (*Webhook)(nil)

const (
	tolerance = 5 * time.Minute // how old or how far ahead a signed request may be
	maxItems  = 1000            // changes in one request
)

// said is the answer to a request with stage changes. It reads like that of POST /v1/events.
type said struct {
	OK       bool    `json:"ok"`
	Accepted int     `json:"accepted"`
	Rejected []fault `json:"rejected"`
	Warnings []fault `json:"warnings,omitempty"`
}

type fault struct {
	Index  int    `json:"index"`
	Field  string `json:"field"`
	Code   string `json:"code"`
	Reason string `json:"reason"`
	Fix    string `json:"fix"`
}

// item is what was read of one change.
type item struct {
	change   ledger.StageChange
	problems capi.Problems
}

// Receive reads stage changes out of JSON (one, a list, or {"data": […]}), a form, or the
// query of a GET. Where the account has a secret the request must be signed by it; else
// the address is the credential. The good changes are taken even if others are bad.
func (w *Webhook) Receive(r crm.Incoming, a crm.Account, now time.Time) crm.Received {
	signed := a.Options.Text("secret") != ""
	if signed {
		if reason := genuine(r, a.Options.Text("secret"), now); reason != "" {
			return answer(http.StatusUnauthorized, said{Rejected: []fault{{Code: "signature", Reason: reason, Fix: "sign by Standard Webhooks with the secret of this connection, or take the secret out of its settings"}}})
		}
	}
	items, err := read(r, a, now)
	switch {
	case err != nil:
		return answer(http.StatusUnprocessableEntity, said{Rejected: []fault{{Code: crm.ProblemNotAChange, Reason: err.Error(), Fix: fixBody}}})
	case len(items) == 0 && r.Method == http.MethodGet: // somebody looks at the address
		return answer(http.StatusOK, said{OK: true})
	}
	var out crm.Received
	s := said{}
	for i, it := range items {
		bad := false
		for _, p := range it.problems {
			f := fault{Index: i, Field: p.Field, Code: p.Code, Reason: p.Reason, Fix: p.Fix}
			if p.Severity == capi.SeverityError {
				bad = true
				s.Rejected = append(s.Rejected, f)
				continue
			}
			s.Warnings = append(s.Warnings, f)
		}
		if bad {
			continue
		}
		if signed {
			it.change.Key = key(r.Header.Get("Webhook-Id"), i)
		}
		out.Changes = append(out.Changes, it.change)
	}
	s.Accepted = len(out.Changes)
	status := http.StatusOK
	if s.OK = s.Accepted > 0; !s.OK {
		status = http.StatusUnprocessableEntity
	}
	out.Answer = answer(status, s).Answer
	return out
}

func answer(status int, s said) crm.Received {
	if s.Rejected == nil {
		s.Rejected = []fault{}
	}
	return crm.Received{Answer: crm.Answer{Status: status, ContentType: "application/json", Body: append(crm.JSON(s), '\n')}}
}

// key is that of a request's one change: webhook-id stays the same through all repeats.
func key(id string, index int) string {
	h := sha256.Sum256([]byte("webhook-id\x00" + id + "\x00" + strconv.Itoa(index)))
	return hex.EncodeToString(h[:])
}

// genuine says why a request is not signed as it must be, "" if it is.
func genuine(r crm.Incoming, secrets string, now time.Time) string {
	id, stamp := r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp")
	if id == "" || stamp == "" || r.Header.Get("Webhook-Signature") == "" {
		return "one of the headers webhook-id, webhook-timestamp and webhook-signature is missing"
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return "webhook-timestamp is not in seconds since 1970"
	}
	wanted, err := Sign(secrets, id, stamp, r.Body)
	if err != nil {
		return "the secret of this connection cannot be read, so no signature can be checked"
	}
	ok := false
	for entry := range strings.FieldsSeq(strings.Join(r.Header.Values("Webhook-Signature"), " ")) {
		for want := range strings.FieldsSeq(wanted) {
			if hmac.Equal([]byte(entry), []byte(want)) {
				ok = true
			}
		}
	}
	switch at := time.Unix(seconds, 0); {
	case !ok:
		return "no signature in webhook-signature was made with this connection's secret over these bytes"
	case at.Before(now.Add(-tolerance)) || at.After(now.Add(tolerance)):
		return "webhook-timestamp is more than 5 minutes from now"
	}
	return ""
}

const fixBody = `post JSON such as {"lead_id":"1234567890123456","stage":"Qualified"}, a list of these, {"data":[…]}, or a form with these fields`

var (
	errMethod = errors.New("stage changes come by POST")
	errEmpty  = errors.New("there is no stage change in it")
	errBody   = errors.New("the body is neither JSON nor a form")
	errJSON   = errors.New("the body is not whole JSON")
	errMany   = errors.New("there are more than 1000 stage changes in one request")
)

// read finds the items of a request.
func read(r crm.Incoming, a crm.Account, now time.Time) ([]item, error) {
	zone, dayFirst := settings(a)
	body := bytes.TrimSpace(bytes.TrimPrefix(r.Body, []byte("\ufeff")))
	switch {
	case r.Method == http.MethodGet && a.Options.Text("secret") == "":
		row := rowOf(r.Query)
		if len(row) == 0 {
			return nil, nil
		}
		return one(crm.StageFromRow(row, zone, dayFirst, now)), nil
	case r.Method != http.MethodPost:
		return nil, errMethod
	case len(body) == 0:
		return nil, errEmpty
	case body[0] != '{' && body[0] != '[':
		if body[0] == '"' || body[0] == '<' || !bytes.ContainsRune(body, '=') {
			return nil, errBody
		}
		form, _ := url.ParseQuery(string(body)) // what can be read of it
		return one(crm.StageFromRow(rowOf(form), zone, dayFirst, now)), nil
	}
	list, err := entries(body)
	if err != nil {
		return nil, err
	}
	items := make([]item, 0, len(list))
	for _, raw := range list {
		items = append(items, one(crm.DecodeStageIn(raw, zone, dayFirst, now))...)
	}
	return items, nil
}

func one(c ledger.StageChange, p capi.Problems) []item { return []item{{c, p}} }

// entries splits JSON into its changes.
func entries(body []byte) (list []json.RawMessage, err error) {
	if !json.Valid(body) {
		return nil, errJSON
	}
	var outer struct {
		Data json.RawMessage `json:"data"`
	}
	switch {
	case body[0] == '[':
		err = json.Unmarshal(body, &list)
	case json.Unmarshal(body, &outer) == nil && bytes.HasPrefix(outer.Data, []byte("[")):
		err = json.Unmarshal(outer.Data, &list)
	default:
		list = []json.RawMessage{body}
	}
	switch {
	case err != nil:
		return nil, errJSON
	case len(list) == 0:
		return nil, errEmpty
	case len(list) > maxItems:
		return nil, errMany
	}
	return list, nil
}

// rowOf takes the first value of each field. The address's own key is no part of a change.
func rowOf(form url.Values) map[string]string {
	row := map[string]string{}
	for name := range form {
		if name != "key" && name != "api_key" {
			row[name] = form.Get(name)
		}
	}
	return row
}

// settings are the zone and the order of dates that the account says; what cannot be read
// is nil, and Check tells of it.
func settings(a crm.Account) (zone *time.Location, dayFirst *bool) {
	if name := a.Options.Text("timezone"); name != "" {
		if z, err := time.LoadLocation(name); err == nil {
			zone = z
		}
	}
	first := a.Options.Text("dates") == "dmy"
	if first || a.Options.Text("dates") == "mdy" {
		dayFirst = &first
	}
	return zone, dayFirst
}

// checkIncoming looks at the settings for stage changes.
func checkIncoming(a crm.Account) []crm.Check {
	var checks []crm.Check
	zone, dayFirst := settings(a)
	if a.Options.Text("timezone") != "" && zone == nil {
		checks = append(checks, crm.Check{Name: "timezone", Warning: true, Sentence: "There is no such time zone; times without one are read as UTC.", NextStep: "Set timezone to a name such as Europe/Berlin."})
	}
	if a.Options.Text("dates") != "" && dayFirst == nil {
		checks = append(checks, crm.Check{Name: "dates", Warning: true, Sentence: "The order of dates cannot be read; a date such as 03/04/2026 is refused.", NextStep: "Set dates to dmy or mdy."})
	}
	return checks
}
