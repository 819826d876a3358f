package ledger

// Consent is what is known of a person's decision about an event.
type Consent int

// The decisions.
const (
	ConsentAbsent  Consent = iota // the caller says nothing
	ConsentGranted                // the person agreed
	ConsentDenied                 // the person refused, or took the consent back
)

// Allows tells whether an event may leave. Where the workspace does not demand
// consent, a caller who says nothing vouches for it.
func (c Consent) Allows(required bool) bool {
	return c == ConsentGranted || c == ConsentAbsent && !required
}

// Who told of a decision, beside the consent platforms that the tag names (gcm, tcf) and
// the site itself (site).
const (
	ByCaller = "caller" // of the API, with the event
	ByLead   = "lead"   // the form that the event's lead came by
	ByPlain  = "plain"  // nobody was asked; the tag has left out what identifies
	ByNone   = "none"   // nobody was asked; the site sends until somebody refuses
)

// Decision is what was known about consent when an event happened. It is kept with the
// event.
type Decision struct {
	Consent Consent
	By      string // who told of it; "" where nobody did
	GPC     bool   // the browser asks not to be sold or shared (Global Privacy Control)
}

// String writes the decision as it is kept and shown: granted:tcf, denied:gcm,
// granted:site+gpc, undecided:none; "" where nothing was said.
func (d Decision) String() string {
	if d == (Decision{}) || d == (Decision{By: ByCaller}) || d == (Decision{By: ByLead}) {
		return ""
	}
	text := [...]string{ConsentAbsent: "undecided", ConsentGranted: "granted", ConsentDenied: "denied"}[d.Consent]
	if d.By != "" {
		text += ":" + d.By
	}
	if d.GPC {
		text += "+gpc"
	}
	return text
}

// Wait is what a website's tag does before the visitor has decided.
type Wait string

// The ways to wait.
const (
	WaitHold  Wait = "hold"  // keeps events in the page's memory until there is a decision
	WaitDrop  Wait = "drop"  // forgets them
	WaitPlain Wait = "plain" // sends them without what identifies
	WaitSend  Wait = "send"  // sends them until somebody refuses
)

// Admits tells whether the server lets an event of the tag through: what the tag should
// not have sent is not sent on. required is the workspace's word that no event leaves
// without consent.
func (w Wait) Admits(d Decision, required bool) bool {
	switch d.Consent {
	case ConsentGranted:
		return true
	case ConsentDenied:
		return false
	case ConsentAbsent:
	}
	return !required && (w == WaitPlain && d.By == ByPlain || w == WaitSend && d.By == ByNone)
}
