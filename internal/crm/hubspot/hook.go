package hubspot

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

var _ crm.StageCompleter = (*HubSpot)(nil)

const (
	dealStage  = "dealstage"
	lifecycle  = "lifecyclestage"
	leadStatus = "hs_lead_status"
	maxValue   = 200 // bytes of a property's value that can be a stage
)

// word is a text, or a number or truth value as it is written; HubSpot's ids come as
// either.
type word string

// UnmarshalJSON takes them; what is nothing or an object is "".
func (w *word) UnmarshalJSON(text []byte) error {
	var s string
	switch {
	case len(text) == 0 || text[0] == '{' || text[0] == '[' || string(text) == "null":
	case text[0] == '"':
		if err := json.Unmarshal(text, &s); err != nil {
			return err
		}
	default:
		s = string(text)
	}
	*w = word(s)
	return nil
}

// event is one entry of a webhook's array.
type event struct {
	Portal     word   `json:"portalId"`
	App        word   `json:"appId"`
	At         word   `json:"occurredAt"` // Unix milliseconds
	Type       word   `json:"subscriptionType"`
	Object     word   `json:"objectId"`
	ObjectType word   `json:"objectTypeId"`
	Property   word   `json:"propertyName"`
	Value      word   `json:"propertyValue"`
	Source     word   `json:"changeSource"`
	SourceID   word   `json:"sourceId"`
	Sensitive  word   `json:"isSensitive"`
	Primary    word   `json:"primaryObjectId"`
	Merged     []word `json:"mergedObjectIds"`
	Result     word   `json:"newObjectId"`
}

// Receive verifies the signature and reads the events of an app's webhook or of a
// workflow's. HubSpot sends again after any 4xx or 5xx, so what is not ours gets 200.
func (h *HubSpot) Receive(r crm.Incoming, a crm.Account, now time.Time) crm.Received {
	switch {
	case r.Method != http.MethodPost:
		return answer(http.StatusMethodNotAllowed, "HubSpot sends POST\n")
	case hookSecret(a) == "":
		return answer(http.StatusUnauthorized, "webhook_secret is not set, so no signature can be checked\n")
	case !genuine(r, hookSecret(a), now):
		return answer(http.StatusUnauthorized, "the signature is missing, older than 5 minutes, or not made with this app's client secret for this address\n")
	}
	body := bytes.TrimSpace(r.Body)
	if !json.Valid(body) {
		return answer(http.StatusBadRequest, "the body is no JSON\n")
	}
	// An app sends an array, of up to 100 events; a workflow sends an object. A longer array
	// that is signed is taken, too: refusing it would only make it come again.
	entries := []json.RawMessage{body}
	if body[0] == '[' {
		_ = json.Unmarshal(body, &entries) // it is valid
	}
	out := answer(http.StatusOK, "")
	for _, entry := range entries {
		var e event
		if json.Unmarshal(entry, &e) != nil {
			continue
		}
		if e.Type == "" {
			e.workflow(a, entry, &out)
			continue
		}
		e.read(a, &out)
	}
	return out
}

func answer(status int, text string) crm.Received {
	return crm.Received{Answer: crm.Answer{Status: status, Body: []byte(text)}}
}

var idPattern = regexp.MustCompile(`^[0-9]{1,20}$`)

// record names an object as Deliver does, "" if it has no id.
func record(kind string, id word) string {
	if !idPattern.MatchString(string(id)) {
		return ""
	}
	return kind + ":" + string(id)
}

// kind returns what the event is about and what happened to it, in the older way of
// saying it (deal.propertyChange) or in the newer (object.propertyChange, 0-3).
func (e *event) kind() (kind, what string) {
	kind, what, _ = strings.Cut(string(e.Type), ".")
	if kind == "object" {
		kind = map[word]string{"0-1": "contact", "0-3": "deal"}[e.ObjectType]
	}
	return kind, what
}

// foreign tells whether the event is of another account: an app that is installed in
// several sends the events of all to one address.
func (e *event) foreign(a crm.Account) bool {
	own := a.Options.Text("portal_id")
	return own != "" && e.Portal != "" && string(e.Portal) != own
}

// read adds what an event of an app says.
func (e *event) read(a crm.Account, out *crm.Received) {
	kind, what := e.kind()
	if kind != "deal" && kind != "contact" || e.foreign(a) {
		return
	}
	c := ledger.StageChange{Thin: true, Records: []string{record(kind, e.Object)}, Stage: string(e.Value), At: e.at(), By: e.by()}
	if kind == "deal" {
		c.DealID = string(e.Object)
	}
	switch {
	case what == "merge":
		e.merge(kind, out)
		return
	case c.Records[0] == "":
		return
	case kind == "deal" && what == "creation":
		c.Stage = "" // the stage in which it began must be read
	case what != "propertyChange" || e.Value == "" || len(e.Value) > maxValue:
		return // an empty value is the clearing before a step back
	case kind == "deal" && e.Property != dealStage:
		return
	case kind == "contact" && !e.telling(a):
		return
	case kind == "contact":
		c.Field = string(e.Property)
	}
	c.Key = moveKey(e.Portal, word(kind+"."+what), e.Object, e.Property, e.Value, e.At)
	add(out, c)
}

// moveKey is by what a repeat is known: eventId is given to several events.
func moveKey(parts ...word) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = string(p)
	}
	return strings.Join(texts, "/")
}

// add leaves out what the same request has told already.
func add(out *crm.Received, c ledger.StageChange) {
	if !slices.ContainsFunc(out.Changes, func(other ledger.StageChange) bool { return other.Key == c.Key }) {
		out.Changes = append(out.Changes, c)
	}
}

// telling tells whether a contact's property can be a stage. What we write ourselves,
// beside the two in which a contact begins, is an echo of the lead. What says who
// somebody is must not be kept as the name of a stage.
func (e *event) telling(a crm.Account) bool {
	name := string(e.Property)
	if name == lifecycle || name == leadStatus {
		return true
	}
	echo := e.Source == "INTEGRATION" && e.SourceID != "" && e.SourceID == e.App
	_, ours := contactFields(a)[name]
	return name != "" && !echo && !ours && e.Sensitive != "true" && !personal(name)
}

func personal(name string) bool {
	for _, part := range []string{"email", "phone", "name", "address", "birth"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return slices.Contains([]string{"salutation", "gender", "fax", "zip", "city", "website", "ip_zipcode", "ip_latlon", "message"}, name)
}

func (e *event) at() time.Time {
	ms, err := strconv.ParseInt(string(e.At), 10, 64)
	if err != nil || ms <= 0 || ms > 1e14 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// by is the person who did it; an app or a workflow is nobody.
func (e *event) by() string {
	id, ok := strings.CutPrefix(string(e.SourceID), "userId:")
	if !ok {
		return ""
	}
	return id
}

// merge reads that several records have become one. That one may be new.
func (e *event) merge(kind string, out *crm.Received) {
	kept := record(kind, e.Result)
	if kept == "" || e.Result == "0" {
		kept = record(kind, e.Primary)
	}
	m := ledger.Merge{Kept: kept, At: e.at()}
	for _, id := range append([]word{e.Primary}, e.Merged...) {
		if r := record(kind, id); r != "" && r != kept && !slices.Contains(m.Merged, r) {
			m.Merged = append(m.Merged, r)
		}
	}
	if kept != "" && len(m.Merged) > 0 {
		out.Merges = append(out.Merges, m)
	}
}
