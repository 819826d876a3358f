package intake

import (
	"math/rand/v2"
	"net/http"
	"strconv"

	"github.com/capiloop/capiloop/capi"
)

// Types of Graph's errors.
const (
	oauthException       = "OAuthException"
	graphMethodException = "GraphMethodException"
)

// graphError is an error in Graph's shape, for callers that know only Graph.
type graphError struct {
	status        int
	code, subcode int
	kind          string
	message       string
	title, user   string // error_user_title, error_user_msg
	transient     bool
	allow         string
	retryAfter    int
}

func (e graphError) reply() reply {
	b := append(make([]byte, 0, 512), `{"error":{"message":`...)
	b = appendText(b, e.message)
	b = append(append(append(b, `,"type":"`...), e.kind...), `","code":`...)
	b = strconv.AppendInt(b, int64(e.code), 10)
	if e.subcode != 0 {
		b = strconv.AppendInt(append(b, `,"error_subcode":`...), int64(e.subcode), 10)
	}
	b = strconv.AppendBool(append(b, `,"is_transient":`...), e.transient)
	if e.title != "" {
		b = appendText(append(b, `,"error_user_title":`...), e.title)
		b = appendText(append(b, `,"error_user_msg":`...), e.user)
	}
	b = append(append(append(b, `,"fbtrace_id":"`...), traceID()...), `"}}`...)
	a := reply{status: e.status, body: b, allow: e.allow, retryAfter: e.retryAfter}
	if e.code == 190 {
		a.authenticate = `OAuth "Facebook Platform" "invalid_token" "` + e.message + `"`
	}
	return a
}

// graphOf says in Graph's words why a request was not taken; ours go where a person
// reads them.
func graphOf(w wrong) graphError {
	e := graphError{status: w.status, code: 100, kind: oauthException, message: "(#100) " + w.message, title: "Invalid parameter", user: w.message + "; " + w.fix}
	switch w.status {
	case http.StatusUnauthorized:
		e.code, e.message, e.title = 190, "Invalid OAuth access token - Cannot parse access token", "Unknown API key"
		e.user = "The access token is the API key of this server, not Meta's: " + w.fix
		if w.code == "no_api_key" {
			e.code, e.message, e.title = 104, "An access token is required to request this resource.", "No API key"
			e.user = "The access token is the API key of this server: send it as access_token"
		}
	case http.StatusTooManyRequests:
		e.code, e.message, e.title, e.transient, e.retryAfter = 4, "(#4) Application request limit reached", "Too many wrong API keys", true, 1
	case http.StatusServiceUnavailable, http.StatusInternalServerError:
		e.code, e.message, e.title, e.transient, e.retryAfter = 2, "Service temporarily unavailable", "Try again", true, 1
	case http.StatusMethodNotAllowed:
		e.message, e.allow, e.title = "(#100) Unsupported method", http.MethodPost, "Wrong method"
	}
	return e
}

// unknownObject is what Graph says of a dataset that does not exist or that the token
// may not use; it does not tell which.
func unknownObject(dataset string) graphError {
	return graphError{
		status: http.StatusBadRequest, code: 100, subcode: 33, kind: graphMethodException,
		message: "Unsupported post request. Object with ID '" + shortKey(dataset) + "' does not exist, cannot be loaded due to missing permissions, " +
			"or does not support this operation. Please read the Graph API documentation at https://developers.facebook.com/docs/graph-api",
		title: "Unknown dataset", user: "The workspace of this API key has no dataset of this id; add it to the settings, or correct the id.",
	}
}

// unknownPath answers what crash reporters of Meta's SDKs ask for besides.
func unknownPath() reply {
	return graphError{
		status: http.StatusNotFound, code: 2500, kind: oauthException, message: "Unknown path components",
		title: "No such route", user: "This server takes events only: POST /{version}/{dataset}/events",
	}.reply()
}

// subcodes says by which number and title Meta refuses what a problem is about.
var subcodes = map[string]struct {
	subcode int
	title   string
}{
	capi.ProblemTooOld:          {2804003, "Event Timestamp Too Old"},
	capi.ProblemNoPurchaseValue: {2804009, "Missing Value for Purchase Event"},
	capi.ProblemUnhashed:        {2804016, "User Parameter Not Hashed"},
	capi.ProblemInvalidLeadID:   {2804036, "Invalid lead ID"},
	capi.ProblemNoExtInfo:       {2804043, "Missing OS version"},
	capi.ProblemNoMatchKey:      {2804050, "You haven't added sufficient customer information parameter data for this event"},
	capi.ProblemWeakMatchKeys:   {2804050, "You haven't added sufficient customer information parameter data for this event"},
	capi.ProblemMessagingName:   {2804066, "Messaging Event Invalid Event Type"},
	capi.ProblemNoCTWAClid:      {2804087, "Messaging Event Invalid Ctwa Clid"},
}

// graphProblem refuses a whole request for the event at index.
func graphProblem(index int, p capi.Problem) graphError {
	where := "data[" + strconv.Itoa(index) + "]." + p.Field
	e := graphError{
		status: http.StatusBadRequest, code: 100, kind: oauthException,
		message: "(#100) " + where + ": " + p.Reason, title: "Invalid parameter", user: where + ": " + p.Reason + "; " + p.Fix,
	}
	if s, ok := subcodes[p.Code]; ok {
		e.subcode, e.title, e.message = s.subcode, s.title, "Invalid parameter"
	}
	return e
}

// traceID makes an fbtrace_id: 23 characters, as Graph's.
func traceID() string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	b := [23]byte{'A'}
	for i := 1; i < len(b); {
		for bits, n := rand.Uint64(), 0; n < 10 && i < len(b); n++ { //nolint:gosec // a label, no secret
			b[i], bits, i = alphabet[bits&63], bits>>6, i+1
		}
	}
	return string(b[:])
}
