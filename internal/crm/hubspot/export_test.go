package hubspot

// What reads HubSpot's answers, for the tests.
var (
	Classify = classify
	Conflict = conflict
)

// WithoutPause returns one that does not wait between the readings of Moves.
func WithoutPause() *HubSpot {
	h := New()
	h.pause = 0
	return h
}
