package hubspot

// What reads HubSpot's answers, for the tests.
var (
	Classify = classify
	Conflict = conflict
)
