package pipedrive

import (
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

// Classify is what reads Pipedrive's faults.
var Classify = classify

// Read gives a body to all that read lists.
func Read(a crm.Account, l *ledger.Lead, key string, body []byte) {
	c := &call{a: a, l: l, key: key, p: New()}
	c.carrier(body)
	c.taken(crm.Reply{Status: 200, Body: body}, nil)
	_, _ = c.pick(crm.Reply{Status: 200, Body: body})
}

// WithoutPause returns one that does not wait between the readings of Moves.
func WithoutPause() *Pipedrive {
	p := New()
	p.pause = 0
	return p
}
