package capi

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Codes of the problems that decoding finds.
const (
	ProblemDuplicateField = "duplicate_field" // a field stands twice in one object
	ProblemWrongType      = "wrong_type"      // a list where one value belongs, an object where a text belongs …
	ProblemUnknownField   = "unknown_field"   // a field that Meta's pages do not have; it is not sent
)

// UnmarshalJSON reads an event with Meta's field names, as tolerantly as Meta's own
// SDKs make necessary: numbers may be strings and strings numbers, a single value
// may stand for a list, null means not given, extinfo may be an object with keys
// "0" to "15", and the members of original_event_data and attribution_data may
// carry a leading underscore. Ids beyond 2^53 keep every digit.
//
// Values of a shape that cannot be meant are left out, and Normalise reports them.
// The error, if any, is a Problem that names the field, or says that raw is not
// JSON. Members that Meta does not know are put into Unknown.
func (e *Event) UnmarshalJSON(raw []byte) error {
	*e = Event{}
	d := decoder{event: e}
	err := object(raw, d.eventField)
	var p Problem
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p):
		return p
	default:
		return Problem{
			Field: "event", Code: ProblemWrongType, Severity: SeverityError,
			Reason: err.Error(), Fix: "send one JSON object per event, with Meta's field names",
		}
	}
}

// decoder carries the event being read and the path of the object it is in.
type decoder struct {
	event *Event
	path  string
}

// within runs read on the members of the object raw under the path name.
func (d *decoder) within(name string, raw []byte, read func(key, value []byte) error) error {
	if raw[0] == '"' { // an object as JSON text inside a string
		raw = []byte(unquote(raw))
		if !json.Valid(raw) {
			raw = []byte(`"text"`)
		}
	}
	if len(raw) == 0 || raw[0] != '{' {
		if name == "user_data" || name == "custom_data" {
			return Problem{
				Field: name, Code: ProblemWrongType, Severity: SeverityError,
				Reason: "want an object, got " + shape(raw), Fix: `send {"em": …}: an object with Meta's names`,
			}
		}
		d.note(name, raw)
		return nil
	}
	outer := d.path
	d.path += name + "."
	defer func() { d.path = outer }()
	if err := object(raw, read); err != nil {
		if p, ok := errors.AsType[Problem](err); ok {
			if !strings.HasPrefix(p.Field, d.path) {
				p.Field = d.path + p.Field
			}
			return p
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// note remembers that a value was left out for its shape.
func (d *decoder) note(field string, value []byte) {
	d.event.decoded = append(d.event.decoded, Problem{
		Field: d.path + field, Code: ProblemWrongType, Severity: SeverityWarning,
		Reason: "the value is " + shape(value) + " and was left out", Fix: "send a text, a number or a list of these",
	})
}

func (d *decoder) text(key, raw []byte) string {
	if raw[0] == '[' { // Ruby's SDK sends madid and anon_id as lists
		list := d.texts(key, raw)
		if len(list) > 0 {
			return list[0]
		}
		return ""
	}
	s, ok := scalar(raw)
	if !ok {
		d.note(string(key), raw)
	}
	return s
}

func (d *decoder) texts(key, raw []byte) []string {
	if isNull(raw) {
		return nil
	}
	if raw[0] != '[' {
		if s := d.text(key, raw); s != "" {
			return []string{s}
		}
		return nil
	}
	var list []string
	_ = array(raw, func(value []byte) error {
		s, ok := scalar(value)
		if !ok {
			d.note(string(key), value)
		} else if s != "" {
			list = append(list, s)
		}
		return nil
	})
	return list
}

// boolean understands true, 1, "true" and "1"; null and "" mean not given.
func (d *decoder) boolean(key, raw []byte) *bool {
	var v bool
	switch strings.ToLower(strings.Trim(string(raw), `" `)) {
	case "true", "1":
		v = true
	case "false", "0":
	case "null", "":
		return nil
	default:
		d.note(string(key), raw)
		return nil
	}
	return &v
}

func (d *decoder) integer(key, raw []byte) *int {
	s, ok := scalar(raw)
	if s = strings.TrimSpace(s); ok && s == "" {
		return nil
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		d.note(string(key), raw)
		return nil
	}
	return &n
}

// seconds reads a time; one that cannot be read is an error, for an event without
// its own time must not quietly get another.
func (d *decoder) seconds(key, raw []byte) (int64, error) {
	s, ok := scalar(raw)
	if !ok {
		return 0, Problem{
			Field: d.path + string(key), Code: ProblemWrongType, Severity: SeverityError,
			Reason: "want a Unix time in seconds, got " + shape(raw), Fix: "send whole seconds since 1970, such as 1759270000",
		}
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n > 0 && n < 1e10 {
		return n, nil
	}
	n, _, p := NormaliseTime(s, time.Time{})
	if p != nil {
		p.Field = d.path + string(key)
		p.Severity = SeverityError
		return 0, *p
	}
	return n, nil
}

func (d *decoder) eventField(key, v []byte) error {
	e := d.event
	var err error
	switch string(key) {
	case "event_name":
		e.EventName = d.text(key, v)
	case "event_time":
		e.EventTime, err = d.seconds(key, v)
	case "event_id":
		e.EventID = d.text(key, v)
	case "action_source":
		e.ActionSource = ActionSource(strings.ToLower(strings.TrimSpace(d.text(key, v))))
	case "event_source_url":
		e.EventSourceURL = d.text(key, v)
	case "referrer_url":
		e.ReferrerURL = d.text(key, v)
	case "opt_out":
		e.OptOut = d.boolean(key, v)
	case "user_data":
		if !isNull(v) {
			err = d.within("user_data", v, d.userField)
		}
	case "custom_data":
		if !isNull(v) {
			err = d.customData(v)
		}
	case "app_data":
		if !isNull(v) {
			e.AppData = new(AppData)
			err = d.within("app_data", v, d.appField)
		}
	case "original_event_data":
		if !isNull(v) {
			err = d.originalEvent(v)
		}
	case "attribution_data":
		if !isNull(v) {
			err = d.attribution(v)
		}
	case "data_processing_options":
		if !isNull(v) {
			if e.DataProcessingOptions = d.texts(key, v); e.DataProcessingOptions == nil {
				e.DataProcessingOptions = []string{}
			}
		}
	case "data_processing_options_country":
		e.DataProcessingOptionsCountry = d.integer(key, v)
	case "data_processing_options_state":
		e.DataProcessingOptionsState = d.integer(key, v)
	case "customer_segmentation":
		e.CustomerSegmentation = d.text(key, v)
	case "messaging_channel":
		e.MessagingChannel = d.text(key, v)
	case "advertiser_tracking_enabled":
		e.AdvertiserTrackingEnabled = d.boolean(key, v)
	case "advanced_measurement_table":
		e.AdvancedMeasurementTable = d.text(key, v)
	default:
		if !isNull(v) {
			keep(&e.Unknown, key, v)
		}
	}
	return err
}

func (d *decoder) userField(key, v []byte) error {
	u := &d.event.UserData
	if list := u.list(Key(key)); list != nil {
		*list = d.texts(key, v)
		return nil
	}
	if plain := u.plain(Key(key)); plain != nil {
		*plain = d.text(key, v)
		return nil
	}
	if of, ok := digestNames[string(key)]; ok {
		d.digests(key, v, u.list(of))
		return nil
	}
	if !isNull(v) {
		d.event.decoded = append(d.event.decoded, Problem{
			Field: d.path + string(key), Code: ProblemUnknownField, Severity: SeverityWarning,
			Reason: "Meta knows no match key of this name; it was left out", Fix: "use Meta's short names: em, ph, fn, ln, external_id …",
		})
	}
	return nil
}

// list returns the field of a key that takes several values, nil for other keys.
func (u *UserData) list(k Key) *[]string {
	switch k {
	case KeyEmail:
		return &u.Email
	case KeyPhone:
		return &u.Phone
	case KeyFirstName:
		return &u.FirstName
	case KeyLastName:
		return &u.LastName
	case KeyGender:
		return &u.Gender
	case KeyBirthDate:
		return &u.BirthDate
	case KeyCity:
		return &u.City
	case KeyState:
		return &u.State
	case KeyZip:
		return &u.Zip
	case KeyCountry:
		return &u.Country
	case KeyExternalID:
		return &u.ExternalID
	case KeyFirst5Name:
		return &u.First5Name
	case KeyFirst5Last:
		return &u.First5Last
	case KeyFirstInitial:
		return &u.FirstInitial
	case KeyBirthDay:
		return &u.BirthDay
	case KeyBirthMonth:
		return &u.BirthMonth
	case KeyBirthYear:
		return &u.BirthYear
	default:
		return nil
	}
}

// plain returns the field of a key that is never hashed, nil for other keys.
func (u *UserData) plain(k Key) *string {
	switch k {
	case KeyClientIPAddress:
		return &u.ClientIPAddress
	case KeyClientUserAgent:
		return &u.ClientUserAgent
	case KeyFBC:
		return &u.FBC
	case KeyFBP:
		return &u.FBP
	case KeySubscriptionID:
		return &u.SubscriptionID
	case KeyFBLoginID:
		return &u.FBLoginID
	case KeyLeadID:
		return &u.LeadID
	case KeyAnonID:
		return &u.AnonID
	case KeyMADID:
		return &u.MADID
	case KeyPageID:
		return &u.PageID
	case KeyPageScopedUserID:
		return &u.PageScopedUserID
	case KeyCTWAClid:
		return &u.CTWAClid
	case KeyIGAccountID:
		return &u.IGAccountID
	case KeyIGSID:
		return &u.IGSID
	case KeyIGBusinessID:
		return &u.IGBusinessID
	case KeyWABusinessID:
		return &u.WABusinessID
	case KeyAppUserID:
		return &u.AppUserID
	default:
		return nil
	}
}

func keep(extra *map[string]json.RawMessage, key, value []byte) {
	if *extra == nil {
		*extra = make(map[string]json.RawMessage)
	}
	(*extra)[string(key)] = append(json.RawMessage(nil), value...)
}

// digestNames are what Google's tags call values that are hashed already.
var digestNames = map[string]Key{
	"sha256_email_address": KeyEmail, "sha256_phone_number": KeyPhone, "sha256_first_name": KeyFirstName, "sha256_last_name": KeyLastName,
}

// digests adds hashes to a match key. Under such a name nothing else is taken: hashed once
// more it would match nobody.
func (d *decoder) digests(key, v []byte, into *[]string) {
	for _, text := range d.texts(key, v) {
		if IsHash(text) {
			*into = append(*into, text)
			continue
		}
		d.event.decoded = append(d.event.decoded, Problem{
			Field: d.path + string(key), Code: ProblemWrongType, Severity: SeverityWarning,
			Reason: "a SHA-256 hash was expected under this name; it was left out", Fix: "send 64 hexadecimal digits, or the plain value as em, ph, fn or ln",
		})
	}
}
