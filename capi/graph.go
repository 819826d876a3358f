package capi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
)

// maxAnswer bounds what is read of an answer; a page of leads is far below.
const maxAnswer = 1 << 20

var versionPattern = regexp.MustCompile(`^v[0-9]{1,3}\.[0-9]{1,2}$`)

// graph makes single requests to Graph and tells failures apart.
type graph struct {
	base    string // with the version, ends with a slash
	keys    *keys  // a pointer, so that %+v of an outer struct prints an address
	http    *http.Client
	timeout time.Duration
}

func newGraph(c Config) (*graph, error) {
	if c.BaseURL == "" {
		c.BaseURL = DefaultBaseURL
	}
	if c.Version == "" {
		c.Version = DefaultVersion
	}
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	base, err := url.Parse(c.BaseURL)
	if err != nil || (base.Scheme != "https" && base.Scheme != "http") || base.Host == "" || base.User != nil ||
		base.RawQuery != "" || base.Fragment != "" {
		return nil, errors.New("the base URL of Graph must look like " + DefaultBaseURL)
	}
	if !versionPattern.MatchString(c.Version) {
		return nil, errors.New("the version of Graph must look like " + DefaultVersion)
	}
	token := strings.TrimSpace(c.Token)
	for i := range len(token) {
		if token[i] <= ' ' || token[i] >= 0x7f {
			return nil, errors.New("the access token contains a character that no token has (a space, a line break): copy it again")
		}
	}
	return &graph{
		base:    strings.TrimRight(c.BaseURL, "/") + "/" + c.Version + "/",
		keys:    newKeys(token, strings.TrimSpace(c.AppSecret)),
		http:    withoutRedirects(c.HTTPClient),
		timeout: c.Timeout,
	}, nil
}

// withoutRedirects copies the client: the token must not follow to another host.
func withoutRedirects(c *http.Client) *http.Client {
	var own http.Client
	if c != nil {
		own = *c
	} else if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t = t.Clone()
		t.MaxIdleConnsPerHost = 16
		own.Transport = t
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

// call is one request.
type call struct {
	method  string
	path    string // behind the version
	query   url.Values
	body    []byte
	noToken bool
}

// reply is an answer, whatever its status.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// do makes the request. The error is an *APIError if no whole answer came or if
// the answer holds a Graph error or no JSON of Graph; Client and Reader judge the rest.
func (g *graph) do(ctx context.Context, c call) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	var w written
	if err := ctx.Err(); err != nil {
		return reply{}, g.lost(reply{}, err, true)
	}
	r, err := g.roundTrip(httptrace.WithClientTrace(ctx, w.trace()), c)
	if err != nil {
		return r, g.lost(r, err, w.unsent(g.tells()))
	}
	if fault := decodeFault(r); fault != nil {
		g.keys.clean(fault)
		return r, fault
	}
	return r, nil
}

func (g *graph) roundTrip(ctx context.Context, c call) (reply, error) {
	if g.keys.proof != "" && c.method == http.MethodGet && !c.noToken {
		if c.query == nil {
			c.query = url.Values{}
		}
		c.query.Set("appsecret_proof", g.keys.proof)
	}
	address := g.base + c.path
	if len(c.query) > 0 {
		address += "?" + c.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, c.method, address, bytes.NewReader(c.body))
	if err != nil {
		return reply{}, err
	}
	if len(c.body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "capiloop")
	if g.keys.token != "" && !c.noToken {
		req.Header.Set("Authorization", "Bearer "+g.keys.token)
	}
	resp, err := g.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	r := reply{status: resp.StatusCode, header: resp.Header}
	if r.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1)); err != nil {
		return r, err
	}
	if len(r.body) > maxAnswer {
		return r, fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	return r, nil
}

// tells is false for a transport of another kind, such as a handler in the same
// process: it need not call the hooks by which written follows a request.
func (g *graph) tells() bool {
	if g.http.Transport == nil {
		return true
	}
	_, ok := g.http.Transport.(*http.Transport)
	return ok
}

// lost makes the error for a request that got no whole answer.
func (g *graph) lost(r reply, err error, unsent bool) *APIError {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // the outer error prints the whole address
	}
	e := &APIError{Class: ClassAmbiguous, HTTPStatus: r.status, Message: err.Error(), cause: &cause{err}}
	switch {
	case r.status >= 300:
		// The status came, the rest was cut off: Meta has not taken the batch.
		e.Class = classifyStatus(r.status, false)
	case unsent:
		e.Class = ClassUnsent
	}
	_, isDNS := errors.AsType[*net.DNSError](err)
	switch {
	case errors.Is(err, context.Canceled):
		e.Message = "the request was cancelled here"
	case e.Timeout():
		e.Message = fmt.Sprintf("no answer within %s", g.timeout)
	case isDNS:
		e.Message = "the name of Meta's server could not be looked up"
	}
	g.keys.clean(e)
	return e
}

// written follows a request on its way out, to tell "surely not sent" from "maybe
// counted". The transport tries again by itself, on a new connection, only while
// nothing was written.
type written struct {
	mu       sync.Mutex
	attempts int
	got      bool // the attempt has a connection (with TLS done): bytes may flow
	failed   bool // the writing ended with an error, before the request's last byte
	whole    bool // the request was written
}

func (w *written) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.attempts++
			w.got = false
		},
		GotConn: func(httptrace.GotConnInfo) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.got = true
		},
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.failed = w.failed || info.Err != nil
			w.whole = w.whole || info.Err == nil
		},
	}
}

// unsent is true only where Meta cannot have the whole request. An attempt that
// had a connection and told nothing yet may still be writing: not unsent. A
// failed write counts only if there was one attempt, for it could be an earlier one's.
// Silence proves something only if the transport tells.
func (w *written) unsent(tells bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.attempts == 0 {
		return tells
	}
	if !w.got {
		return true
	}
	return w.attempts == 1 && w.failed && !w.whole
}
