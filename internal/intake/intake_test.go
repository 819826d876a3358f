package intake_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/intake"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/store"
)

// broken is a recorder that cannot write.
type broken struct {
	err   error
	fault any
}

func (b broken) Record(context.Context, record.Request) (*record.Outcome, error) {
	if b.fault != nil {
		panic(b.fault)
	}
	return nil, b.err
}

func TestTroubleBehindTheDoorIsSaidAndLeaksNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		recorder   broken
		status     int
		code       string
		retryAfter string
	}{
		{"busy", broken{err: store.ErrBusy}, 503, "busy", "1"},
		{"closed", broken{err: store.ErrClosed}, 503, "shutting_down", "1"},
		{"database", broken{err: errors.New("disk SECRETPATH is full")}, 503, "storage_unavailable", "1"},
		{"panic", broken{fault: "jane@example.com"}, 500, "internal", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := open(t, func(x *intake.Config) { x.Recorder = c.recorder })
			a := d.post(t, lead("a"))
			require.Equal(t, c.status, a.Code)
			require.Equal(t, c.code, a.at("error", "code"))
			require.Equal(t, c.retryAfter, a.Header().Get("Retry-After"))
			require.NotContains(t, a.Body.String(), "SECRETPATH")
			require.NotContains(t, d.log.String(), "jane@example.com")

			a = d.graph(t, `{"data":[`+lead("a")+`]}`)
			requireGraphError(t, a, c.status, 2, 0)
			require.Equal(t, true, a.at("error", "is_transient"))
		})
	}
}

func TestClosedStore(t *testing.T) {
	t.Parallel()
	d := open(t)
	require.NoError(t, d.store.Close())
	require.Equal(t, http.StatusServiceUnavailable, d.post(t, lead("a")).Code)
}

func TestKeysAreAskedForAndNotGuessed(t *testing.T) {
	t.Parallel()
	d := open(t)
	from := func(addr, key string) answer {
		r := httptest.NewRequest(http.MethodPost, "/v1/events", strings.NewReader(lead("a")))
		r.RemoteAddr = addr + ":1234"
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		a := answer{ResponseRecorder: httptest.NewRecorder()}
		d.ServeHTTP(a, r)
		return a
	}
	a := from("192.0.2.7", "")
	require.Equal(t, http.StatusUnauthorized, a.Code)
	require.Contains(t, a.Header().Get("WWW-Authenticate"), "Bearer")
	require.Contains(t, a.Body.String(), "no_api_key")

	require.Equal(t, http.StatusAccepted, from("192.0.2.7", keyOne).Code)
	limited := 0
	for range 100 {
		a := from("192.0.2.7", "guess")
		if a.Code == http.StatusTooManyRequests {
			limited++
			require.Equal(t, "1", a.Header().Get("Retry-After"))
			continue
		}
		require.Equal(t, http.StatusUnauthorized, a.Code)
	}
	require.Greater(t, limited, 50)
	require.Equal(t, http.StatusAccepted, from("192.0.2.7", keyOne).Code, "who had the key before goes on")
	require.Equal(t, http.StatusTooManyRequests, from("192.0.2.7", keyTwo).Code, "a guess that hits is no better off")
	require.Equal(t, http.StatusAccepted, from("192.0.2.8", keyTwo).Code, "others are not concerned")
	require.Equal(t, 1, strings.Count(d.log.String(), "too many wrong API keys"), "it is told once")
	require.NotContains(t, d.log.String(), "guess\"")
}

func TestTheLimitKeepsItsMemory(t *testing.T) {
	t.Parallel()
	d := open(t, func(x *intake.Config) { x.TrustedProxies = prefixes("192.0.2.0/24") })
	addr := netip.MustParseAddr("198.51.0.0")
	for range 6000 {
		addr = addr.Next()
		r := httptest.NewRequest(http.MethodPost, "/v1/events", nil)
		r.Header.Set("Authorization", "Bearer guess")
		r.Header.Set("X-Forwarded-For", addr.String())
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		require.Equal(t, http.StatusUnauthorized, w.Code)
	}
	require.LessOrEqual(t, d.Remembered(), 4096)
}

func TestForwardedForIsBelievedFromProxiesOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, remote, forwarded string
		trusted                 []netip.Prefix
		want                    string
	}{
		{"C114: nobody is trusted", "198.51.100.9", "203.0.113.7", nil, "198.51.100.9"},
		{"the peer is no proxy", "198.51.100.9", "203.0.113.7", prefixes("10.0.0.0/8"), "198.51.100.9"},
		{"the proxy's word", "10.0.0.1", "203.0.113.7", prefixes("10.0.0.0/8"), "203.0.113.7"},
		{"what the caller put in front is not believed", "10.0.0.1", "1.2.3.4, 203.0.113.7", prefixes("10.0.0.0/8"), "203.0.113.7"},
		{"two proxies", "10.0.0.1", "203.0.113.7, 10.9.9.9", prefixes("10.0.0.0/8"), "203.0.113.7"},
		{"C109: the public one follows", "192.168.0.1", "10.1.2.3, 203.0.113.7", prefixes("192.168.0.0/16"), "203.0.113.7"},
		{"C110: IPv4 in IPv6", "[::ffff:203.0.113.7]", "", nil, "203.0.113.7"},
		{"IPv6 proxy", "[fd00::1]", "2001:db8::7", prefixes("fd00::/8"), "2001:db8::7"},
		{"no word", "10.0.0.1", "", prefixes("10.0.0.0/8"), "10.0.0.1"},
		{"nonsense", "10.0.0.1", "unknown, <x>", prefixes("10.0.0.0/8"), "10.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := open(t, func(x *intake.Config) { x.TrustedProxies = c.trusted })
			r := httptest.NewRequest(http.MethodPost, "/v1/events", nil)
			r.RemoteAddr = c.remote + ":1234"
			if c.forwarded != "" {
				r.Header.Set("X-Forwarded-For", c.forwarded)
			}
			d.ServeHTTP(httptest.NewRecorder(), r)
			require.Contains(t, d.log.String(), "caller="+c.want)
		})
	}
}

func TestBadHeadersDoNoHarm(t *testing.T) {
	t.Parallel()
	d := open(t)
	a := d.post(t, lead("a"), "Referer", "http://[bad", "X-Forwarded-For", "\x01", "User-Agent", "SECRETAGENT")
	require.Equal(t, http.StatusAccepted, a.Code, "case C105")
	require.NotContains(t, string(d.views(t)[0].Deliveries[0].Payload), "SECRETAGENT")
}

func TestNothingPersonalIsLogged(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.post(t, lead("id-77"))
	d.post(t, strings.ReplaceAll(lead("id-77"), "website", "nowhere"))
	d.post(t, lead("id-77")+"x")
	d.graph(t, `{"data":[`+lead("id-78")+`]}`)
	d.graph(t, `{"data":[{}]}`)
	d.do(t, http.MethodPost, "/v26.0/"+datasetOne+"/events?access_token=SECRET-TOKEN&appsecret_proof=PROOF", strings.NewReader("{}"))
	d.do(t, http.MethodGet, "/v1/SECRET-PATH?email=jane@example.com", nil)
	log := d.log.String()
	require.Contains(t, log, "workspace=one source=shop accepted=1")
	for _, secret := range []string{"jane", "Mozilla", "id-77", "id-78", keyOne, "SECRET", "PROOF", "example.com", "access_token"} {
		require.NotContains(t, log, secret)
	}
}

func TestMetricsCountRequestsAndEvents(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.post(t, `[`+lead("a")+`,`+lead("a")+`,{}]`)
	d.graph(t, `{"data":[`+lead("b")+`]}`)
	d.do(t, http.MethodGet, "/x", nil)
	families, err := d.metrics.Gather()
	require.NoError(t, err)
	counted := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := []string{f.GetName()}
			for _, l := range m.GetLabel() {
				name = append(name, l.GetName()+"="+l.GetValue())
			}
			counted[strings.Join(name, " ")] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	require.Equal(t, map[string]float64{
		"capiloop_intake_events_total result=accepted":                                2,
		"capiloop_intake_events_total result=duplicate":                               1,
		"capiloop_intake_events_total result=rejected":                                1,
		"capiloop_intake_requests_total route=/v1/events status=202":                  1,
		"capiloop_intake_requests_total route=/{version}/{dataset}/events status=200": 1,
		"capiloop_intake_requests_total route=none status=404":                        1,
		"capiloop_intake_seconds route=/v1/events":                                    1,
		"capiloop_intake_seconds route=/{version}/{dataset}/events":                   1,
		"capiloop_intake_seconds route=none":                                          1,
	}, counted)
}

func TestOwnsTellsOurRoutesFromOthers(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/v1/events": true, "/v26.0/1/events": true, "/v26.0/debug_token": true, "/123/events": true, "/sandbox/events": true, "/capi/1/events": true,
		"/": false, "/v1/events/01h": false, "/v1/leads": true, "/v1/consent": true, "/v1/stages": true, "/v1/stages/01h": false, "/v1/leads/01h": false, "/webhooks/k": true, "/webhooks/": false, "/leads/events": false, "/v1/leads/events": false, "/capi/1/2/events": false,
		"/v1": false, "": false, "/vx.y/1/events": false, "/capi//events": false, "//events": false,
	} {
		require.Equal(t, want, intake.Owns(path), path)
	}
}
