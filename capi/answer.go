package capi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// decodeFault returns the error that an answer holds, nil if it is an object of
// JSON without one. The texts are not scrubbed yet.
func decodeFault(r reply) *APIError {
	o, isObject := parseFields(r.body)
	raw := o["error"]
	hasError := len(raw) > 0 && !isNull(raw)
	if isObject && !hasError && r.status >= 200 && r.status < 300 {
		return nil
	}
	e := &APIError{HTTPStatus: r.status, Usage: parseUsage(r.header)}
	graphError := false
	if hasError {
		graphError = e.read(raw)
	}
	html := !isObject && looksLikeHTML(r)
	if !graphError {
		e.Body = string(r.body)
	}
	if e.FBTraceID == "" {
		e.FBTraceID = r.header.Get("X-Fb-Trace-Id")
	}
	e.Class = classify(e, graphError, html)
	if e.Class == ClassThrottled {
		e.Wait = max(e.Usage.RegainAccess, retryAfter(r.header))
	}
	return e
}

// read takes Graph's error object over and tells whether it was one. Every field
// may be missing or of another type: numbers as texts, error_data as a string,
// an object or a list. Page "Graph API: handling errors".
func (e *APIError) read(raw json.RawMessage) bool {
	o, isObject := parseFields(raw)
	if !isObject {
		if text, ok := scalar(raw); ok {
			e.Message = text
		}
		return false
	}
	e.Code = o.integer("code")
	e.Subcode = o.integer("error_subcode")
	e.Type = o.text("type")
	e.Message = o.text("message")
	e.UserTitle = o.text("error_user_title")
	e.UserMessage = o.text("error_user_msg")
	e.FBTraceID = o.text("fbtrace_id")
	e.Transient = o.flag("is_transient")
	e.BlameFields = blameFields(o["error_data"])
	return true
}

// blameFields finds blame_field_specs in error_data: a list of paths, or of lists
// of path elements, inside an object that may itself be wrapped in a string.
func blameFields(raw json.RawMessage) []string {
	if len(raw) > 0 && raw[0] == '"' {
		raw = json.RawMessage(unquote(raw))
	}
	o, ok := parseFields(raw)
	if !ok {
		return nil
	}
	var specs []json.RawMessage
	if json.Unmarshal(o["blame_field_specs"], &specs) != nil {
		return nil
	}
	var paths []string
	for _, s := range specs {
		var parts []json.RawMessage
		if json.Unmarshal(s, &parts) != nil {
			parts = []json.RawMessage{s}
		}
		names := make([]string, 0, len(parts))
		for _, p := range parts {
			names = append(names, fields{"p": p}.text("p"))
		}
		if path := strings.Join(names, "."); path != "" && len(paths) < 32 {
			paths = append(paths, path)
		}
	}
	return paths
}

// decodeSent reads the answer to a batch, of which decodeFault has found that it is
// an object without an error.
func decodeSent(r reply) Result {
	o, _ := parseFields(r.body)
	result := Result{
		EventsReceived: o.integer("events_received"),
		FBTraceID:      o.text("fbtrace_id"),
		Usage:          parseUsage(r.header),
		Date:           dateOf(r.header),
	}
	var messages []json.RawMessage
	if json.Unmarshal(o["messages"], &messages) == nil {
		for _, m := range messages {
			result.Messages = append(result.Messages, fields{"m": m}.text("m"))
		}
	}
	return result
}

// looksLikeHTML looks at the body before the header: proxies get the type wrong.
func looksLikeHTML(r reply) bool {
	body := bytes.TrimLeft(r.body, " \t\r\n\ufeff")
	return bytes.HasPrefix(body, []byte("<")) ||
		len(body) > 0 && strings.HasPrefix(r.header.Get("Content-Type"), "text/html")
}

// retryAfter reads a header that Meta does not document; a proxy may send it.
func retryAfter(h http.Header) time.Duration {
	n, _ := usageNumber(h.Get("Retry-After"))
	return waitOf(n)
}

func dateOf(h http.Header) time.Time {
	t, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return t
}
