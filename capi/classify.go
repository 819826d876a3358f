package capi

import "net/http"

// classify decides by code and subcode; the HTTP status counts only where no
// known code came, for Graph answers the same fault with 400, 401, 412 or 500.
func classify(e *APIError, graphError, html bool) Class {
	if !graphError {
		return classifyStatus(e.HTTPStatus, html)
	}
	class, known := classOfCode(e.Code, e.Subcode)
	switch {
	case class == ClassThrottled:
		return class
	case e.Transient:
		return ClassRetry
	case known:
		return class
	case e.Code == 100 && e.Type == "GraphMethodException":
		// Like 100/33: it is about the object in the address, not about the events.
		return ClassAccess
	case e.Code == 0:
		return classifyStatus(e.HTTPStatus, false)
	case e.HTTPStatus == http.StatusTooManyRequests:
		return ClassThrottled
	}
	return ClassUnclear
}

// classOfCode returns the class of a code; known is false where neither the
// catalogue nor a family of codes has it.
func classOfCode(code, subcode int) (class Class, known bool) {
	if x, ok := lookUp(code, subcode); ok {
		return x.Class, x.Class != ClassUnclear
	}
	return ClassUnclear, false
}

// classifyStatus judges an answer without a Graph error. HTML is an error page of
// Meta's edge or of a proxy, whatever its status: nobody has read the events.
func classifyStatus(status int, html bool) Class {
	switch {
	case status == http.StatusTooManyRequests:
		return ClassThrottled
	case status == http.StatusRequestEntityTooLarge:
		return ClassUnclear // too large for something on the way: halves may pass
	case status >= 500, status == http.StatusRequestTimeout, html:
		return ClassRetry
	case status >= 300 && status < 400:
		return ClassRetry // redirects are not followed: the token would go along
	case status >= 200 && status < 300:
		return ClassAmbiguous // accepted perhaps, but the answer is unreadable
	}
	return ClassUnclear
}
