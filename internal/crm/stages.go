package crm

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// Incoming is what came in on a connection's own address.
type Incoming struct {
	Method string
	URL    string // the full public address, as the sender called it
	Query  url.Values
	Header http.Header
	Body   []byte // raw, as signed
}

// Answer is what the sender gets.
type Answer struct {
	Status      int
	ContentType string // "" is text/plain
	Body        []byte
}

// Received is what a request brought. It is answered with Answer once all of it is on
// disk.
type Received struct {
	Changes []ledger.StageChange
	Merges  []ledger.Merge
	Answer  Answer
	// Busy is the status for "we cannot store it now": some senders never try again
	// after a 503. 0 means 503.
	Busy int
}

// StageReader is a CRM that tells of stage changes by itself.
type StageReader interface {
	CRM
	// Receive verifies and reads a request. One that is not genuine gets an Answer of
	// 401 or 403 and nothing else; what the kind does not know gets 200.
	Receive(r Incoming, a Account, now time.Time) Received
}

// StageCompleter is a CRM whose hooks are thin.
type StageCompleter interface {
	StageReader
	// Complete reads what a thin change leaves out: whose it is, the amount, the fields
	// that rules ask for. The stage and its moment stay the hook's. Its error may be a
	// *ReadError.
	Complete(ctx context.Context, a Account, c *ledger.StageChange) error
}

// StageLister is a CRM whose stages can be listed.
type StageLister interface {
	CRM
	// Stages returns the stages of every pipeline, in the CRM's order.
	Stages(ctx context.Context, a Account) ([]ledger.Stage, error)
}

// StagePoller is a CRM whose records can be listed by their last change, for the
// baseline at connection and for accounts without hooks.
type StagePoller interface {
	CRM
	// Moves yields the stage in which each record changed since stands, with what
	// Complete would read, oldest change first where the CRM allows. Where the CRM
	// keeps a history, the moves in between come too. An error ends it.
	Moves(ctx context.Context, a Account, since time.Time) iter.Seq2[ledger.StageChange, error]
}

// Standing is a StagePoller whose hooks tell of a field's value without telling whether it
// is new. Until the baseline is read, such a value may be history, and waits.
type Standing interface {
	StagePoller
	// TellsStanding says whether that is so of a field; "" is the stage.
	TellsStanding(field string) bool
}

// ReadError tells what a failed Complete, Stages or Moves means.
type ReadError struct {
	Outcome ledger.Outcome // RetryAt, Hold, or Refusal: the record is not there (any more)
	Err     error
}

// Error says what went wrong.
func (e *ReadError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ReadError) Unwrap() error { return e.Err }
