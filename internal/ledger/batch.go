package ledger

import "time"

// Envelope is what a request says beside its events. It belongs to the row from its
// recording on, and a batch never mixes two.
type Envelope struct {
	TestCode string // test_event_code; "": none
	Agent    string // partner_agent of whoever sent the event to us; "": ourselves
}

// Row is a delivery that a lane has claimed.
type Row struct {
	ID           ID
	Workspace    int64
	Source, Name string // for the counters
	Payload      []byte
	Size         int
	Priority     Priority
	Deadline     time.Time
	Tries        int
	UnknownSince time.Time // first request whose answer was lost; zero: none
	SuspectSince time.Time // first unclear refusal of this row alone; zero: none
	Envelope     Envelope
	Held         Reason // why it is parked
}

// Batch is what one request carries. It is written down before a byte leaves: one
// that is found unsettled after a crash may have arrived.
type Batch struct {
	ID          ID
	Destination int64
	Epoch       int64 // of the lane's lease; a batch of an older one settles nothing
	ClaimedAt   time.Time
	Envelope    Envelope // all rows share it
	Rows        []Row
}

// Lane is the state of a destination's queue.
type Lane struct {
	Destination int64
	Owner       string // the node that may send
	Epoch       int64
	LeaseUntil  time.Time
	DueAt       time.Time // no request before this
	Failures    int       // failures in a row
	Paused      Reason    // why it waits until DueAt: Backlog, Throttled
	Held        Reason    // not None: nothing passes until repair; probes go on
	HeldSince   time.Time
	Probes      int       // probes since then
	AcceptedAt  time.Time // last time the destination took something
	Answer      Answer    // the answer behind Held or the back-off
}

// Change is what settling does to one row.
type Change struct {
	Row   Row
	State State
	Why   Reason
	DueAt time.Time // Waiting: not before this
	// UnknownSince and SuspectSince replace the row's, where it stays in the lane.
	UnknownSince time.Time
	SuspectSince time.Time
}

// Settlement closes a batch: what became of its rows and of its lane.
type Settlement struct {
	Batch   *Batch
	Answer  Answer
	Outcome string // one word for the log and the metrics: sent, retry, refused, split, held, lost
	Changes []Change
	Lane    Lane // as it is to be from now on

	// Of leads that a CRM took, by delivery: what it calls its records, and the copy of
	// what left, sealed under the lead's key.
	Records map[ID][]string
	Copies  map[ID][]byte
}
