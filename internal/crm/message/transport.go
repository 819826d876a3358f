package message

import (
	"bytes"
	"io"
	"net/http"

	"github.com/capiloop/capiloop/internal/crm"
)

// transport lets a channel call by the CRMs' caller, which keeps it out of private
// networks.
type transport struct {
	caller  *crm.Caller
	private bool
}

// RoundTrip makes the call.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	reply, err := t.caller.Do(r.Context(), crm.Request{
		Method: r.Method, URL: r.URL.String(), Body: body, Type: r.Header.Get("Content-Type"), Private: t.private,
	})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: reply.Status, Header: reply.Header, Body: io.NopCloser(bytes.NewReader(reply.Body)), Request: r,
		ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(reply.Body)),
	}, nil
}
