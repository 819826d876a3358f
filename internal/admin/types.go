package admin

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// Event is an event with all that became of it. Times of Meta's fields are Unix
// seconds as Meta has them, all others RFC 3339.
type Event struct {
	ID           string        `json:"id"`
	Name         string        `json:"event_name"`
	EventID      string        `json:"event_id"`
	EventTime    int64         `json:"event_time"`
	ActionSource string        `json:"action_source"`
	Source       string        `json:"source"`
	ReceivedAt   time.Time     `json:"received_at"`
	State        ledger.State  `json:"state"`
	Reason       ledger.Reason `json:"reason"`
	Sentence     string        `json:"sentence"`
	KeysCame     []string      `json:"keys_came"`
	Consent      string        `json:"consent"` // granted:tcf, denied:gcm …; "": nothing was said
	Deliveries   []Delivery    `json:"deliveries"`
}

// Delivery is one delivery of an Event.
type Delivery struct {
	Destination string        `json:"destination"` // the dataset's id; "" if there was none
	State       ledger.State  `json:"state"`
	Reason      ledger.Reason `json:"reason"`
	Sentence    string        `json:"sentence"`
	Attempts    int           `json:"attempts"`
	SentAt      *time.Time    `json:"sent_at"`    // null: not sent
	SettledAt   *time.Time    `json:"settled_at"` // null: not done with
	NextAt      *time.Time    `json:"next_at"`    // null: at once, or not again
	Deadline    *time.Time    `json:"deadline"`   // after this the destination would refuse it
	FBTraceID   string        `json:"fbtrace_id"` // Meta's name for the request that took it
	Answer      *Answer       `json:"answer"`     // the last one; null: none yet
	Answers     []Answer      `json:"answers"`    // each attempt's, newest first; only for one event
	KeysKept    []string      `json:"keys_kept"`  // the match keys in the payload
	Notes       []Note        `json:"notes"`      // what was left out or changed, and why
	Payload     Payload       `json:"payload"`    // what leaves, byte for byte; null: none, or cleared
}

// Answer is what a destination said to one request. Where it stands for a state and
// not for an attempt, it has neither time nor outcome nor number.
type Answer struct {
	At        *time.Time `json:"at,omitempty"`
	Outcome   string     `json:"outcome,omitempty"` // sent, retry, refused, split, held, lost; "" while under way
	Status    int        `json:"status"`            // HTTP; 0: there was no answer
	Code      int        `json:"code"`
	Subcode   int        `json:"subcode"`
	FBTraceID string     `json:"fbtrace_id"`
	Message   string     `json:"message"`
	Events    int        `json:"events,omitempty"` // how many events the request carried
}

// Note is what was left out of a payload or changed in it.
type Note struct {
	Field    string `json:"field"`
	Code     string `json:"code"`
	Severity string `json:"severity"`
	Reason   string `json:"reason"`
	Fix      string `json:"fix"`
}

// Payload is what leaves, byte for byte. In JSON it stands as the value it is; one
// that is no JSON, or whose bytes an encoder would change, stands as a text.
type Payload []byte

// MarshalJSON writes the payload. The encoder must not escape HTML, or the bytes
// would change; WriteJSON takes care of it.
func (p Payload) MarshalJSON() ([]byte, error) {
	switch {
	case p == nil:
		return []byte("null"), nil
	case standsAsItIs(p):
		return p, nil
	default:
		return json.Marshal(string(p))
	}
}

// standsAsItIs tells whether encoding/json passes a value on unchanged: it takes blanks
// out, and escapes two separators that JavaScript once stumbled over.
func standsAsItIs(p []byte) bool {
	if bytes.ContainsAny(p, "\u2028\u2029") {
		return false
	}
	var b bytes.Buffer
	return json.Compact(&b, p) == nil && bytes.Equal(b.Bytes(), p)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (p *Payload) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*p = nil
		return nil
	}
	if len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*p = Payload(s)
		return nil
	}
	*p = bytes.Clone(b)
	return nil
}

// LedgerQuery limits the book to a part. From and To are RFC 3339 times or dates
// (UTC), in whole hours of receipt; "" is no limit.
type LedgerQuery struct {
	From, To    string
	Source      string
	Destination string // the dataset's id
	Event       string // the event's name
}

// Ledger is the book: received = sent + waiting + held + skipped + failed.
type Ledger struct {
	Received    int64  `json:"received"`
	Sent        int64  `json:"sent"`
	Waiting     int64  `json:"waiting"`
	Held        int64  `json:"held"`
	Skipped     int64  `json:"skipped"`
	Failed      int64  `json:"failed"`
	Unexplained int64  `json:"unexplained"` // 0, or the store has a fault
	ByReason    []Line `json:"by_reason"`
	Beside      Beside `json:"beside"`
}

// Line is one line of the book.
type Line struct {
	State    ledger.State  `json:"state"`
	Reason   ledger.Reason `json:"reason"`
	Sentence string        `json:"sentence"`
	Count    int64         `json:"count"`
}

// Beside is what is counted next to the book, never in it.
type Beside struct {
	Duplicates         int64 `json:"duplicates"`
	Rejected           int64 `json:"rejected"`
	History            int64 `json:"history"`
	AlreadySent        int64 `json:"already_sent"`
	DuplicateConflicts int64 `json:"duplicate_conflicts"`
}

// Finding is something the product noticed and a person should act on.
type Finding struct {
	ID               string             `json:"id"`
	Kind             ledger.FindingKind `json:"kind"`
	Severity         string             `json:"severity"` // error, warning
	Owner            ledger.Owner       `json:"owner"`    // you, client, meta
	State            string             `json:"state"`    // open, fixed
	Title            string             `json:"title"`
	Cause            string             `json:"cause"`
	NextStep         string             `json:"next_step"`
	Since            time.Time          `json:"since"`
	MessageForClient string             `json:"message_for_client"` // "" unless the client can mend it
}

// Destination is where events go, and how it is doing.
type Destination struct {
	ID             string        `json:"id"` // the dataset's id
	Kind           string        `json:"kind"`
	State          string        `json:"state"` // sending, paused, held, off, removed
	Sentence       string        `json:"sentence"`
	Reason         ledger.Reason `json:"reason"`  // why it is held
	Since          *time.Time    `json:"since"`   // held since
	NextAt         *time.Time    `json:"next_at"` // paused or held: the next try
	Waiting        int64         `json:"waiting"` // deliveries in its queue
	Held           int64         `json:"held"`    // deliveries that wait for a person
	LastAcceptedAt *time.Time    `json:"last_accepted_at"`
	Answer         *Answer       `json:"answer"` // behind a pause or hold
}

// The states of a destination.
const (
	Sending = "sending"
	Paused  = "paused"
	OnHold  = "held"
	Off     = "off"
	Removed = "removed"
)

// DoctorOptions says how far the doctor may go.
type DoctorOptions struct {
	SendTest      bool   `json:"send_test"`       // send one test event to each dataset; it counts like any other
	TestEventCode string `json:"test_event_code"` // "": the one in the settings
	Destination   string `json:"destination"`     // "": all
	Repair        bool   `json:"repair"`          // let CRMs have the custom fields that they lack
}

// Report is what the doctor found.
type Report struct {
	OK          bool               `json:"ok"` // no check failed; warnings do not count
	Datasets    []DatasetReport    `json:"datasets"`
	Connections []ConnectionReport `json:"connections"` // lead sources and CRMs
}

// DatasetReport is what the doctor found at one dataset.
type DatasetReport struct {
	Workspace string  `json:"workspace"`
	Dataset   string  `json:"dataset"`
	OK        bool    `json:"ok"`
	Checks    []Check `json:"checks"`
}

// Check is one line of a DatasetReport.
type Check struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Warning  bool   `json:"warning"` // not OK, but nothing that stops sending
	Sentence string `json:"sentence"`
	NextStep string `json:"next_step"`
}

// NewKey is a key that was just made. It is shown this once and not kept.
type NewKey struct {
	Workspace string `json:"workspace"`
	Name      string `json:"name"`
	Key       string `json:"key"`
}
