package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// maxAnswer is how much of an answer is read.
const maxAnswer = 64 << 10

// reply is an answer over HTTP.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// page tells whether something else answered with a page for people.
func (r reply) page() bool {
	return strings.HasPrefix(r.header.Get("Content-Type"), "text/html")
}

// client never follows a redirect: it would carry the message to another address.
func client(t http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     t,
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// post sends JSON. Without an answer it returns the outcome: Lost where the request
// had left, RetryAt where it had not. No error text holds the address, of which a
// part is the credential.
func post(ctx context.Context, c *http.Client, address string, body []byte) (reply, ledger.Outcome) {
	var written atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { written.Store(true) },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return reply{}, ledger.Hold{Reason: ledger.TokenInvalid, Answer: ledger.Answer{Message: "the address of the channel is no URL"}}
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	res, err := c.Do(req)
	if err != nil {
		return reply{}, unanswered(err, written.Load())
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil && res.StatusCode < 300 {
		return reply{}, unanswered(err, true)
	}
	return reply{res.StatusCode, res.Header, text}, nil
}

// unanswered is the outcome of a request that nobody answered.
func unanswered(err error, written bool) ledger.Outcome {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	a := ledger.Answer{Message: line(err.Error(), 300)}
	if written {
		return ledger.Lost{Answer: a}
	}
	return ledger.RetryAt{Reason: ledger.Backlog, Answer: a}
}

// encode writes a body in which < and > can be read.
func encode(v map[string]any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // texts and truth values always encode
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// seconds turns a number of seconds into a wait of at most an hour.
func seconds(n int) time.Duration {
	return time.Duration(min(max(n, 0), 3600)) * time.Second
}
