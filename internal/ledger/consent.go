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
