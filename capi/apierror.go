package capi

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// APIError is a request that did not succeed, and what that means. Its texts
// never contain the access token, the app secret or the proof made of them, even
// where the other side repeats them.
type APIError struct {
	Class Class // what to do with the events; the field to branch on

	// As Graph gave them; zero where no Graph error came back. Page "Graph API:
	// handling errors". UserTitle and UserMessage are in the language of the account.
	Code        int
	Subcode     int
	HTTPStatus  int // 0 when no answer came
	Type        string
	Message     string
	UserTitle   string
	UserMessage string
	FBTraceID   string   // Meta's support asks for it, and forgets it soon
	Transient   bool     // is_transient
	BlameFields []string // paths of the fields that Meta objects to

	// Wait is how long Meta asks to pause (throttled answers only), 0 if it does not say.
	Wait  time.Duration
	Usage Usage
	// Body is the beginning of an answer that is not a Graph error, at most 512 bytes.
	Body string

	cause *cause
}

// cause keeps the error of the transport out of reach of %+v: a url.Error prints
// the whole address.
type cause struct{ err error }

// Class says what an answer means for the events that were sent. Deliverers need
// nothing else: the table of codes behind it is Catalogue.
type Class string

// The classes.
const (
	// ClassRetry is trouble on Meta's side or on the way that passes by itself: the
	// same request again, later.
	ClassRetry Class = "retry"
	// ClassThrottled asks to wait: Wait says how long, if Meta said it.
	ClassThrottled Class = "throttled"
	// ClassAccess concerns the token, the permission or the dataset, not the events:
	// they keep, and go once someone has repaired it.
	ClassAccess Class = "access"
	// ClassPayload condemns an event of the batch for good; Meta does not say which.
	ClassPayload Class = "payload"
	// ClassUnclear is a refusal that may be due to an event or to the access: try the
	// events apart before condemning one.
	ClassUnclear Class = "unclear"
	// ClassUnsent means that Meta surely did not get the request.
	ClassUnsent Class = "unsent"
	// ClassAmbiguous means that the request was written and no answer came back: Meta
	// may have counted the events. Again with the same event_id only.
	ClassAmbiguous Class = "ambiguous"
)

// Error says what went wrong, what to do next, and what Meta said.
func (e *APIError) Error() string {
	x := e.Explanation()
	var b strings.Builder
	b.WriteString(x.Title)
	switch {
	case e.Code != 0 && e.Subcode != 0:
		fmt.Fprintf(&b, " (code %d/%d)", e.Code, e.Subcode)
	case e.Code != 0:
		fmt.Fprintf(&b, " (code %d)", e.Code)
	case e.HTTPStatus != 0:
		fmt.Fprintf(&b, " (HTTP %d)", e.HTTPStatus)
	}
	b.WriteString(": ")
	b.WriteString(x.NextStep)
	said := e.Message
	if e.UserMessage != "" {
		said = e.UserMessage
	}
	switch {
	case said != "" && e.HTTPStatus == 0:
		fmt.Fprintf(&b, " [%s]", said)
	case said != "":
		fmt.Fprintf(&b, " [Meta: %s]", said)
	}
	if e.FBTraceID != "" {
		fmt.Fprintf(&b, " [fbtrace_id %s]", e.FBTraceID)
	}
	return b.String()
}

// Is lets errors.Is find the reason below, such as context.Canceled or
// syscall.ECONNREFUSED. There is no Unwrap: the errors of net/http print addresses.
func (e *APIError) Is(target error) bool { return e.cause != nil && errors.Is(e.cause.err, target) }

// Timeout tells whether the request took too long.
func (e *APIError) Timeout() bool {
	var t interface{ Timeout() bool }
	return e.cause != nil && errors.As(e.cause.err, &t) && t.Timeout()
}

// Explanation returns what a person should know about the error: the catalogue's
// entry for a Graph error, else a text about the way to Meta.
func (e *APIError) Explanation() Explanation {
	if e.Code == 0 && e.Subcode == 0 {
		return explainTransport(e)
	}
	x := Explain(e.Code, e.Subcode)
	if x.Class != e.Class { // Meta called it transient, or the status said more than an unknown code
		x.Class, x.Retried = e.Class, handlingOf(e.Class)
		x.NextStep = nextStepOf(e.Class)
	}
	return x
}
