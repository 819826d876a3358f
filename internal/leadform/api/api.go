// Package api reads the leads that programs post to /v1/leads.
//
// Takes one item of the request, gives a lead and what is wrong with it, each problem
// with its field and what would be right. With a problem of error severity the lead is
// not to be taken; the others tell what was left out or kept differently.
package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/ledger"
)

// Name is the kind of the leads.
const Name = "api"

// ExternalID is the question under whose name the caller's own id of the person stands
// among the answers.
const ExternalID = "external_id"

// Codes of problems beside capi's.
const (
	ProblemNotALead        = "not_a_lead"       // the item is no object
	ProblemNoIdentity      = "no_identity"      // nothing says whose lead it is
	ProblemUnknownPlatform = "unknown_platform" // no ad platform that is known
	ProblemInvalidFlag     = "invalid_flag"     // neither true nor false
)

// ahead is how far a sender's clock may be before ours.
const ahead = time.Minute

// Decode reads one lead. Its workspace, source and id are the caller's to set. now is
// when a lead without created_at was created.
func Decode(raw []byte, now time.Time) (ledger.Lead, capi.Problems) {
	d := decoder{now: now, lead: ledger.Lead{Kind: Name, CreatedAt: now}, seen: map[string]string{}}
	members, err := object(raw)
	if err != nil {
		d.fail("", ProblemNotALead, err.Error(), `send an object such as {"lead_id":"1234567890123456","platform":"meta","email":"jane@example.com"}`)
		return d.lead, d.problems
	}
	for _, m := range members {
		d.member(m)
	}
	d.finish()
	return d.lead, d.problems
}

type decoder struct {
	now      time.Time
	lead     ledger.Lead
	problems capi.Problems
	seen     map[string]string // value by field
	external string
	repeats  string // submission_id
	custom   []ledger.FormAnswer
}

func (d *decoder) fail(field, code, reason, fix string) {
	d.problems = append(d.problems, capi.Problem{Field: field, Code: code, Severity: capi.SeverityError, Reason: reason, Fix: fix})
}

func (d *decoder) warn(field, code, reason, fix string) {
	d.problems = append(d.problems, capi.Problem{Field: field, Code: code, Severity: capi.SeverityWarning, Reason: reason, Fix: fix})
}

// member reads one member of the item.
func (d *decoder) member(m member) {
	name := snake(m.name)
	if as, ok := aliases[name]; ok {
		name = as
	}
	if isNull(m.value) {
		return
	}
	if before, ok := d.seen[name]; ok {
		if before != string(m.value) {
			d.fail(name, capi.ProblemDuplicateField, "the field stands twice in one lead, with different values", "send it once")
		}
		return
	}
	d.seen[name] = string(m.value)
	switch name {
	case "answers":
		d.answers(m.value)
		return
	case "consent":
		d.consent(m.value)
		return
	case "history":
		d.flag(name, m.value, &d.lead.History)
		return
	case "test":
		d.flag(name, m.value, &d.lead.Test)
		return
	case "organic":
		d.flag(name, m.value, &d.lead.Origin.Organic)
		return
	}
	values, ok := texts(m.value)
	place, field := d.place(name), canonical(name)
	known := place != nil || field != leadform.Custom || special[name]
	switch {
	case known && (!ok || len(values) > 1):
		d.fail(name, capi.ProblemWrongType, "a list or an object stands where one text belongs", "send one text")
		return
	case !ok:
		d.warn(m.name, capi.ProblemUnknownField, "a lead has no such field; it was left out", "put questions of your own into answers, each with a text or a list of texts")
		return
	case !known:
		d.warn(m.name, capi.ProblemUnknownField, "a lead has no such field; it was kept among the answers", "put questions of your own into answers")
		d.custom = append(d.custom, ledger.FormAnswer{Question: m.name, Values: values})
		return
	}
	value := leadform.Clean(strings.Join(values, ""))
	switch {
	case value == "", value == "0" && strings.HasSuffix(name, "_id") && place != nil: // no ad
	case place != nil:
		*place = value
	case field != leadform.Custom:
		d.standard(name, field, value)
	default:
		d.special(name, value)
	}
}

// standard keeps a field of the person.
func (d *decoder) standard(name string, field leadform.Canonical, value string) {
	if field == leadform.Email || field == leadform.WorkEmail {
		if _, p := capi.NormaliseValue(capi.KeyEmail, value, capi.Locale{}); p != nil {
			d.warn(name, p.Code, "it is not an e-mail address; it is kept for the CRM, but no ad platform can match it", p.Fix)
		}
	}
	leadform.Assign(&d.lead, field, ledger.FormAnswer{Question: name, Values: []string{value}})
}

func (d *decoder) special(name, value string) {
	switch name {
	case "lead_id":
		d.lead.LeadID = value
	case "platform":
		d.platform(value)
	case "created_at":
		d.createdAt(value)
	case "page_url":
		if !strings.HasPrefix(value, "https://") && !strings.HasPrefix(value, "http://") {
			d.warn(name, capi.ProblemBadSourceURL, "it is not the address of a page and was left out", "send the whole address, with https://")
			return
		}
		var removed []string
		if d.lead.PageURL, removed = capi.CleanURL(value); len(removed) > 0 {
			d.warn(name, capi.ProblemURLCleaned, "the address carried what may be personal data; it was taken out", "keep personal data out of addresses")
		}
	}
}

func (d *decoder) platform(value string) {
	switch p := strings.ToLower(value); p {
	case "meta", "google", "tiktok", "linkedin":
		d.lead.Platform = p
	case "facebook", "instagram", "fb", "ig":
		d.lead.Platform = "meta"
	default:
		d.fail("platform", ProblemUnknownPlatform, "it is no ad platform that is known here", "send meta, google, tiktok or linkedin; leave it out where no ad is behind the lead")
	}
}

func (d *decoder) createdAt(value string) {
	seconds, given, p := capi.NormaliseTime(value, d.now)
	if p != nil {
		d.fail("created_at", p.Code, p.Reason, "send 2026-11-18T14:06:37+03:00 or whole seconds since 1970")
		return
	}
	if !given {
		return
	}
	at := time.Unix(seconds, 0).UTC()
	if at.After(d.now.Add(ahead)) {
		d.fail("created_at", capi.ProblemInFuture, "it lies in the future", "send when the person asked; without a zone a time is read as UTC")
		return
	}
	if at.Before(d.now) {
		d.lead.CreatedAt = at
	}
}

// consent reads a decision. What cannot be read is an error, never a yes or a no.
func (d *decoder) consent(raw json.RawMessage) {
	values, ok := texts(raw)
	if !ok || len(values) != 1 {
		values = []string{"?"}
	}
	switch strings.ToLower(leadform.Clean(values[0])) {
	case "":
	case "true", "granted", "yes", "1":
		d.lead.Consent = ledger.ConsentGranted
	case "false", "denied", "no", "0":
		d.lead.Consent = ledger.ConsentDenied
	default:
		d.fail("consent", ProblemInvalidFlag, "it says neither yes nor no", "send true or false, or leave it out where nobody was asked")
	}
}

func (d *decoder) flag(name string, raw json.RawMessage, place *bool) {
	values, ok := texts(raw)
	if !ok || len(values) != 1 {
		values = []string{"?"}
	}
	switch strings.ToLower(leadform.Clean(values[0])) {
	case "true", "yes", "1":
		*place = true
	case "false", "no", "0", "":
	default:
		d.fail(name, ProblemInvalidFlag, "it is neither true nor false", "send true or false")
	}
}

// answers reads the questions of the form's own.
func (d *decoder) answers(raw json.RawMessage) {
	members, err := object(raw)
	if err != nil {
		d.fail("answers", capi.ProblemWrongType, "the answers are not an object", `send {"the question": "the answer"}; several choices are a list`)
		return
	}
	for _, m := range members {
		values, ok := texts(m.value)
		if !ok {
			d.warn("answers", capi.ProblemWrongType, "an answer is neither a text nor a list of texts; it was left out", "send a text, a number, true or false, or a list of these")
			continue
		}
		d.custom = append(d.custom, ledger.FormAnswer{Question: m.name, Values: values})
	}
}

// finish checks what takes the whole lead to see.
func (d *decoder) finish() {
	l := &d.lead
	for _, a := range d.custom {
		leadform.Assign(l, leadform.Custom, a)
	}
	if d.external != "" {
		l.ExternalID = d.external
		leadform.Assign(l, leadform.Custom, ledger.FormAnswer{Question: ExternalID, Values: []string{d.external}})
	}
	leadform.Complete(l)
	d.leadID()
	if l.LeadID == "" && d.seen["lead_id"] == "" && l.Contact.Email == "" && l.Contact.Phone == "" && d.external == "" {
		d.fail("", ProblemNoIdentity, "nothing says whose lead it is", "send at least one of lead_id, email, phone, external_id")
	}
	switch {
	case d.repeats != "":
		l.DedupeKey = sum("submission", d.repeats)
	case l.LeadID == "" && l.EventID != "":
		l.DedupeKey = sum("event", l.EventID)
	}
}

func sum(parts ...string) string {
	h := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(h[:])
}

// leadID takes off what tables and exports put around an id, and refuses what is none.
func (d *decoder) leadID() {
	l := &d.lead
	id := l.LeadID
	if id == "" {
		return
	}
	if rest, ok := strings.CutPrefix(id, "l:"); ok && isDigits(rest) {
		if id = rest; l.Platform == "" {
			l.Platform = "meta"
		}
	}
	if whole, ok := strings.CutSuffix(id, ".0"); ok && isDigits(whole) {
		id = whole
	}
	if l.Platform == "" && isDigits(id) && len(id) >= 15 && len(id) <= 17 {
		l.Platform = "meta" // no other platform's ids look so, and Meta's own copy must be recognised
	}
	reason := ""
	switch {
	case isRounded(id):
		reason = "it is a number in scientific notation, whose last digits are lost"
	case strings.ContainsAny(id, "{}<>") || strings.EqualFold(id, "null") || strings.EqualFold(id, "undefined") || id == "0":
		reason = "it is a placeholder of a template, not an id"
	case l.Platform == "meta" && (!isDigits(id) || len(id) < 10 || len(id) > 20):
		reason = "a lead id of Meta's has 15 to 17 digits"
	}
	if reason != "" {
		l.LeadID = ""
		d.fail("lead_id", capi.ProblemInvalidLeadID, reason, "send the lead id as text, with all its digits")
		return
	}
	l.LeadID = id
}

func isDigits(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

func isRounded(s string) bool {
	mantissa, exponent, ok := strings.Cut(strings.ToLower(s), "e")
	return ok && isDigits(strings.NewReplacer(".", "", ",", "").Replace(mantissa)) && isDigits(strings.TrimPrefix(exponent, "+"))
}

// member is one member of an object, in its order.
type member struct {
	name  string
	value json.RawMessage
}

var errNoObject = errors.New("it is not a JSON object")

func object(raw []byte) ([]member, error) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '{' || !json.Valid(raw) {
		return nil, errNoObject
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return nil, errNoObject
	}
	var members []member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, errNoObject
		}
		m := member{}
		m.name, _ = name.(string)
		if err := d.Decode(&m.value); err != nil {
			return nil, errNoObject
		}
		members = append(members, m)
	}
	return members, nil
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// texts reads a text, a number with all its digits, true or false, or a list of these.
func texts(raw json.RawMessage) (values []string, ok bool) {
	if len(raw) > 0 && raw[0] == '[' {
		var items []json.RawMessage
		if json.Unmarshal(raw, &items) != nil {
			return nil, false
		}
		for _, item := range items {
			value, ok := text(item)
			if !ok {
				return nil, false
			}
			values = append(values, value)
		}
		return values, true
	}
	value, ok := text(raw)
	return []string{value}, ok
}

func text(raw json.RawMessage) (value string, ok bool) {
	if len(raw) == 0 {
		return "", false
	}
	switch raw[0] {
	case '"':
		return value, json.Unmarshal(raw, &value) == nil
	case '{', '[':
		return "", false
	case 'n':
		return "", true
	}
	return string(raw), true
}

// snake writes leadId and Lead-ID as lead_id.
func snake(name string) string {
	var b strings.Builder
	lower := false
	for _, r := range strings.TrimSpace(name) {
		switch {
		case r == '-' || r == ' ':
			r = '_'
		case unicode.IsUpper(r) && lower:
			b.WriteByte('_')
		}
		lower = unicode.IsLower(r) || unicode.IsDigit(r)
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
