package capitest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
)

// graphError is an error as Graph answers it.
type graphError struct {
	Status      int    // HTTP status
	Code        int    // error.code
	Subcode     int    // error.error_subcode; 0 leaves it out
	Type        string // error.type
	Message     string // error.message
	Transient   *bool  // error.is_transient; nil leaves it out
	Title       string // error.error_user_title
	UserMessage string // error.error_user_msg
	Regain      int    // minutes, for the usage headers of throttling codes
}

const (
	oauth       = "OAuthException"
	graphMethod = "GraphMethodException"
)

// known is one line of the catalogue. Page "Error handling" and "Marketing API
// error reference"; the 2804xxx texts as published by those who met them.
type known struct {
	status         int
	kind           string
	transient      int8 // 1 true, 0 false, -1 absent
	message        string
	title, userMsg string
}

type codes struct{ code, subcode int }

var catalogue = map[codes]known{
	{1, 0}:   {500, oauth, 1, "An unknown error has occurred.", "", ""},
	{1, 99}:  {500, oauth, 1, "An unknown error occurred", "", ""},
	{2, 0}:   {503, oauth, 1, "Service temporarily unavailable", "", ""},
	{3, 0}:   {400, oauth, 0, "(#3) Application does not have the capability to make this API call.", "", ""},
	{4, 0}:   {400, oauth, 1, "(#4) Application request limit reached", "", ""},
	{10, 0}:  {403, oauth, 0, "(#10) Application does not have permission for this action", "", ""},
	{17, 0}:  {400, oauth, 1, "(#17) User request limit reached", "", ""},
	{32, 0}:  {400, oauth, 1, "(#32) Page request limit reached", "", ""},
	{100, 0}: {400, oauth, 0, "(#100) Invalid parameter", "", ""},
	{100, 33}: {400, graphMethod, 0, "Unsupported post request. Object with ID '%s' does not exist, cannot be loaded due to missing permissions, " +
		"or does not support this operation. Please read the Graph API documentation at https://developers.facebook.com/docs/graph-api", "", ""},
	{102, 0}:   {401, oauth, 0, "Session key invalid or no longer valid", "", ""},
	{104, 0}:   {400, oauth, 0, "Invalid appsecret_proof provided in the API argument", "", ""},
	{190, 0}:   {401, oauth, -1, "Invalid OAuth access token - Cannot parse access token", "", ""},
	{190, 458}: {400, oauth, -1, "Error validating access token: The user has not authorized application 1000.", "", ""},
	{190, 459}: {400, oauth, -1, "Error validating access token: You cannot access the app till you log in to www.facebook.com and follow the instructions given.", "", ""},
	{190, 460}: {400, oauth, -1, "Error validating access token: The session has been invalidated because the user changed their password or Facebook has changed the session for security reasons.", "", ""},
	{190, 463}: {400, oauth, -1, "Error validating access token: Session has expired on Sunday, 01-Nov-26 08:00:00 PST. The current time is Monday, 30-Nov-26 08:00:00 PST.", "", ""},
	{190, 464}: {400, oauth, -1, "Error validating access token: Sessions for the user are not allowed because the user is not a confirmed user.", "", ""},
	{190, 467}: {400, oauth, -1, "Error validating access token: This may be because the user logged out or may be due to a system error.", "", ""},
	{190, 492}: {400, oauth, -1, "Error validating access token: Session does not match current stored session.", "", ""},
	{200, 0}:   {403, oauth, 0, "(#200) Permissions error", "", ""},
	{270, 0}:   {400, oauth, 0, "(#270) This Ads API request is not allowed for apps with development access level", "", ""},
	{294, 0}:   {403, oauth, 0, "(#294) Managing advertisements requires the extended permission ads_management and an application that is whitelisted to access the Marketing API", "", ""},
	{341, 0}:   {400, oauth, 1, "(#341) Application limit reached", "", ""},
	{368, 0}:   {400, oauth, 0, "The action attempted has been deemed abusive or is otherwise disallowed", "Temporarily blocked", "You have been temporarily blocked from performing this action."},
	{613, 0}:   {400, oauth, 1, "(#613) Calls to this api have exceeded the rate limit.", "", ""},
	{803, 0}:   {400, oauth, 0, "(#803) Some of the aliases you requested do not exist: %s", "", ""},
	{80000, 0}: {400, oauth, 1, "(#80000) There have been too many calls from this ad-account. Wait a bit and try again.", "", ""},
	{80003, 0}: {400, oauth, 1, "(#80003) There have been too many calls to this ad-account's custom audiences. Wait a bit and try again.", "", ""},
	{80004, 0}: {400, oauth, 1, "(#80004) There have been too many calls to this ad-account. Wait a bit and try again. " +
		"For more info, please refer to https://developers.facebook.com/docs/graph-api/overview/rate-limiting.", "", ""},
	{80014, 0}: {400, oauth, 1, "(#80014) There have been too many calls for the batch uploads to this catalog account. Wait a bit and try again.", "", ""},
	{21009, 0}: {400, oauth, 1, "(#21009) The data set is temporarily not ready for uploads.", "", ""},

	{100, 2804003}: {400, oauth, 0, "Invalid parameter", "Event Timestamp Too Old", "The timestamp for this event is too far in the past. " +
		"Events need to be sent from your server within 7 days of when they occurred. Enter a timestamp that has occurred within the last 7 days."},
	{100, 2804009}: {400, oauth, 0, "Invalid parameter", "Missing Value for Purchase Event", "Your purchase event does not include a value parameter. " +
		"Include a value in custom_data for purchase events."},
	{100, 2804016}: {400, oauth, 0, "Invalid parameter", "User Parameter Not Hashed", "Your parameter %s is not hashed. " +
		"You must hash all user parameters except client user agent, click ID and browser ID."},
	{100, 2804036}: {400, oauth, 0, "Invalid parameter", "Invalid lead ID", "One or more lead IDs are invalid or deleted. " +
		"A lead ID is a 15-16 digit number that Facebook made for the lead."},
	{100, 2804043}: {400, oauth, 0, "Invalid parameter", "Missing OS version", "The extinfo of an app event needs 16 values, a2 or i2 first and the version of the operating system fifth."},
	{100, 2804050}: {
		400, oauth, 0, "Invalid parameter", "You haven't added sufficient customer information parameter data for this event",
		"This event doesn't have any customer information parameters or has a combination of parameters that is too broad to match an event to a user.",
	},
	{100, 2804066}: {400, oauth, 0, "Invalid parameter", "Messaging Event Invalid Event Type", "The event type of a messaging event has to be one of those supported."},
	{100, 2804072}: {400, oauth, 0, "Invalid parameter", "Messaging Event Page Mismatch", "The page_id does not match the page of the ctwa_clid."},
	{100, 2804087}: {400, oauth, 0, "Invalid parameter", "Messaging Event Invalid Ctwa Clid", "The ctwa_clid is missing or invalid."},
}

// errorFor returns Graph's error of a code. Subcodes that no page describes get
// their code's text, unknown codes a plain one: Graph has more codes than pages.
// The details fill the text's place-holder.
func errorFor(code, subcode int, details ...string) *graphError {
	k, ok := catalogue[codes{code, subcode}]
	if !ok {
		k, ok = catalogue[codes{code, 0}]
		if code == 100 && subcode != 0 {
			k.message, k.title = "Invalid parameter", "Invalid parameter"
			k.userMsg = "The event was refused (" + strconv.Itoa(subcode) + ")."
		}
		if code == 190 {
			k.status, k.message = 400, "Error validating access token"
		}
	}
	switch {
	case ok:
	case code >= 200 && code <= 299:
		k = catalogue[codes{200, 0}]
	default:
		k = known{400, oauth, 0, fmt.Sprintf("(#%d) An error has occurred", code), "", ""}
	}
	fill := func(s string) string { return fillIn(s, details) }
	e := &graphError{Status: k.status, Code: code, Subcode: subcode, Type: k.kind, Message: fill(k.message), Title: k.title, UserMessage: fill(k.userMsg)}
	if k.transient >= 0 {
		t := k.transient == 1
		e.Transient = &t
	}
	return e
}

func fillIn(s string, details []string) string {
	for i := 0; i+1 < len(s); i++ {
		if s[i] != '%' || s[i+1] != 's' {
			continue
		}
		detail := "0"
		if len(details) > 0 {
			detail = details[0]
		}
		return s[:i] + detail + s[i+2:]
	}
	return s
}

// parameter returns a plain code 100 with a text of its own.
func parameter(message string) *graphError {
	e := errorFor(100, 0)
	e.Message = "(#100) " + message
	return e
}

// traceID makes an fbtrace_id: 23 characters, as Graph's.
func traceID() string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	b := [23]byte{'A'}
	for i := 1; i < len(b); {
		for r, n := rand.Uint64(), 0; n < 10 && i < len(b); n++ { //nolint:gosec // a name for a request, no secret
			b[i], r, i = letters[r&63], r>>6, i+1
		}
	}
	return string(b[:])
}

// write answers with the error. The shape is that of the page "Error handling".
func (e *graphError) write(w http.ResponseWriter) {
	type body struct {
		Message     string `json:"message"`
		Type        string `json:"type"`
		Code        int    `json:"code"`
		Subcode     int    `json:"error_subcode,omitempty"`
		Transient   *bool  `json:"is_transient,omitempty"`
		Title       string `json:"error_user_title,omitempty"`
		UserMessage string `json:"error_user_msg,omitempty"`
		Trace       string `json:"fbtrace_id"`
	}
	h := w.Header()
	e.usage(h)
	h.Set("WWW-Authenticate", fmt.Sprintf("OAuth \"Facebook Platform\" \"invalid_request\" %q", e.Message))
	writeJSON(w, e.Status, map[string]body{"error": {e.Message, e.Type, e.Code, e.Subcode, e.Transient, e.Title, e.UserMessage, traceID()}})
}

// usage sets the headers that tell how much of a limit is used. Page "Rate limiting".
func (e *graphError) usage(h http.Header) {
	regain := strconv.Itoa(e.Regain)
	switch e.Code {
	case 4, 17, 32, 341, 613:
		h.Set("X-App-Usage", `{"call_count":100,"total_cputime":25,"total_time":25}`)
		h.Set("X-Ad-Account-Usage", `{"acc_id_util_pct":100,"reset_time_duration":`+strconv.Itoa(e.Regain*60)+`,"ads_api_access_tier":"standard_access"}`)
	case 80000, 80003, 80004, 80014:
	default:
		return
	}
	h.Set("X-Business-Use-Case-Usage", `{"2000":[{"type":"ads_management","call_count":100,"total_cputime":25,"total_time":25,"estimated_time_to_regain_access":`+
		regain+`,"ads_api_access_tier":"standard_access"}]}`)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=UTF-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "private, no-cache, no-store, must-revalidate")
	b, err := json.Marshal(v)
	if err != nil { // only values of this package come here
		panic(err)
	}
	w.WriteHeader(status)
	_, _ = w.Write(b) // a client that is gone needs no answer
}
