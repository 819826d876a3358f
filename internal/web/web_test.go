package web_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/admin/admintest"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
	"github.com/capiloop/capiloop/internal/web"
)

const host = "127.0.0.1:8080"

func pages(t *testing.T, a admin.Actions) *web.Handler {
	t.Helper()
	h, err := web.New(web.Config{
		Actions: a, Workspace: admintest.Shop, Hosts: []string{host, "localhost", "[::1]"}, Live: true,
		Links: web.Links{Sandbox: "http://127.0.0.1:8081/", API: "http://127.0.0.1:8080"},
	})
	require.NoError(t, err)
	t.Cleanup(h.Close)
	return h
}

func get(t *testing.T, h http.Handler, path string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.Host = host
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// page gets a page and checks what is true of all of them.
func page(t *testing.T, h http.Handler, path string, status int) string {
	t.Helper()
	w := get(t, h, path)
	body := w.Body.String()
	require.Equal(t, status, w.Code, "%s: %s", path, body)
	require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	require.Less(t, len(body), 60_000)
	require.NotContains(t, body, "«", "a message is missing")
	require.NotContains(t, body, "ZgotmplZ")
	require.NotContains(t, body, "no value")
	require.NotRegexp(t, `(?i)<[^>]* (on[a-z]+|style)=`, body, "the policy forbids inline script and style")
	require.Equal(t, 1, strings.Count(body, "<h1"))
	require.Contains(t, body, `<html lang="en">`)
	require.NotContains(t, body, admintest.Token)
	return body
}

func TestTheEmptyBook(t *testing.T) {
	t.Parallel()
	body := page(t, pages(t, admintest.New(t)), "/", http.StatusOK)
	require.Contains(t, body, "Nothing has come in yet.")
	require.Contains(t, body, "http://127.0.0.1:8080/v1/events")
	require.Contains(t, body, "0 unexplained")
}

func TestTheFullBook(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	all := w.Fill()
	body := page(t, pages(t, w), "/", http.StatusOK)
	require.Contains(t, body, "6 events came in: 1 is sent, 3 are held, 1 was rightly not sent and 1 failed.")
	for _, want := range []string{
		"0 unexplained", ledger.NoConsent.Sentence(), ledger.Refused.Sentence(), "Nothing reaches 1002", "A message for your client",
		"repeat of an event", "event rejected at the door", "Dataset 1001", "Held for your OK", "/events/" + all["sent"].ID.String(), "TRACE-HELD",
	} {
		require.Contains(t, body, want)
	}
	require.NotContains(t, body, "lead-of-the-neighbour")
	visible := regexp.MustCompile(`(?s)<details.*?</details>`).ReplaceAllString(body, "")
	require.NotContains(t, visible, "dataset_out_of_reach", "codes stand in details only")

	sum := int64(0)
	for _, m := range regexp.MustCompile(`<div class="tile [^>]*>.*?<dd>(\d+)</dd>`).FindAllStringSubmatch(body, -1) {
		var n int64
		_, err := fmt.Sscan(m[1], &n)
		require.NoError(t, err)
		sum += n
	}
	require.EqualValues(t, 6, sum, "the tiles add up to what was received")
}

func TestManyEventsMakeASmallPage(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	w.Fill()
	var list []*ledger.Event
	for i := range 1234 {
		list = append(list, w.Make(admintest.Shop, admintest.First, "CompleteRegistration", fmt.Sprintf("7f0e2a4c-5b1d-4c3e-9f3a-%012d", i)))
	}
	_, err := w.Store.Record(t.Context(), &store.Recording{Workspace: list[0].Workspace, Events: list})
	require.NoError(t, err)
	body := page(t, pages(t, w), "/", http.StatusOK)
	require.Contains(t, body, "1,240 events came in")
	require.Equal(t, 50, strings.Count(body, `<th scope="row"><a href="/events/`))
}

func TestAnEventsPage(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	all := w.Fill()
	h := pages(t, w)
	for name, wants := range map[string][]string{
		"sent":     {"Attempt 1", "Attempt 2", "Service temporarily unavailable", "TRACE-GOOD", "the number has no country code", "What left, byte for byte"},
		"failed":   {"The dataset refused it.", "Your purchase event does not include a currency.", "2804009"},
		"clock":    {ledger.ClockAhead.Sentence()[:20], "Held"},
		"held":     {"Unsupported post request", "Next try: 30 November 2026, 14:00:30 UTC.", "The dataset takes it until"},
		"skipped":  {"Not sent (rightly)", "Nothing is kept"},
		"doubtful": {"For 47 hours no answer came"},
	} {
		body := page(t, h, "/events/"+all[name].ID.String(), http.StatusOK)
		for _, want := range append(wants, "It came in from web.", all[name].EventID) {
			require.Contains(t, body, want, name)
		}
	}
	body := page(t, h, "/events/"+all["sent"].ID.String(), http.StatusOK)
	require.Contains(t, body, strings.ReplaceAll(string(all["sent"].Deliveries[0].Payload), `"`, "&#34;"))
}

func TestWhatIsNotThere(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	all := w.Fill()
	h := pages(t, w)
	for _, path := range []string{"/events/" + all["neighbour"].ID.String(), "/events/x", "/events/%3Cscript%3E", "/nothing", "/static/none", "/events/"} {
		body := page(t, h, path, http.StatusNotFound)
		require.NotContains(t, body, "neighbour")
	}
	require.Equal(t, http.StatusNotFound, get(t, h, "/live/"+all["neighbour"].ID.String()).Code)
}

func TestHostileTextsAreHarmless(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	attack := `"><script>alert(1)</script><img src=x onerror=alert(2)>'` + "\r\ndata: x\u202egnp.exe"
	e := w.Make(admintest.Shop, admintest.First, attack, attack, func(e *ledger.Event) {
		e.Source, e.ActionSource = attack, attack
		d := &e.Deliveries[0]
		d.Payload = []byte(`{"x":"` + "</code></pre><script>alert(3)</script>" + `"}`)
		d.Notes[0].Reason, d.Notes[0].Fix = attack, attack
	})
	w.Record(e)
	w.Settle(admintest.First, ledger.Waiting, ledger.Retrying, ledger.TokenInvalid, ledger.Answer{Status: 400, TraceID: attack, Message: attack})
	require.NoError(t, w.Store.Raise(t.Context(), ledger.Finding{Workspace: e.Workspace, Kind: ledger.FindingClock, Subject: attack, Evidence: attack, At: admintest.Now}))
	h := pages(t, w)
	for _, path := range []string{"/", "/events/" + e.ID.String()} {
		w := get(t, h, path)
		require.Equal(t, http.StatusOK, w.Code)
		require.NotContains(t, w.Body.String(), "<script>")
		require.NotContains(t, w.Body.String(), "<img")
		require.Contains(t, w.Body.String(), "&lt;script&gt;alert(1)")
		require.Contains(t, w.Body.String(), "<bdi>", "a name cannot turn its neighbours around")
	}
}

func TestHeadersOfEveryAnswer(t *testing.T) {
	t.Parallel()
	h := pages(t, admintest.New(t))
	for _, path := range []string{"/", "/events/x", "/static/page.css", "/nothing"} {
		head := get(t, h, path).Header()
		policy := head.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'"} {
			require.Contains(t, policy, want)
		}
		require.NotContains(t, policy, "unsafe")
		require.Equal(t, "DENY", head.Get("X-Frame-Options"))
		require.Equal(t, "nosniff", head.Get("X-Content-Type-Options"))
		require.Equal(t, "no-referrer", head.Get("Referrer-Policy"))
	}
}

func TestOnlyOurHosts(t *testing.T) {
	t.Parallel()
	h := pages(t, admintest.New(t))
	for name, want := range map[string]int{
		host: 200, "localhost:9999": 200, "LOCALHOST:1": 200, "localhost": 200, "[::1]:8080": 200, "[::1]": 200,
		"127.0.0.1": 421, "127.0.0.1:8081": 421, "attacker.example.com": 421, "attacker.example.com:8080": 421, "": 421, "localhost.example.com": 421, "[::2]:8080": 421,
	} {
		w := get(t, h, "/", func(r *http.Request) { r.Host = name })
		require.Equal(t, want, w.Code, name)
	}
}

func TestOnlyReading(t *testing.T) {
	t.Parallel()
	h := pages(t, admintest.New(t))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	r.Host = host
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusNotFound, w.Code)
}

func TestStaticFilesAreKept(t *testing.T) {
	t.Parallel()
	h := pages(t, admintest.New(t))
	body := page(t, h, "/", http.StatusOK)
	found := regexp.MustCompile(`/static/[a-z.]+\?v=[0-9a-f]+`).FindAllString(body, -1)
	require.Len(t, found, 3)
	for _, url := range found {
		w := get(t, h, url)
		require.Equal(t, http.StatusOK, w.Code)
		require.Contains(t, w.Header().Get("Cache-Control"), "immutable")
		require.NotEmpty(t, w.Header().Get("Content-Type"))
		require.NotContains(t, get(t, h, strings.Split(url, "?")[0]).Header().Get("Cache-Control"), "immutable")
	}
	require.Less(t, len(get(t, h, "/static/live.js").Body.String()), 2048)
	require.NotContains(t, get(t, h, "/static/page.css").Body.String(), "://", "nothing from elsewhere")
}

type broken struct{ admin.Actions }

func (broken) Ledger(context.Context, admin.Actor, string, admin.LedgerQuery) (*admin.Ledger, error) {
	return nil, errors.New("disk I/O error at /data/secret")
}

func TestAFaultHasAPage(t *testing.T) {
	t.Parallel()
	body := page(t, pages(t, broken{}), "/", http.StatusServiceUnavailable)
	require.NotContains(t, body, "disk")
}
