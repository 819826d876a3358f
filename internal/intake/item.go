package intake

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/record"
)

// Codes of the problems with what is ours in an event.
const (
	problemConsent  = "invalid_consent"
	problemDataset  = "invalid_dataset"
	problemTestCode = "invalid_test_event_code"
	problemNUL      = "nul_character"
)

// maxTestCode is longer than any test_event_code of Meta.
const maxTestCode = 100

// own is what a caller may say to us about an event, beside the event.
type own struct {
	dataset  string
	consent  ledger.Consent
	testCode string
	agent    string
}

// take reads one member; not taken: it is none of ours.
func (o *own) take(key string, raw []byte) (taken bool, p *capi.Problem) {
	switch key {
	case "dataset":
		s, ok := scalar(raw)
		if !ok && !isNull(raw) {
			return true, refuse(key, problemDataset, "want the id of a dataset, got "+shape(raw), `send the id as text: "1234567890"`)
		}
		o.dataset = strings.TrimSpace(s)
	case "consent":
		return true, o.takeConsent(raw)
	case "test_event_code":
		s, ok := scalar(raw)
		if !ok && !isNull(raw) {
			s = shape(raw) // which is none
		}
		return true, o.takeTestCode(s)
	case "partner_agent":
		if s, ok := scalar(raw); ok {
			o.takeAgent(s)
		}
	default:
		return false, nil
	}
	return true, nil
}

// takeAgent keeps a partner_agent that Meta would take: under 23 characters, at
// least two of them letters (page "End-to-end implementation"). Another one changes
// nothing about the events and is left out.
func (o *own) takeAgent(s string) {
	s = strings.TrimSpace(s)
	letters := 0
	for i := range len(s) {
		switch c := s[i] | 0x20; {
		case c >= 'a' && c <= 'z':
			letters++
		case s[i] < ' ' || s[i] > '~':
			return
		}
	}
	if len(s) < 23 && letters >= 2 {
		o.agent = s
	}
}

// takeTestCode: Meta's are letters and digits.
func (o *own) takeTestCode(s string) *capi.Problem {
	s = strings.TrimSpace(s)
	good := len(s) <= maxTestCode
	for i := range len(s) {
		good = good && s[i] > ' ' && s[i] < 0x7F
	}
	if !good {
		return refuse("test_event_code", problemTestCode, "this is no test code", "copy it from the tab Test events of the Events Manager, or leave it out")
	}
	o.testCode = s
	return nil
}

func refuse(field, code, reason, fix string) *capi.Problem {
	return &capi.Problem{Field: field, Code: code, Severity: capi.SeverityError, Reason: reason, Fix: fix}
}

// takeConsent reads a decision: true or false, "granted" or "denied", or an object
// of such by purpose, as consent banners keep it. Any purpose of advertising that is
// denied denies it all. What cannot be read refuses the event: a decision must not be
// guessed.
func (o *own) takeConsent(raw []byte) *capi.Problem {
	if isNull(raw) {
		o.consent = ledger.ConsentAbsent
		return nil
	}
	if raw[0] != '{' {
		decision, ok := decisionOf(raw)
		if !ok {
			return unclearConsent("consent")
		}
		o.consent = decision
		return nil
	}
	o.consent = ledger.ConsentAbsent
	var p *capi.Problem
	eachMember(raw, func(key string, value []byte) bool {
		if notAdvertising[key] || isNull(value) {
			return true
		}
		decision, ok := decisionOf(value)
		if !ok {
			p = unclearConsent("consent." + key)
			return false
		}
		if o.consent != ledger.ConsentDenied {
			o.consent = decision
		}
		return true
	})
	return p
}

// notAdvertising are the purposes of Google's consent mode that say nothing about
// sending data to an ad platform.
var notAdvertising = map[string]bool{
	"analytics_storage": true, "functionality_storage": true, "personalization_storage": true, "security_storage": true,
}

func decisionOf(raw []byte) (d ledger.Consent, ok bool) {
	word := string(raw)
	if raw[0] == '"' {
		word = text(raw)
	}
	switch strings.ToLower(strings.TrimSpace(word)) {
	case "true", "granted":
		return ledger.ConsentGranted, true
	case "false", "denied":
		return ledger.ConsentDenied, true
	}
	return ledger.ConsentAbsent, false
}

func unclearConsent(field string) *capi.Problem {
	return refuse(field, problemConsent, "the decision cannot be read, and must not be guessed",
		`send true or false, "granted" or "denied", or an object of these such as {"ad_user_data":"denied"}; leave it out where nobody was asked`)
}

// readItem reads one event with what is ours in it. defaults holds where the event
// itself says nothing.
func readItem(raw []byte, defaults own) record.Item {
	event := new(capi.Event)
	item := record.Item{Event: event}
	if err := event.UnmarshalJSON(raw); err != nil {
		var p capi.Problem
		if !errors.As(err, &p) {
			p = capi.Problem{Field: "event", Code: capi.ProblemWrongType, Severity: capi.SeverityError, Reason: err.Error(), Fix: example}
		}
		item.Problems = capi.Problems{p}
	}
	if p := unstorable(event); p != nil {
		item.Problems = append(item.Problems, *p)
	}
	o := defaults
	if len(event.Unknown) > 0 {
		for _, key := range slices.Sorted(maps.Keys(event.Unknown)) {
			taken, p := o.take(key, event.Unknown[key])
			if !taken {
				p = unknownField(key)
			}
			if p != nil {
				item.Problems = append(item.Problems, *p)
			}
		}
		event.Unknown = nil
	}
	item.Dataset, item.TestEventCode, item.PartnerAgent = o.dataset, o.testCode, o.agent
	item.Consent = ledger.Decision{Consent: o.consent, By: ledger.ByCaller}
	return item
}

// maxName is far above what anyone calls an event; the book has a line per name.
const maxName = 250

// unstorable finds what a database would not take: PostgreSQL has no NUL in texts, and
// a limit for what stands in an index. Such an event would be refused each time anew,
// with a fault of the server's.
func unstorable(e *capi.Event) *capi.Problem {
	switch {
	case len(e.EventName) > maxName:
		return refuse("event_name", capi.ProblemLongEventName, "the name has more than 250 bytes", "give a name of at most 50 characters")
	case strings.IndexByte(e.EventName, 0) >= 0:
		e.EventName = strings.ReplaceAll(e.EventName, "\x00", "\uFFFD")
		return refuse("event_name", problemNUL, "the name holds a character NUL", "take it out")
	case len(e.ActionSource) > maxName || strings.IndexByte(string(e.ActionSource), 0) >= 0:
		return refuse("action_source", capi.ProblemActionSource, "this is no action_source that Meta knows", "give website, system_generated, phone_call …")
	case strings.IndexByte(e.EventID, 0) >= 0:
		return refuse("event_id", problemNUL, "the id holds a character NUL", "take it out")
	}
	return nil
}

// fieldNames are the names an event can have, ours included, by their letters alone.
var fieldNames = func() map[string]string {
	names := make(map[string]string)
	for _, n := range []string{
		"event_name", "event_time", "event_id", "action_source", "event_source_url", "referrer_url", "opt_out", "user_data", "custom_data",
		"app_data", "original_event_data", "attribution_data", "data_processing_options", "data_processing_options_country",
		"data_processing_options_state", "customer_segmentation", "messaging_channel", "advertiser_tracking_enabled",
		"advanced_measurement_table", "dataset", "consent", "test_event_code", "data",
	} {
		names[letters(n)] = n
	}
	return names
}()

func letters(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "", ".", "").Replace(s))
}

// unknownField warns of a member that nobody reads. One of ours in another spelling
// refuses the event: a consent that was overlooked would send what must not be sent.
func unknownField(key string) *capi.Problem {
	p := &capi.Problem{
		Field: shortKey(key), Code: capi.ProblemUnknownField,
		Reason: "neither Meta nor this server knows this field; it was left out", Fix: "put fields of your own into custom_data",
	}
	meant := fieldNames[letters(key)]
	if meant == "" {
		return p
	}
	p.Reason, p.Fix = "this is no field, but "+meant+" is one; it was left out", "write it "+meant+", in small letters"
	if meant == "consent" || meant == "dataset" || meant == "test_event_code" {
		p.Severity, p.Reason = capi.SeverityError, "this is no field, but "+meant+" is one, and leaving it out could send what must not be sent"
	}
	return p
}

// shortKey keeps a hostile name from filling the answer.
func shortKey(key string) string {
	const most = 64
	if len(key) > most {
		return strings.ToValidUTF8(key[:most], "") + "…"
	}
	return key
}

// unwrap returns the object that is meant: the value itself or, as Meta's SDKs for
// Python and Ruby write it, the value inside a text. Not ok: the text is no JSON.
func unwrap(raw []byte) (inner []byte, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return raw, true
	}
	inner = bytes.Trim([]byte(text(raw)), " \t\r\n")
	return inner, len(inner) > 0 && json.Valid(inner)
}
