package capi

import "strings"

// Severity tells whether a problem stops an event.
type Severity int

const (
	// SeverityWarning marks a problem that the event survives: a value was left
	// out or changed, or Meta will make less of the event.
	SeverityWarning Severity = iota
	// SeverityError marks a problem for which Meta would refuse the event.
	SeverityError
)

// String returns "warning" or "error".
func (s Severity) String() string {
	if s == SeverityError {
		return "error"
	}
	return "warning"
}

// Problem is one thing wrong with an event. It never contains the value itself,
// only its shape, so that it may be logged and shown.
type Problem struct {
	Field    string // path with Meta's names: "user_data.em", "custom_data.value"
	Code     string // stable snake_case code, one of the Problem… constants
	Severity Severity
	Reason   string // what is wrong, one sentence
	Fix      string // what would be right, one sentence
}

// Error makes a Problem an error: "user_data.ph: the number has no country code".
func (p Problem) Error() string { return p.Field + ": " + p.Reason }

// Problems is what Normalise and Validate found, in the order of the fields.
type Problems []Problem

// Err returns the problems that stop the event as one error, nil if there are none.
func (ps Problems) Err() error {
	var errs Problems
	for _, p := range ps {
		if p.Severity == SeverityError {
			errs = append(errs, p)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return errs
}

// Error joins the problems' texts with "; ".
func (ps Problems) Error() string {
	texts := make([]string, len(ps))
	for i, p := range ps {
		texts[i] = p.Error()
	}
	return strings.Join(texts, "; ")
}
