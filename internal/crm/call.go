package crm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	callTimeout = 15 * time.Second
	maxAnswer   = 1 << 20
)

// Request is one call to a CRM.
type Request struct {
	Method string
	URL    string
	Header map[string]string // the credential among them; none of it is ever printed
	Body   []byte
	Type   string // content type of Body, "" for JSON
	// Private allows addresses of private networks and plain http. It is the account's option
	// allow_private; without it a URL can reach public addresses over https only.
	Private bool
}

// Reply is an answer, whatever its status.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// CallError says that no whole answer came. It holds no URL, no header and no body.
type CallError struct {
	Stage   Stage
	Message string
	became  Reply // of the token endpoint, for NoAccess
}

// Stage is how far a call came.
type Stage int

// The stages.
const (
	Unsent    Stage = iota // the CRM surely did not see it
	Cut                    // cut after it was written: it may have been done
	Forbidden              // not made: the address is one that may not be called
	NoAccess               // not made: the access token could not be renewed
)

func (e *CallError) Error() string { return e.Message }

// Caller makes calls. It follows no redirects, for a credential must not travel to
// another host; the one exception is the answer of a Google Apps Script.
type Caller struct {
	guarded, open *http.Client
	timeout       time.Duration
}

// NewCaller returns a caller with connections of its own. Each CRM has one.
func NewCaller() *Caller {
	return &Caller{guarded: newClient(true), open: newClient(false), timeout: callTimeout}
}

func newClient(guard bool) *http.Client {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true}
	if base, ok := http.DefaultTransport.(*http.Transport); ok {
		t = base.Clone()
		t.MaxIdleConnsPerHost = 8
	}
	if guard {
		d := &net.Dialer{Timeout: 10 * time.Second, Control: refusePrivate}
		t.DialContext = d.DialContext
		t.Proxy = nil // a proxy is dialled by the open client
	}
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Do makes the call. The error is a *CallError if no whole answer came.
func (c *Caller) Do(ctx context.Context, r Request) (Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	reply, err := c.once(ctx, r)
	if err != nil || reply.Status != http.StatusFound {
		return reply, err
	}
	next, ok := scriptAnswer(r.URL, reply.Header.Get("Location"))
	if !ok {
		return reply, nil
	}
	// The script has run; what is fetched now is only what it said.
	answer, err := c.once(ctx, Request{Method: http.MethodGet, URL: next})
	if e, ok := errors.AsType[*CallError](err); ok {
		e.Stage = Cut
	}
	return answer, err
}

// scriptAnswer tells whether a redirect is the one by which Google Apps Script answers
// a POST: from exactly this host to exactly that one.
func scriptAnswer(from, to string) (string, bool) {
	f, err := url.Parse(from)
	if err != nil || f.Scheme != "https" || f.Host != "script.google.com" {
		return "", false
	}
	t, err := url.Parse(to)
	if err != nil || t.Scheme != "https" || t.Host != "script.googleusercontent.com" || !strings.HasPrefix(t.Path, "/macros/echo") {
		return "", false
	}
	return to, true
}

func (c *Caller) once(ctx context.Context, r Request) (Reply, error) {
	if err := ctx.Err(); err != nil {
		return Reply{}, c.lost(Reply{}, err, true)
	}
	var w written
	req, err := newRequest(httptrace.WithClientTrace(ctx, w.trace()), r)
	if err != nil {
		return Reply{}, err
	}
	client, err := c.clientFor(req, r.Private)
	if err != nil {
		return Reply{}, err
	}
	reply, err := roundTrip(client, req)
	if err != nil {
		return reply, c.lost(reply, err, w.unsent())
	}
	return reply, nil
}

func newRequest(ctx context.Context, r Request) (*http.Request, error) {
	u, err := url.Parse(r.URL)
	switch {
	case err != nil || u.Host == "" || u.User != nil:
		return nil, &CallError{Stage: Forbidden, Message: "the address is no URL of the form https://host/path"}
	case u.Scheme != "https" && (u.Scheme != "http" || !r.Private):
		return nil, &CallError{Stage: Forbidden, Message: "the address must begin with https://; plain http goes only with allow_private: true"}
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, &CallError{Stage: Forbidden, Message: "the address is no URL of the form https://host/path"}
	}
	if len(r.Body) > 0 {
		req.Header.Set("Content-Type", "application/json")
		if r.Type != "" {
			req.Header.Set("Content-Type", r.Type)
		}
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "capiloop")
	for name, value := range r.Header {
		if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return nil, &CallError{Stage: Forbidden, Message: "a token or header in the settings contains a line break or another character that none has: copy it again"}
		}
		req.Header.Set(name, value)
	}
	return req, nil
}

// clientFor picks the guarded client. Behind a proxy the proxy dials, so there only an
// address written as a number can be looked at.
func (c *Caller) clientFor(req *http.Request, private bool) (*http.Client, error) {
	if private {
		return c.open, nil
	}
	proxy, err := http.ProxyFromEnvironment(req)
	if err != nil || proxy == nil {
		return c.guarded, nil //nolint:nilerr // a proxy setting that cannot be read is none
	}
	host := req.URL.Hostname()
	if a, err := netip.ParseAddr(host); err == nil && !public(a) || strings.EqualFold(host, "localhost") {
		return nil, &CallError{Stage: Forbidden, Message: errPrivate.Error()}
	}
	return c.open, nil
}

func roundTrip(client *http.Client, req *http.Request) (Reply, error) {
	resp, err := client.Do(req)
	if err != nil {
		return Reply{}, err
	}
	defer resp.Body.Close()
	r := Reply{Status: resp.StatusCode, Header: resp.Header}
	r.Body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return r, err
}

// lost makes the error for a call that got no whole answer. A status that came counts
// even if the rest was cut off, unless it may be the success whose words are needed.
func (c *Caller) lost(r Reply, err error, unsent bool) error {
	if r.Status >= 300 {
		return nil
	}
	e := &CallError{Stage: Cut}
	if unsent {
		e.Stage = Unsent
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // the outer error prints the whole address
	}
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(err, errPrivate):
		e.Stage, e.Message = Forbidden, errPrivate.Error()
	case errors.Is(err, context.Canceled):
		e.Message = "the call was cancelled here"
	case errors.As(err, &dns):
		e.Message = "the name of the server could not be looked up"
	case errors.As(err, &timeout) && timeout.Timeout():
		e.Message = fmt.Sprintf("no answer within %s", c.timeout)
	case e.Stage == Unsent:
		e.Message = "the server could not be reached: " + plainCause(err)
	default:
		e.Message = "the connection broke before the answer came"
	}
	return e
}

// plainCause says why without addresses: the innermost error has none.
func plainCause(err error) string {
	if sys, ok := errors.AsType[syscall.Errno](err); ok {
		return sys.Error()
	}
	if strings.Contains(err.Error(), "certificate") || strings.Contains(err.Error(), "tls") {
		return "its certificate was not accepted"
	}
	return "the connection failed"
}

// written follows a request on its way out, to tell "surely not sent" from "maybe done".
type written struct {
	mu       sync.Mutex
	attempts int
	got      bool // the last attempt has a connection: bytes may flow
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

// unsent is true only where the CRM cannot have the whole request.
func (w *written) unsent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.attempts == 0 || !w.got && !w.whole {
		return true
	}
	return w.attempts == 1 && w.failed && !w.whole
}

var errPrivate = errors.New("the address leads into a private network; allow_private: true lets it")

// refusePrivate looks at each address after the look-up of the name, so that a name
// cannot be turned to a private address between the check and the call.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil || !public(a.Addr()) {
		return errPrivate
	}
	return nil
}

// notPublic are the special ranges that netip does not name.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("fec0::/10"),
}

func public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return false
	}
	for _, p := range notPublic {
		if p.Contains(a) {
			return false
		}
	}
	return true
}
