package crm

import (
	"context"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// Reminder is a CRM that is people: it can ask them about leads that nobody has marked.
type Reminder interface {
	CRM
	// Remind sends one message about open leads: Accepted, RetryAt, Hold, Refusal or Lost.
	Remind(ctx context.Context, a Account, r Reminding) ledger.Outcome
}

// Reminding is what people are asked. It holds no contact: the lead's own message does.
type Reminding struct {
	Day   string // 2026-11-30; with the account it names the message
	Leads []OpenLead
	Total int // with those that the message has no room for
}

// OpenLead is a lead that nobody has marked.
type OpenLead struct {
	Lead       ledger.ID
	Form       string
	ReceivedAt time.Time
}
