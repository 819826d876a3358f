package admin

import (
	"context"
	"net/http"

	"github.com/capiloop/capiloop/internal/ledger"
)

// Right is what an actor may do. Each right holds those before it.
type Right int

// The rights, the smallest first. The zero value allows nothing.
const (
	Read    Right = iota + 1 // look at everything but secrets
	Operate                  // retry, release, drop, test
	Own                      // keys, backups
)

// String names the right.
func (r Right) String() string {
	switch r {
	case Read:
		return "read"
	case Operate:
		return "operate"
	case Own:
		return "own"
	}
	return "none"
}

// parseRight reads what String writes; anything else is no right at all.
func parseRight(s string) Right {
	for _, r := range []Right{Read, Operate, Own} {
		if r.String() == s {
			return r
		}
	}
	return 0
}

// Actor is who asks.
type Actor struct {
	Name  string // for the audit: a user, "cli", "api key shop"
	Right Right
}

// Actions is what can be done, here or through the socket of a running server. The
// workspace ws is given by its name or its number; "" is the only one there is.
type Actions interface {
	LeadActions
	StageActions

	// Event returns an event with all that became of it.
	Event(ctx context.Context, by Actor, ws string, id ledger.ID) (*Event, error)
	// EventByText is Event for an id as a person or a machine wrote it.
	EventByText(ctx context.Context, by Actor, ws, id string) (*Event, error)
	// Latest returns the newest events, newest first; limit is at most 500.
	Latest(ctx context.Context, by Actor, ws string, limit int) ([]*Event, error)
	// Ledger returns the book.
	Ledger(ctx context.Context, by Actor, ws string, q LedgerQuery) (*Ledger, error)
	// Funnel tells how far leads came.
	Funnel(ctx context.Context, by Actor, ws string, q FunnelQuery) (*Funnel, error)
	// Dedup tells how many of the browsers' and the servers' copies of events pair.
	Dedup(ctx context.Context, by Actor, ws string, q DedupQuery) (*Dedup, error)
	// DedupTest looks for the two copies of what is done on a page; ws "" is the
	// workspace of the page.
	DedupTest(ctx context.Context, by Actor, ws string, q DedupTestQuery) (*DedupTest, error)
	// Deadlines lists what would be lost by its deadline within a time such as 24h.
	Deadlines(ctx context.Context, by Actor, ws, within string) ([]Deadline, error)
	// Findings lists what was noticed, open ones first.
	Findings(ctx context.Context, by Actor, ws string) ([]Finding, error)
	// Destinations lists where events go, with the state of each in words.
	Destinations(ctx context.Context, by Actor, ws string) ([]Destination, error)

	// Retry queues failed deliveries again and returns how many.
	Retry(ctx context.Context, by Actor, ws string, f Filter) (int, error)
	// Release sends what is held and waits for a person, and returns how many.
	Release(ctx context.Context, by Actor, ws string, f Filter) (int, error)
	// Drop skips what is held and waits for a person, and returns how many.
	Drop(ctx context.Context, by Actor, ws string, f Filter) (int, error)
	// SkipRemoved skips what waits for a destination that is gone from the settings.
	SkipRemoved(ctx context.Context, by Actor, ws, destination string) (int, error)
	// TryNow lets a destination that pauses or is held try again at once.
	TryNow(ctx context.Context, by Actor, ws, destination string) error

	// Backup writes a consistent copy of the database into a new file; the path must
	// be absolute, for the server has another working folder than who asks.
	Backup(ctx context.Context, by Actor, file string) error
	// Doctor looks at every destination; ws "" is all workspaces.
	Doctor(ctx context.Context, by Actor, ws string, o DoctorOptions) (*Report, error)
	// CreateAPIKey makes a key, which is shown this once.
	CreateAPIKey(ctx context.Context, by Actor, ws, name string) (*NewKey, error)

	// Sources lists where leads come in, with their addresses for who may have
	// secrets; ws "" is all workspaces.
	Sources(ctx context.Context, by Actor, ws string) ([]Source, error)
	// RotateMasterKey replaces the master key.
	RotateMasterKey(ctx context.Context, by Actor) (*Rotation, error)
}

// Filter says which deliveries an action is about; zero values mean all.
type Filter struct {
	Destination string `json:"destination,omitempty"` // the dataset's id
	Event       string `json:"event,omitempty"`       // the event's id, as an answer gave it
	Reason      string `json:"reason,omitempty"`      // a reason's code
}

// Code is the kind of an Error; the faces turn it into a status or an exit code.
type Code string

// The codes.
const (
	NotFound    Code = "not_found"
	Invalid     Code = "invalid"
	Refused     Code = "not_allowed"
	Conflict    Code = "conflict"
	Unavailable Code = "unavailable"
	Gone        Code = "gone"
	NoKey       Code = "unauthorized"
)

// Error is what a person can mend.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"` // what is wrong
	Fix     string `json:"fix"`     // what would be right
}

// Error says what is wrong and what would be right.
func (e *Error) Error() string {
	if e.Fix == "" {
		return e.Message
	}
	return e.Message + " " + e.Fix
}

// Status returns the HTTP status for the error.
func (e *Error) Status() int {
	switch e.Code {
	case NotFound:
		return http.StatusNotFound
	case NoKey:
		return http.StatusUnauthorized
	case Refused:
		return http.StatusForbidden
	case Conflict:
		return http.StatusConflict
	case Gone:
		return http.StatusGone
	case Unavailable:
		return http.StatusServiceUnavailable
	default:
		return http.StatusBadRequest
	}
}

// allow refuses an actor whose right is too small.
func allow(by Actor, need Right, what string) error {
	if by.Right >= need {
		return nil
	}
	return &Error{
		Code: Refused, Message: "You may not " + what + ": it needs the right to " + need.String() + ".",
		Fix: "Ask an owner of this installation.",
	}
}
