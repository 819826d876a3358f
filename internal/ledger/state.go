package ledger

// State is where a delivery stands. Every delivery is in exactly one, so that
// received = sent + waiting + held + skipped + failed.
type State string

// The states of a delivery.
const (
	Waiting State = "waiting" // on its way: in the queue or between two attempts
	Sent    State = "sent"    // the destination said that it has it
	Held    State = "held"    // needs a person or a repair; nothing is lost meanwhile
	Skipped State = "skipped" // rightly not sent
	Failed  State = "failed"  // can never be sent
)

// States lists the states in the order in which the book shows them.
var States = [...]State{Sent, Waiting, Held, Skipped, Failed}

// Final tells whether a delivery in this state is done with, unless a person asks
// for it again.
func (s State) Final() bool { return s == Sent || s == Skipped || s == Failed }

// Beside names what is counted next to the book, never in its equation: it made no
// delivery.
type Beside string

// What stands beside the book.
const (
	Duplicate         Beside = "duplicates"          // the same event again
	DuplicateConflict Beside = "duplicate_conflicts" // the same event id for another person
	Rejected          Beside = "rejected"            // refused at the door, with the reason
	History           Beside = "history"             // happened before the connection, never sent
	AlreadySent       Beside = "already_sent"        // the lead's event of this name went before
)
