package pipedrive

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
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

var _ crm.StageCompleter = (*Pipedrive)(nil)

// statusField is the field whose values won and lost are watched like stages: a deal is
// won or lost in whatever stage it stands.
const statusField = "status"

// hook is the body of a webhook of version 2, or of the older version 1.
type hook struct {
	Meta struct {
		Action    plain `json:"action"`
		Entity    plain `json:"entity"`
		EntityID  plain `json:"entity_id"`
		ID        plain `json:"id"` // of the event; in version 1 of the record
		UserID    plain `json:"user_id"`
		Timestamp plain `json:"timestamp"` // a text; in version 1 Unix seconds
		Micro     plain `json:"timestamp_micro"`
		Object    plain `json:"object"` // version 1
	} `json:"meta"`
	Data     json.RawMessage `json:"data"`
	Current  json.RawMessage `json:"current"`  // version 1
	Previous json.RawMessage `json:"previous"` // only what changed; in version 1 the whole record
	Event    plain           `json:"event"`    // version 1: updated.deal
}

// plain is a text, or a number as it is written, or the value of an object with one.
type plain string

// UnmarshalJSON takes them; anything else is "".
func (p *plain) UnmarshalJSON(text []byte) error {
	var s string
	var object struct {
		Value json.RawMessage `json:"value"`
	}
	switch {
	case len(text) == 0 || text[0] == '[' || string(text) == "null":
	case text[0] == '"':
		if err := json.Unmarshal(text, &s); err != nil {
			return err
		}
	case text[0] == '{':
		if json.Unmarshal(text, &object) == nil && len(object.Value) > 0 && object.Value[0] != '{' {
			var inner plain
			_ = inner.UnmarshalJSON(object.Value)
			s = string(inner)
		}
	default:
		s = string(text)
	}
	*p = plain(s)
	return nil
}

// deal is a deal as hooks and answers of both versions have it.
type deal struct {
	ID         plain  `json:"id"`
	Person     plain  `json:"person_id"`
	Lead       plain  `json:"source_lead_id"` // the lead of which the deal was made
	Pipeline   plain  `json:"pipeline_id"`
	Stage      plain  `json:"stage_id"`
	Status     plain  `json:"status"`
	Value      plain  `json:"value"`
	Currency   plain  `json:"currency"`
	Added      plain  `json:"add_time"`
	Staged     plain  `json:"stage_change_time"`
	Won        plain  `json:"won_time"`
	Lost       plain  `json:"lost_time"`
	MergedWhat plain  `json:"merge_what_id"`
	Custom     custom `json:"custom_fields"`
}

// custom are the fields of a company's own, by their key.
type custom map[string]plain

// UnmarshalJSON takes what is no object for none: a stage is worth more than they are.
func (c *custom) UnmarshalJSON(text []byte) error {
	var list map[string]plain
	if json.Unmarshal(text, &list) == nil {
		*c = list
	}
	return nil
}

// Receive reads a webhook. Pipedrive signs nothing: that the address is secret, and the
// user and password that were given with the webhook, are all there is. A webhook that
// fails ten times is paused, so what is not ours gets 200.
func (p *Pipedrive) Receive(r crm.Incoming, a crm.Account, _ time.Time) crm.Received {
	switch {
	case r.Method != http.MethodPost:
		return answer(http.StatusMethodNotAllowed, "Pipedrive sends POST\n")
	case !genuine(r, a):
		return answer(http.StatusUnauthorized, "HTTP auth username and password of the webhook are not webhook_user and webhook_password of this connection\n")
	}
	body := bytes.TrimSpace(r.Body)
	if !json.Valid(body) {
		return answer(http.StatusBadRequest, "the body is no JSON\n")
	}
	out := answer(http.StatusOK, "")
	var h hook
	if json.Unmarshal(body, &h) == nil {
		h.read(a, p.knownKey(a), &out)
	}
	return out
}

func answer(status int, text string) crm.Received {
	return crm.Received{Answer: crm.Answer{Status: status, Body: []byte(text)}}
}

func genuine(r crm.Incoming, a crm.Account) bool {
	wantUser, wantPassword := a.Options.Text("webhook_user"), a.Options.Text("webhook_password")
	if wantUser == "" && wantPassword == "" {
		return true
	}
	user, password, ok := (&http.Request{Header: r.Header}).BasicAuth()
	sameUser, samePassword := same(user, wantUser), same(password, wantPassword)
	return ok && sameUser && samePassword
}

// same compares hashes, so that not even the length shows in the time it takes.
func same(x, y string) bool {
	hx, hy := sha256.Sum256([]byte(x)), sha256.Sum256([]byte(y))
	return subtle.ConstantTimeCompare(hx[:], hy[:]) == 1
}

var (
	idPattern   = regexp.MustCompile(`^[0-9]{1,20}$`)
	leadPattern = regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)
)

// record names a record as Deliver does, "" if it has no id.
func record(kind string, id plain) string {
	if !idPattern.MatchString(string(id)) {
		return ""
	}
	return kind + ":" + string(id)
}

// read adds what a hook says; key is that of the field for the lead's id, where known.
func (h *hook) read(a crm.Account, key string, out *crm.Received) {
	action, entity, now := h.Meta.Action, h.Meta.Entity, h.Data
	if h.old() {
		entity, now = h.Meta.Object, h.Current
		if what, of, ok := strings.Cut(string(h.Event), "."); ok {
			action, entity = plain(what), plain(of)
		}
	}
	var d, before deal
	if json.Unmarshal(now, &d) != nil {
		return // what is deleted has no data
	}
	d.top(now, key)
	_ = json.Unmarshal(h.Previous, &before)
	switch {
	case (action == "merged" || action == "merge") && (entity == "deal" || entity == "person"):
		h.merge(string(entity), &d, &before, out)
	case entity != "deal" || record("deal", d.ID) == "":
	case action == "create" || action == "added":
		h.tell(&d, &deal{}, key, out)
		h.watched(a, d.whole(key), now, true, out)
	case action == "change" || action == "updated":
		if !h.old() { // only what changed is there
			var changed map[string]json.RawMessage
			_ = json.Unmarshal(h.Previous, &changed)
			if _, ok := changed["stage_id"]; !ok {
				before.Stage = d.Stage
			}
			if _, ok := changed[statusField]; !ok {
				before.Status = d.Status
			}
		} else if record("deal", before.ID) == "" {
			return // there is nothing to compare with
		}
		h.tell(&d, &before, key, out)
		h.watched(a, d.whole(key), now, false, out)
	}
}

// old tells whether it is of version 1.
func (h *hook) old() bool { return h.Meta.Object != "" || h.Event != "" }

// top takes the lead's id from where version 1 has it, among the deal's own fields.
func (d *deal) top(raw json.RawMessage, key string) {
	if key == "" || d.Custom[key] != "" {
		return
	}
	var all map[string]json.RawMessage
	var value plain
	if json.Unmarshal(raw, &all) == nil && len(all[key]) > 0 && json.Unmarshal(all[key], &value) == nil && value != "" {
		if d.Custom == nil {
			d.Custom = custom{}
		}
		d.Custom[key] = value
	}
}

// tell adds the moves between two states of a deal: to another stage first, then that it
// was won or lost.
func (h *hook) tell(d, before *deal, key string, out *crm.Received) {
	for _, c := range d.moves(key) {
		if c.Field == "" && before.Stage == d.Stage || c.Field != "" && before.Status == d.Status {
			continue
		}
		if c.Field == "" && record("stage", before.Stage) != "" {
			c.From = string(before.Stage)
		}
		if c.Field != "" {
			c.From = string(before.Status)
		}
		if c.At.IsZero() && before.ID == "" && before.Status == "" { // it was just created
			c.At = c.CreatedAt
		}
		if c.At.IsZero() {
			c.At = h.at()
		}
		c.Thin, c.By, c.Key = true, string(h.Meta.UserID), h.key()
		if c.Field != "" {
			c.Key += "/" + c.Field
		}
		out.Changes = append(out.Changes, c)
	}
}

// whole is what each change of the deal says beside where to.
func (d *deal) whole(key string) ledger.StageChange {
	return ledger.StageChange{
		Records: d.records(), Pipeline: string(d.Pipeline), DealID: string(d.ID), CreatedAt: moment(d.Added),
		Amount: crm.Decimal(string(d.Value)), Currency: strings.ToUpper(string(d.Currency)), LeadID: string(d.Custom[key]),
	}
}

// moves are where the deal stands: its stage and, if it is over, how it ended.
func (d *deal) moves(key string) []ledger.StageChange {
	c := d.whole(key)
	var list []ledger.StageChange
	if record("stage", d.Stage) != "" {
		c.Stage, c.At = string(d.Stage), moment(d.Staged)
		list = append(list, c)
	}
	end := c
	switch d.Status {
	case "won":
		end.Meaning, end.At = ledger.MeaningWon, moment(d.Won)
	case "lost":
		end.Meaning, end.At = ledger.MeaningLost, moment(d.Lost)
	default:
		return list
	}
	end.Field, end.Stage = statusField, string(d.Status)
	return append(list, end)
}

// records are the deal, the lead that it was made of, and the person.
func (d *deal) records() []string {
	list := []string{record("deal", d.ID)}
	if leadPattern.MatchString(string(d.Lead)) {
		list = append(list, "lead:"+string(d.Lead))
	}
	if r := record("person", d.Person); r != "" {
		list = append(list, r)
	}
	return list
}

// key is by what a repeat is known: a retry has the same meta.id.
func (h *hook) key() string {
	if !h.old() && h.Meta.ID != "" {
		return string(h.Meta.ID)
	}
	stamp := h.Meta.Micro
	if stamp == "" {
		stamp = h.Meta.Timestamp
	}
	id := h.Meta.EntityID
	if id == "" {
		id = h.Meta.ID
	}
	return string(id) + "/" + string(stamp)
}

func (h *hook) at() time.Time {
	if n, err := strconv.ParseInt(string(h.Meta.Timestamp), 10, 64); err == nil && n > 0 && n < 1e11 {
		return time.Unix(n, 0).UTC()
	}
	return moment(h.Meta.Timestamp)
}

// moment reads a time, in UTC in whichever form; zero if it is none.
func moment(text plain) time.Time {
	for _, layout := range []string{time.RFC3339, time.DateTime} {
		if t, err := time.Parse(layout, string(text)); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

// merge reads that one record was merged into another: current is the one that was kept,
// previous the one that is gone.
func (h *hook) merge(kind string, now, before *deal, out *crm.Received) {
	m := ledger.Merge{Kept: record(kind, now.ID), At: h.at()}
	for _, id := range []plain{now.MergedWhat, before.ID} {
		if r := record(kind, id); r != "" && r != m.Kept && !slices.Contains(m.Merged, r) {
			m.Merged = append(m.Merged, r)
		}
	}
	if m.Kept != "" && len(m.Merged) > 0 {
		out.Merges = append(out.Merges, m)
	}
}
