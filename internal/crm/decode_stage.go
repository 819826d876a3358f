package crm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/ledger"
)

// Codes of problems of a stage change, beside capi's.
const (
	ProblemNotAChange      = "not_a_stage_change"  // the item is no object
	ProblemNoPerson        = "no_identity"         // nothing says whose change it is
	ProblemNoStage         = "stage_missing"       // no stage, and no field with its value
	ProblemUnknownPlatform = "unknown_platform"    // no ad platform that is known
	ProblemUnknownMeaning  = "unknown_meaning"     // not won, lost or open
	ProblemInvalidFlag     = "invalid_flag"        // neither true nor false
	ProblemTooLong         = "too_long"            // longer than any CRM's id or name
	ProblemNoZone          = "time_zone_missing"   // a time whose zone had to be assumed
	ProblemAmbiguousDate   = "date_ambiguous"      // 03/04/2026: which number is the day?
	ProblemAmbiguousAmount = "amount_ambiguous"    // 1,500: a thousand or one and a half?
	ProblemConsentElse     = "consent_not_a_stage" // a decision about consent, which has its own call
)

const (
	maxStageText = 500 // bytes of an id or a name
	maxStageKeys = 200 // further fields
)

// DecodeStage reads one stage change. Field names are those of POST /v1/stages, in any
// case, with hyphens or underscores, and the usual other names; an envelope {"type",
// "timestamp", "data": {…}} is opened. A time without a zone is read as UTC, with a
// warning. With a problem of error severity the change is not to be taken.
//
// Its Key is a hash, never empty: of event_id alone where there is one; else of key (or id),
// whose change it is, where to and when; without a moment, of the minute of now.
func DecodeStage(raw []byte, now time.Time) (ledger.StageChange, capi.Problems) {
	return DecodeStageIn(raw, nil, nil, now)
}

// DecodeStageIn is DecodeStage for a sender whose times without a zone are of this one (nil
// is UTC, with a warning) and whose dates such as 03/04/2026 are read as dayFirst says (nil:
// they are refused).
func DecodeStageIn(raw []byte, zone *time.Location, dayFirst *bool, now time.Time) (ledger.StageChange, capi.Problems) {
	d := newStageDecoder(zone, now)
	d.dayFirst = dayFirst
	members, err := stageMembers(raw)
	if err != nil {
		d.fail("", ProblemNotAChange, err.Error(), `send an object such as {"lead_id":"1234567890123456","stage":"Qualified","occurred_at":"2026-11-18T14:06:37+03:00"}`)
		return d.change, d.problems
	}
	for _, m := range members {
		if snake(m.name) == "data" && len(m.value) > 0 && m.value[0] == '{' {
			inner, _ := stageMembers(m.value) // it is an object
			d.opened = true
			for _, m := range inner {
				d.member(m)
			}
		}
	}
	for _, m := range members {
		if !d.opened || envelope[snake(m.name)] && d.values[stageField(m.name)] == "" {
			d.member(m)
		}
	}
	d.finish()
	return d.change, d.problems
}

// envelope are the members beside data that are read.
var envelope = map[string]bool{"timestamp": true, "event_id": true, "test": true, "is_test": true, "history": true}

type stageDecoder struct {
	now      time.Time
	zone     *time.Location // of times without one; nil: UTC, with a warning
	dayFirst *bool          // what 03/04/2026 means; nil: it is refused
	table    bool           // a line of a table: decimal commas, dates as people write them, columns that mean nothing
	opened   bool           // an envelope was opened

	change   ledger.StageChange
	problems capi.Problems
	names    map[string]string // the sender's own name, by field
	values   map[string]string // by field
}

func newStageDecoder(zone *time.Location, now time.Time) *stageDecoder {
	return &stageDecoder{now: now, zone: zone, names: map[string]string{}, values: map[string]string{}}
}

func (d *stageDecoder) fail(field, code, reason, fix string) {
	d.problems = append(d.problems, capi.Problem{Field: d.called(field), Code: code, Severity: capi.SeverityError, Reason: reason, Fix: fix})
}

func (d *stageDecoder) warn(field, code, reason, fix string) {
	d.problems = append(d.problems, capi.Problem{Field: d.called(field), Code: code, Severity: capi.SeverityWarning, Reason: reason, Fix: fix})
}

// called is what the sender calls a field.
func (d *stageDecoder) called(field string) string {
	if name := d.names[field]; name != "" && d.table {
		return name
	}
	return field
}

// member reads one member of an object.
func (d *stageDecoder) member(m stageMember) {
	field := stageField(m.name)
	if string(m.value) == "null" {
		return
	}
	switch field {
	case "fields":
		d.further(m.value)
		return
	case "records":
		d.records(m.value)
		return
	}
	values, ok := stageTexts(m.value)
	switch known := stageFields[field]; {
	case known && (!ok || len(values) > 1) && snake(m.name) == field:
		d.names[field] = m.name
		d.fail(field, capi.ProblemWrongType, "a list or an object stands where one text belongs", "send one text")
	case !ok || known && len(values) > 1:
		d.warn(m.name, capi.ProblemUnknownField, "a stage change has no such field; it was left out", "put further fields into fields, each with a text")
	case !known:
		d.warn(m.name, capi.ProblemUnknownField, "a stage change has no such field; it was kept among the fields", "put further fields into fields")
		d.keep(m.name, strings.Join(values, ", "))
	default:
		d.set(field, m.name, strings.Join(values, ""))
	}
}

// set keeps the value of a field that is known.
func (d *stageDecoder) set(field, name, value string) {
	if value = cleanStage(value); value == "" || value == "null" || value == "undefined" {
		return
	}
	if before, ok := d.values[field]; ok {
		switch {
		case before == value:
		case d.table && !settles[field]: // a second phone, another person's name
			d.keep(name, value)
		case d.table:
			d.fail(field, capi.ProblemDuplicateField, "two columns say it, with different values", "leave one of them, or rename the other")
		default:
			d.fail(field, capi.ProblemDuplicateField, "the field stands twice in one change, with different values", "send it once")
		}
		return
	}
	d.names[field] = name
	if len(value) > maxStageText {
		d.fail(field, ProblemTooLong, "it is longer than 500 bytes", "send the id or the name alone")
		return
	}
	d.values[field] = value
}

// settles are the fields of which a table may have one column only.
var settles = map[string]bool{
	"lead_id": true, "deal_id": true, "stage": true, "status": true, "pipeline": true, "field": true, "is": true, "meaning": true,
	"occurred_at": true, "date": true, "time": true, "value": true, "amount": true, "currency": true, "history": true, "test": true, "consent": true,
}

// further reads fields that a rule may ask for.
func (d *stageDecoder) further(raw json.RawMessage) {
	members, err := stageMembers(raw)
	if err != nil {
		d.fail("fields", capi.ProblemWrongType, "the fields are not an object", `send {"name": "value"}`)
		return
	}
	for _, m := range members {
		values, ok := stageTexts(m.value)
		if !ok {
			d.warn("fields", capi.ProblemWrongType, "one of the fields is neither a text nor a list of texts; it was left out", "send a text, a number, true or false, or a list of these")
			continue
		}
		d.keep(m.name, strings.Join(values, ", "))
	}
}

func (d *stageDecoder) keep(name, value string) {
	name, value = cleanStage(name), cleanStage(value)
	if name == "" || value == "" {
		return
	}
	if d.change.Fields == nil {
		d.change.Fields = map[string]string{}
	}
	if len(d.change.Fields) >= maxStageKeys || len(name) > maxStageText || len(value) > 16*maxStageText {
		d.warn("fields", ProblemTooLong, "there are more than 200 further fields, or one is too long; some were left out", "send those that a rule asks for")
		return
	}
	d.change.Fields[name] = value
}

// records reads the CRM's ids as we write them: ["deal:9001","contact:51"].
func (d *stageDecoder) records(raw json.RawMessage) {
	values, ok := stageTexts(raw)
	if !ok || len(values) > 20 {
		d.fail("records", capi.ProblemWrongType, "the records are not a list of a few texts", `send ["deal:9001","contact:51"], the most specific first`)
		return
	}
	for _, v := range values {
		d.record("record", cleanStage(v))
	}
}

// record adds a record's id under its kind, unless it has one of its own.
func (d *stageDecoder) record(kind, id string) {
	if id == "" {
		return
	}
	if len(id) > maxStageText {
		d.fail("records", ProblemTooLong, "it is longer than 500 bytes", "send the id alone")
		return
	}
	if !strings.Contains(id, ":") {
		id = kind + ":" + id
	}
	if !slices.Contains(d.change.Records, id) {
		d.change.Records = append(d.change.Records, id)
	}
}

// finish makes the change of what was read.
func (d *stageDecoder) finish() {
	d.where()
	d.who()
	d.when()
	d.money()
	d.flag("history", &d.change.History)
	d.flag("test", &d.change.Test)
	d.consent()
	d.change.Key = d.key()
}

// where reads the stage, or the field that reached a value.
func (d *stageDecoder) where() {
	c, v := &d.change, d.values
	c.Pipeline, c.PipelineLabel = v["pipeline"], v["pipeline_label"]
	c.StageLabel, c.Field, c.From, c.By = v["stage_label"], v["field"], v["from"], v["changed_by"]
	switch {
	case c.Field == "":
		c.Stage = firstOf(v["stage"], v["status"], v["stage_label"])
	case v["is"] != "":
		c.Stage = v["is"]
	case v["stage"] != "":
		c.Stage = v["stage"]
	default: // {"field":"status","value":"CONNECTED"}
		c.Stage = v["value"]
		delete(v, "value")
	}
	if c.Stage == "" && !d.refused("stage", "is", "value") {
		d.fail("stage", ProblemNoStage, "nothing says which stage was reached", "send stage, or field with is: the field's value")
	}
	switch m := ledger.Meaning(strings.ToLower(v["meaning"])); m {
	case ledger.MeaningUnknown, ledger.MeaningOpen, ledger.MeaningWon, ledger.MeaningLost:
		c.Meaning = m
	default:
		d.fail("meaning", ProblemUnknownMeaning, "it is not a meaning of a stage", "send won, lost or open, or leave it out")
	}
	if s := ledger.Meaning(strings.ToLower(v["status"])); c.Meaning == "" && (s == ledger.MeaningOpen || s == ledger.MeaningWon || s == ledger.MeaningLost) {
		c.Meaning = s
	}
	if v["stage"] != "" && v["status"] != "" && v["status"] != v["stage"] {
		d.keep(d.names["status"], v["status"])
	}
}

// refused tells whether one of the fields was given and not taken.
func (d *stageDecoder) refused(fields ...string) bool {
	for _, f := range fields {
		if d.names[f] != "" && d.values[f] == "" {
			for _, p := range d.problems {
				if p.Severity == capi.SeverityError && p.Field == d.called(f) {
					return true
				}
			}
		}
	}
	return false
}

func (d *stageDecoder) flag(field string, place *bool) {
	switch strings.ToLower(d.values[field]) {
	case "true", "yes", "1":
		*place = true
	case "false", "no", "0", "":
	default:
		d.fail(field, ProblemInvalidFlag, "it is neither true nor false", "send true or false")
	}
}

// consent is not the business of a stage change. A yes stands with the lead; a no must not
// get lost.
func (d *stageDecoder) consent() {
	value, given := d.values["consent"]
	if !given {
		return
	}
	switch strings.ToLower(value) {
	case "true", "granted", "yes", "1":
		d.warn("consent", ProblemConsentElse, "a stage change carries no consent; it was left out", "send it with the lead, or to /v1/consent")
	default:
		d.fail("consent", ProblemConsentElse, "a stage change carries no consent, and this one does not say yes", `post {"granted":false} with the lead_id, email or phone to /v1/consent; it holds for all events of the person`)
	}
}

// key is what a repeat is recognised by. Senders put all sorts of things into key and id,
// a password or the deal's id among them: these count only together with the rest.
func (d *stageDecoder) key() string {
	c, v := &d.change, d.values
	if v["event_id"] != "" {
		return sumOf("event", v["event_id"])
	}
	at := c.At.UTC().Format(time.RFC3339Nano)
	if c.At.IsZero() {
		at = d.now.UTC().Truncate(time.Minute).Format(time.RFC3339)
	}
	return sumOf("change", v["key"], v["id"], c.Platform, c.LeadID, strings.Join(c.Records, ","), c.DealID, c.ExternalID,
		strings.ToLower(firstOf(c.Contact.Email, c.Contact.WorkEmail)), digits(firstOf(c.Contact.Phone, c.Contact.WorkPhone)),
		c.Field, c.Pipeline, c.Stage, at)
}

func sumOf(parts ...string) string {
	h := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(h[:])
}
