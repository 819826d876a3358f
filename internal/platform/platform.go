// Package platform holds the ad platforms, one folder each, behind one small
// interface: encode an event, send a batch, check an account. A platform knows
// nothing of its neighbours, of the store or of who is asking; it never keeps
// anything and never tries again by itself.
package platform

import (
	"context"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

// Account is a destination with what it takes to send there.
type Account struct {
	Destination ledger.Destination
	Token       secret.Secret
	AppSecret   secret.Secret
	URL         string // base of the platform's API; "" is the platform's own
	Version     string // of the API; "" is the platform's default
}

// Same tells whether two accounts are reached in the same way.
func (a Account) Same(b Account) bool {
	return a.Destination.Name == b.Destination.Name && a.URL == b.URL && a.Version == b.Version &&
		a.Token.Equal(b.Token) && a.AppSecret.Equal(b.AppSecret)
}

// Rules is what a workspace says about its events.
type Rules struct {
	Locale capi.Locale
	Keys   capi.KeySet // personal keys that may leave; 0: all that the event has
	People bool        // Encoded.People is wanted: somebody has withdrawn consent
}

// Encoded is an event as a destination takes it.
type Encoded struct {
	Payload  []byte        // frozen from now on
	Came     capi.KeySet   // match keys that came with the event
	Kept     capi.KeySet   // match keys in the payload
	Person   []byte        // what recognises the person: the strongest key, hashed
	PersonBy capi.Key      // which key that is
	People   []string      // every value that may have withdrawn consent, hashed, and lead ids as lead/meta/123; also those that do not leave
	Problems capi.Problems // an error among them: the event cannot be sent
}

// Check is one line of a pre-flight.
type Check struct {
	Name     string // "token", "dataset", "clock"
	OK       bool
	Warning  bool // not OK, but nothing that stops sending
	Sentence string
	NextStep string // "" if OK
}

// Platform is an ad platform. Methods are safe for concurrent use.
type Platform interface {
	// Encode normalises, hashes and checks an event. It changes e.
	Encode(e *capi.Event, r Rules) Encoded
	// Limits returns how many rows and payload bytes one request takes.
	Limits() (rows, bytes int)
	// Send sends a batch and says what became of it. It never returns nil.
	Send(ctx context.Context, a Account, b *ledger.Batch) ledger.Outcome
	// Check looks at the account without sending anything.
	Check(ctx context.Context, a Account) []Check
}
