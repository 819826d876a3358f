package capitest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// ErrCut is the error of a request whose connection the stand-in broke.
var ErrCut = errors.New("capitest: connection reset by peer")

// Transport serves requests by calling the handler in this process, without a
// port. A handler that aborts, as the faults reset and cut do, becomes ErrCut; one
// that hangs is left when the request's context ends. The answer is complete
// before RoundTrip returns, so it does not suit endless streams.
func Transport(h http.Handler) http.RoundTripper { return transport{h} }

type transport struct{ handler http.Handler }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	in := r.Clone(r.Context())
	in.RequestURI = r.URL.RequestURI()
	in.Host = orElse(r.Host, r.URL.Host)
	in.RemoteAddr = "127.0.0.1:0"
	in.Proto, in.ProtoMajor, in.ProtoMinor = "HTTP/1.1", 1, 1
	if in.Body == nil {
		in.Body = http.NoBody
	} else if r.Body != http.NoBody {
		// Read at once: the handler may outlive this call, the caller's body may not.
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, fmt.Errorf("read request body: %w", err)
		}
		in.Body, in.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	}
	w := &answer{header: http.Header{}}
	done := make(chan error, 1)
	go func() {
		defer func() {
			p := recover()
			err, _ := p.(error)
			switch {
			case p == nil:
				done <- nil
			case errors.Is(err, http.ErrAbortHandler):
				done <- ErrCut
			default:
				done <- fmt.Errorf("capitest: handler panicked: %v", p)
			}
		}()
		t.handler.ServeHTTP(w, in)
	}()
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case err := <-done:
		if err != nil {
			return nil, err
		}
	}
	return w.response(r), nil
}

// answer collects what a handler writes.
type answer struct {
	header http.Header
	sent   http.Header // as it was when the status was written
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status, a.sent = status, a.header.Clone()
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

func (a *answer) response(r *http.Request) *http.Response {
	a.WriteHeader(http.StatusOK)
	return &http.Response{
		Status: fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)), StatusCode: a.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.sent, Body: io.NopCloser(&a.body), ContentLength: int64(a.body.Len()), Request: r,
	}
}
