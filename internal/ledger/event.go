package ledger

import (
	"time"

	"github.com/capiloop/capiloop/capi"
)

// Event is one thing to report, as the ledger keeps it: what happened, under which
// id, and which match keys came with it. It holds nothing personal; what identifies
// the person is hashed inside the deliveries' payloads.
type Event struct {
	ID           ID
	Workspace    int64
	Source       string // name of the source: an API key's, a form's, a website's
	Name         string // event_name
	EventID      string // event_id
	Time         time.Time
	ActionSource string
	Came         capi.KeySet // the match keys that came with the event
	Person       int64       // fingerprint of the person's match keys, 0 if there are none
	Consent      string      // what was known about consent, as Decision writes it
	Price        *Price      // what a purchase cost; nil: it is none, or is not guarded
	Deliveries   []Delivery
}

// Delivery is an event on its way to one destination.
type Delivery struct {
	ID          ID
	Destination int64 // 0: the workspace had none, which is a reason to skip
	State       State // Waiting, Held or Skipped when it is recorded
	Reason      Reason
	Payload     []byte        // frozen; what leaves, byte for byte
	Kept        capi.KeySet   // the match keys in the payload
	Notes       capi.Problems // what was left out or changed, and why
	Priority    Priority
	DueAt       time.Time // not before this; zero: at once
	Deadline    time.Time // after this the destination would refuse it
	Envelope    Envelope
}

// Priority settles who goes first in a lane; lower goes first.
type Priority int

// The priorities of a delivery.
const (
	Valuable Priority = 1 // a purchase, or anything with a value
	Ordinary Priority = 5
	Parked   Priority = 9 // held by itself: out of the lane's way
)

// PriorityOf returns the priority of an event: money first.
func PriorityOf(e *capi.Event) Priority {
	if e.EventName == "Purchase" || e.CustomData != nil && e.CustomData.Value != "" && e.CustomData.Value != "0" {
		return Valuable
	}
	return Ordinary
}

// Deadline returns the last moment at which Meta would still take an event that
// happened at t.
func Deadline(t time.Time, source capi.ActionSource) time.Time {
	return t.Add(capi.MaxAge(source) - ExpiryMargin)
}

// Destination is where deliveries go: a Meta dataset. Its secrets are not here.
type Destination struct {
	ID        int64
	Workspace int64
	Kind      string // "meta"
	Name      string // the dataset id
	Live      bool
	CreatedAt time.Time
}
