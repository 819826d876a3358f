package capitest

import (
	"encoding/json"
	"strconv"
	"time"
	"unique"
)

// Outcome is what became of an event that was accepted.
type Outcome string

// The outcomes. Meta never tells them; the request was answered 200 each time.
const (
	Kept      Outcome = "kept"      // it counts
	Dropped   Outcome = "dropped"   // it is a duplicate of another
	Discarded Outcome = "discarded" // it happened before its lead was made, and is ignored
)

// Conversion says whether a CRM event counts for the Conversion Leads integration.
type Conversion string

// The values of Conversion. Page "Conversion leads: payload specification".
const (
	NotCRM            Conversion = ""    // no CRM event
	ConversionLead    Conversion = "yes" // it counts
	NotConversionLead Conversion = "no"  // accepted as an ordinary event, ignored by the integration
)

// Received is one event that was accepted.
type Received struct {
	Seq            uint64          `json:"seq"` // 1 for the first, in the order of arrival
	Request        uint64          `json:"request"`
	Dataset        string          `json:"dataset"`
	EventName      string          `json:"event_name"`
	EventID        string          `json:"event_id"`
	EventTime      int64           `json:"event_time"`
	ReceivedAt     time.Time       `json:"received_at"`
	ActionSource   string          `json:"action_source"`
	Browser        bool            `json:"browser"` // from the Pixel, not from a server
	Keys           []string        `json:"keys"`    // the match keys that held something
	LeadID         string          `json:"lead_id,omitempty"`
	OrderID        string          `json:"order_id,omitempty"`
	Value          json.Number     `json:"value,omitempty"` // empty: none was given
	Currency       string          `json:"currency,omitempty"`
	TestEventCode  string          `json:"test_event_code,omitempty"` // test events count like any other
	PartnerAgent   string          `json:"partner_agent,omitempty"`
	Version        string          `json:"version,omitempty"` // of the API, as in the path
	Outcome        Outcome         `json:"outcome"`
	DuplicateOf    uint64          `json:"duplicate_of,omitempty"` // the Seq of the event that was kept instead
	ConversionLead Conversion      `json:"conversion_lead,omitempty"`
	Reason         string          `json:"reason"`             // the outcome in words
	Warnings       []string        `json:"warnings,omitempty"` // rules it broke without being refused
	Payload        json.RawMessage `json:"payload,omitempty"`  // as it came; nil once it is no longer kept
}

type reason uint8

const (
	reasonKept reason = iota
	reasonRepeat
	reasonBrowserFirst
	reasonBrowserWins
	reasonUserKeys
	reasonOffline
	reasonInstall
	reasonBeforeLead
	reasonMessaging
)

var reasonTexts = [...]string{
	reasonKept:         "counted",
	reasonRepeat:       "duplicate: the same event_name and event_id within 48 hours",
	reasonBrowserFirst: "duplicate: the Pixel had already reported this event_id",
	reasonBrowserWins:  "duplicate: the Pixel reported this event_id within 5 minutes, and the browser is favoured",
	reasonUserKeys:     "duplicate: the Pixel reported this event_name for the same fbp or external_id within 48 hours",
	reasonOffline:      "duplicate: the same offline event within 7 days",
	reasonInstall:      "duplicate: one install per device in 90 days",
	reasonBeforeLead:   "discarded: event_time is before the lead was created",
	reasonMessaging:    "counted: business messaging is never deduplicated",
}

// record is a Received in little memory: a load test leaves a million of them.
type record struct {
	id, order string
	time, at  int64 // seconds, nanoseconds
	keys      keySet
	lead      int64
	value     float64
	dup       uint64
	request   uint64
	dataset   unique.Handle[string]
	name      unique.Handle[string]
	source    unique.Handle[string]
	call      *call // what all events of a request share
	currency  [3]byte
	hasValue  bool
	browser   bool
	outcome   uint8 // index into outcomes
	reason    reason
	crm       uint8 // index into conversions
	warnings  warningSet
}

var (
	outcomes    = [...]Outcome{Kept, Dropped, Discarded}
	conversions = [...]Conversion{NotCRM, ConversionLead, NotConversionLead}
)

// call is what the events of one request share.
type call struct{ version, testCode, partnerAgent string }

const chunkSize = 4096

// recordLog keeps the last records in chunks, so that growing copies nothing, and
// the payloads of the last few.
type recordLog struct {
	chunks   []*[chunkSize]record
	first    uint64 // seq of the first record of chunks[0]
	next     uint64 // seq of the next record
	limit    uint64
	payloads [][]byte // ring by seq
	ring     uint64   // its size
}

func newRecordLog(records, payloads int) recordLog {
	return recordLog{first: 1, next: 1, limit: uint64(records), ring: uint64(payloads)} //nolint:gosec // both were checked to be positive
}

// add appends a record and returns its seq. The payload is copied.
func (l *recordLog) add(r *record, payload []byte) uint64 {
	seq := l.next
	if (seq-l.first)%chunkSize == 0 {
		if len(l.chunks) > 0 && seq-l.first >= l.limit {
			l.chunks = append(l.chunks[:0], l.chunks[1:]...)
			l.first += chunkSize
		}
		l.chunks = append(l.chunks, new([chunkSize]record))
	}
	*l.at(seq) = *r
	l.next++
	if l.ring > 0 {
		if uint64(len(l.payloads)) < l.ring {
			l.payloads = append(l.payloads, append([]byte(nil), payload...))
		} else {
			slot := &l.payloads[(seq-1)%l.ring]
			*slot = append((*slot)[:0], payload...)
		}
	}
	return seq
}

func (l *recordLog) at(seq uint64) *record {
	i := seq - l.first
	return &l.chunks[i/chunkSize][i%chunkSize]
}

// find returns nil for a record that is no longer kept.
func (l *recordLog) find(seq uint64) *record {
	if seq < l.first || seq >= l.next {
		return nil
	}
	return l.at(seq)
}

func (l *recordLog) payload(seq uint64) []byte {
	if l.ring == 0 || seq >= l.next || l.next-seq > l.ring {
		return nil
	}
	return append([]byte(nil), l.payloads[(seq-1)%l.ring]...)
}

// received spells a record out.
func (l *recordLog) received(seq uint64) Received {
	r := l.at(seq)
	v := Received{
		Seq: seq, Request: r.request, Dataset: r.dataset.Value(), EventName: r.name.Value(), EventID: r.id, EventTime: r.time,
		ReceivedAt: time.Unix(0, r.at).UTC(), ActionSource: r.source.Value(), Browser: r.browser, Keys: r.keys.names(), OrderID: r.order,
		TestEventCode: r.call.testCode, PartnerAgent: r.call.partnerAgent, Version: r.call.version,
		Outcome: outcomes[r.outcome], DuplicateOf: r.dup, ConversionLead: conversions[r.crm],
		Reason: reasonTexts[r.reason], Warnings: r.warnings.texts(), Payload: l.payload(seq),
	}
	if r.lead != 0 {
		v.LeadID = strconv.FormatInt(r.lead, 10)
	}
	if r.hasValue {
		v.Value = json.Number(strconv.FormatFloat(r.value, 'f', -1, 64))
	}
	if r.currency != [3]byte{} {
		v.Currency = string(r.currency[:])
	}
	if v.ConversionLead == NotConversionLead {
		v.Reason += "; not a conversion lead: that takes action_source system_generated, custom_data.event_source crm and lead_event_source"
	}
	return v
}
