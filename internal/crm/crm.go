// Package crm hands leads to CRMs and hears from them what became of each: one
// folder per CRM, both directions in it. A CRM knows nothing of its neighbours or of
// the store; it keeps nothing and never tries again by itself.
package crm

import (
	"context"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

// Account is one configured CRM.
type Account struct {
	ID        int64 // of the destination
	Workspace int64
	Kind      string
	Name      string
	Country   string // of the workspace, the default for phones
	Currency  string
	Options   secret.Options
	// Marks says that people are to mark leads by links in the message, for the kinds that
	// are messages; MarkURL makes a lead's link, nil where nobody could reach it.
	Marks   bool
	MarkURL func(lead ledger.ID) string
	// SaveOption keeps a setting that the CRM has renewed, such as an OAuth refresh
	// token that turns with each use; nil where nothing can be kept.
	SaveOption func(ctx context.Context, name string, value secret.Secret) error
}

// Delivered is what became of a lead.
type Delivered struct {
	// Outcome is Accepted, RetryAt, Hold, Refusal or Lost; never Split.
	Outcome ledger.Outcome
	// Records are the CRM's ids of what holds the lead now, the most specific first:
	// "deal:9001", "contact:51".
	Records []string
	// Sent is the body of the request that created or updated the lead, to be kept
	// sealed; nothing of it may be logged.
	Sent []byte
}

// Call is a request as --dry-run shows it.
type Call struct {
	Method, URL string
	Body        []byte
}

// CRM is one kind of CRM. Methods are safe for concurrent use.
type CRM interface {
	// Options lists the settings the kind knows.
	Options() []Option
	// Deliver creates or updates the lead, so that doing it twice leaves one record.
	// known are the record ids of an earlier delivery of the same lead, if any.
	Deliver(ctx context.Context, a Account, l *ledger.Lead, known []string) Delivered
	// Preview returns the requests that Deliver would make for a lead that the CRM does
	// not know, without making them.
	Preview(a Account, l *ledger.Lead) []Call
	// Check looks the account over without changing anything, unless repair is set:
	// then it creates the custom field for the lead id where the CRM lets it.
	Check(ctx context.Context, a Account, repair bool) []Check
	// Pace returns how many calls may run at once and how many a second.
	Pace(a Account) (parallel int, perSecond float64)
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
