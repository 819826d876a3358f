package capi

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// These tests hold the line between "surely not delivered" and "maybe counted".

func TestRefusedConnectionIsUnsent(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	c, err := NewClient(Config{BaseURL: "http://" + l.Addr().String(), Token: testToken})
	require.NoError(t, err)
	e := sendFails(t, c)
	require.Equal(t, ClassUnsent, e.Class)
	require.ErrorIs(t, e, syscall.ECONNREFUSED)
	require.Zero(t, e.HTTPStatus)
	require.Contains(t, e.Error(), "Meta was not reached")
}

func TestUnknownHostIsUnsent(t *testing.T) {
	t.Parallel()
	c, err := NewClient(Config{Token: testToken, HTTPClient: &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.DNSError{Err: "no such host", Name: "graph.facebook.com", IsNotFound: true}
		},
	}}})
	require.NoError(t, err)
	e := sendFails(t, c)
	require.Equal(t, ClassUnsent, e.Class)
	require.Contains(t, e.Error(), "could not be looked up")
	requireNoSecret(t, shown(t, e))
}

func TestUntrustedCertificateIsUnsent(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request was sent") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it tells of the broken handshake
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	c, err := NewClient(Config{BaseURL: s.URL, Token: testToken})
	require.NoError(t, err)
	require.Equal(t, ClassUnsent, sendFails(t, c).Class)
}

func TestTimeoutBeforeTheConnectionIsUnsent(t *testing.T) {
	t.Parallel()
	// A listener that never speaks TLS: the handshake does not end.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	c, err := NewClient(Config{BaseURL: "https://" + l.Addr().String(), Token: testToken, Timeout: 50 * time.Millisecond})
	require.NoError(t, err)
	e := sendFails(t, c)
	require.Equal(t, ClassUnsent, e.Class)
	require.True(t, e.Timeout())
}

func TestCutAfterTheRequestIsAmbiguous(t *testing.T) {
	t.Parallel()
	s := graphServer(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	})
	e := sendFails(t, clientFor(t, s))
	require.Equal(t, ClassAmbiguous, e.Class)
	require.Contains(t, e.Error(), "same event_id")
}

func TestCutAfterTheRequestIsAmbiguousInHTTP2(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.ProtoMajor != 2 {
			t.Error("not HTTP/2")
		}
		panic(http.ErrAbortHandler)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	require.Equal(t, ClassAmbiguous, sendFails(t, clientFor(t, s)).Class)
}

func TestTimeoutAfterTheRequestIsAmbiguous(t *testing.T) { // C194
	t.Parallel()
	release := make(chan struct{})
	s := graphServer(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-release
	})
	t.Cleanup(func() { close(release) })
	c, err := NewClient(Config{BaseURL: s.URL, Token: testToken, Timeout: 500 * time.Millisecond})
	require.NoError(t, err)
	e := sendFails(t, c)
	require.Equal(t, ClassAmbiguous, e.Class)
	require.True(t, e.Timeout())
	require.Contains(t, e.Error(), "no answer within 500ms")
}

func TestAnswerCutOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		want   Class
	}{
		"accepted perhaps":    {200, ClassAmbiguous},
		"an outage":           {502, ClassRetry},
		"refused, unreadable": {400, ClassUnclear},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := graphServer(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, `{"events_received":1`)
			})
			require.Equal(t, c.want, sendFails(t, clientFor(t, s)).Class)
		})
	}
}

func TestEndlessAnswerIsAmbiguous(t *testing.T) {
	t.Parallel()
	s := graphServer(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"messages":["`+strings.Repeat("x", maxAnswer)+`"]}`)
	})
	require.Equal(t, ClassAmbiguous, sendFails(t, clientFor(t, s)).Class)
}

// brokenConn fails in the middle of the request.
type brokenConn struct {
	net.Conn
	left int
}

func (c *brokenConn) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		return 0, syscall.EPIPE
	}
	return c.Conn.Write(p)
}

func TestCutWithinTheRequestIsUnsent(t *testing.T) {
	t.Parallel()
	s := graphServer(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	c, err := NewClient(Config{BaseURL: s.URL, Token: testToken, HTTPClient: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return &brokenConn{conn, 8 << 10}, err
		},
	}}})
	require.NoError(t, err)
	large := Batch{Events: oneEvent.Events}
	large.TestEventCode = strings.Repeat("x", 64<<10)
	_, err = c.Send(t.Context(), "1", large)
	var e *APIError
	require.ErrorAs(t, err, &e)
	require.Equal(t, ClassUnsent, e.Class)
}

func TestWrittenIsCareful(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		w    *written
		want bool
	}{
		"no connection":                       {&written{attempts: 1}, true},
		"connected, no word of the writing":   {&written{attempts: 1, got: true}, false},
		"written":                             {&written{attempts: 1, got: true, whole: true}, false},
		"writing failed":                      {&written{attempts: 1, got: true, failed: true}, true},
		"an earlier writing failed, now open": {&written{attempts: 2, got: true, failed: true}, false},
		"second attempt finds no connection":  {&written{attempts: 2}, true},
	} {
		require.Equal(t, c.want, c.w.unsent(true), name)
	}
	require.True(t, new(written).unsent(true))
	require.False(t, new(written).unsent(false))
}

// silent is a transport that calls no hooks, as one within the process does.
type silent func(*http.Request) (*http.Response, error)

func (f silent) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTransportWithoutHooksIsAmbiguous(t *testing.T) {
	t.Parallel()
	left := 0
	c, err := NewClient(Config{Token: testToken, HTTPClient: &http.Client{Transport: silent(func(*http.Request) (*http.Response, error) {
		left++
		return nil, io.ErrUnexpectedEOF
	})}})
	require.NoError(t, err)
	require.Equal(t, ClassAmbiguous, sendFails(t, c).Class)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Send(ctx, "1", oneEvent)
	var e *APIError
	require.ErrorAs(t, err, &e)
	require.Equal(t, ClassUnsent, e.Class)
	require.Equal(t, 1, left)
}
