// Package leadform reads leads from where people fill in forms: one folder per kind
// of source, each of which verifies its own requests over the raw bytes and knows
// the platform's shapes, and nothing of its neighbours.
//
// Takes a request or a notice and a source's settings, gives leads or notices and the
// answer to give back. It keeps nothing; only Fetch and Sweep call out, and only pull
// calls them.
package leadform

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

// Source is one configured lead source.
type Source struct {
	ID        int64
	Workspace int64
	Kind      string
	Name      string
	Country   string    // of the workspace, the default for phones
	CreatedAt time.Time // leads created before are history
	Options   secret.Options
	Address   string // by which its platform reaches it, for Check; "": not known. It is a secret
}

// Request is what came in on a source's address.
type Request struct {
	Method string
	URL    string // the full public address, as the sender called it
	Query  url.Values
	Header http.Header
	Body   []byte // raw, as signed
	Peer   netip.Addr
}

// Received is what a request brought. It is answered with Answer once Leads and
// Notices are on disk.
type Received struct {
	Leads   []ledger.Lead
	Notices []Notice
	Answer  Answer
	// Busy is the status for "we cannot store it now": some senders never try again
	// after a 503. 0 means 503.
	Busy int
}

// Answer is what the sender gets.
type Answer struct {
	Status      int
	ContentType string // "" is text/plain
	Body        []byte
	Location    string      // for a redirect
	Headers     http.Header // further ones: CORS; nil is none
}

// Notice is word of a lead, or of its withdrawal, that must be read or done later.
type Notice struct {
	Key     string // of the lead at its platform: a repeat is recognised by it
	Owner   string // who owns it there: a page id; "" means the source itself
	Deleted bool   // the person took it back: erase it
	Body    []byte // what Fetch needs, nothing personal
}

// Kind is one kind of lead source. Methods are safe for concurrent use.
type Kind interface {
	// Options lists the settings the kind knows.
	Options() []Option
	// Receive verifies and reads a request. A request that is not genuine gets an
	// Answer of 401 or 403 and nothing else; what the kind does not know gets 200.
	Receive(r Request, s Source, now time.Time) Received
}

// Fetcher is a kind whose webhook only tells that there is a lead.
type Fetcher interface {
	Kind
	// Fetch reads the lead of a notice. Its error may be a *FetchError.
	Fetch(ctx context.Context, s Source, n Notice) (ledger.Lead, error)
}

// Sweeper is a kind whose leads can be listed, so that none is missed.
type Sweeper interface {
	Kind
	// Sweep yields the leads created since a time, oldest first where the platform
	// allows. An error ends it.
	Sweep(ctx context.Context, s Source, since time.Time) iter.Seq2[ledger.Lead, error]
}

// Checker is a kind that can be looked over.
type Checker interface {
	Check(ctx context.Context, s Source) []Check
}

// Check is one line of a pre-flight; it reads like platform.Check.
type Check struct {
	Name     string
	OK       bool
	Warning  bool
	Sentence string
	NextStep string
}

// Option is one setting of a kind.
type Option struct {
	Name     string
	Type     OptionType
	Required bool
	Help     string // one line for the configuration page

	OneOf []string            // of a text: what it may be; nil: anything
	Keys  map[string][]string // of a map: its keys, each with what it may be; nil: any
	Needs string              // another setting that must stand beside it
	Key   bool                // a word in public that stands once among all sources
}

// OptionType is the form of a setting.
type OptionType int

// The forms of a setting.
const (
	Text OptionType = iota
	SecretText
	List
	Map
)

// FetchError tells what a failed Fetch or Sweep means.
type FetchError struct {
	Outcome ledger.Outcome // RetryAt, Hold, or Refusal: the lead is not there (any more)
	Err     error
}

// Error says what went wrong.
func (e *FetchError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *FetchError) Unwrap() error { return e.Err }

// ErrNoLead says that a platform has no lead of this id.
var ErrNoLead = errors.New("the platform has no lead of this id")
