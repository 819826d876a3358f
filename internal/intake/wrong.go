package intake

import "net/http"

// wrong is a request that was not taken: what is wrong, and what would be right.
// Its texts never hold what was sent.
type wrong struct {
	status  int
	code    string
	message string
	fix     string
	field   string // "" where it is not one field
}

func (e wrong) reply() reply {
	b := append(make([]byte, 0, 256), `{"error":{"code":`...)
	b = appendText(b, e.code)
	b = append(b, `,"message":`...)
	b = appendText(b, e.message)
	b = append(b, `,"fix":`...)
	b = appendText(b, e.fix)
	if e.field != "" {
		b = append(b, `,"field":`...)
		b = appendText(b, e.field)
	}
	a := reply{status: e.status, body: append(b, "}}\n"...)}
	switch e.status {
	case http.StatusUnauthorized:
		a.authenticate = `Bearer realm="capiloop"`
	case http.StatusMethodNotAllowed:
		a.allow = http.MethodPost
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		a.retryAfter = 1
	}
	return a
}

func wrongMethod() wrong {
	return wrong{http.StatusMethodNotAllowed, "method_not_allowed", "this route takes POST only", "send it with POST", ""}
}

func wrongKey(missing bool) wrong {
	if missing {
		return wrong{http.StatusUnauthorized, "no_api_key", "the request carries no API key", "send the header Authorization: Bearer and the key", ""}
	}
	return wrong{http.StatusUnauthorized, "unknown_api_key", "no workspace has this API key", "copy a key from the settings; it may have been revoked", ""}
}

func wrongTooOften() wrong {
	return wrong{
		http.StatusTooManyRequests, "too_many_wrong_keys", "too many requests with a wrong API key came from this address",
		"mend the key, then try again in a few seconds", "",
	}
}

func wrongBusy() wrong {
	return wrong{
		http.StatusServiceUnavailable, "busy", "more is waiting to be written than memory should hold; nothing of this request was taken",
		"send it again in a second", "",
	}
}

func wrongDown() wrong {
	return wrong{
		http.StatusServiceUnavailable, "storage_unavailable", "the request could not be written to disk; nothing of this request was taken",
		"send it again in a second", "",
	}
}

func wrongClosing() wrong {
	return wrong{http.StatusServiceUnavailable, "shutting_down", "the server is shutting down; nothing of this request was taken", "send it again in a second", ""}
}
