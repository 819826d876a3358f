package web_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/web"
)

// marker is admin in the place of the real one: it says what the test wants and counts
// what was asked of it.
type marker struct {
	view  *admin.MarkView
	done  *admin.Marked
	err   error
	acts  []string
	looks int
}

func (m *marker) MarkView(context.Context, string) (*admin.MarkView, error) {
	m.looks++
	return m.view, m.err
}

func (m *marker) Mark(_ context.Context, token string, c ledger.Choice, amount string) (*admin.Marked, error) {
	m.acts = append(m.acts, token+" "+string(c)+" "+amount)
	return m.done, m.err
}

func (m *marker) UndoMark(_ context.Context, token, id string) (*admin.Marked, error) {
	m.acts = append(m.acts, token+" undo "+id)
	return m.done, m.err
}

var received = time.Date(2026, 10, 2, 14, 5, 0, 0, time.UTC)

func seen(marks ...admin.Mark) *admin.MarkView {
	return &admin.MarkView{Form: "Bath <b>", ReceivedAt: received, Currency: "EUR", Marks: marks}
}

func marks(t *testing.T, m *marker) http.Handler {
	t.Helper()
	h, err := web.NewMarks(web.MarksConfig{Actions: m, Address: func(r *http.Request) netip.Addr {
		return netip.MustParseAddrPort(r.RemoteAddr).Addr()
	}})
	require.NoError(t, err)
	return h
}

func ask(t *testing.T, h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	for name, want := range map[string]string{"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex, nofollow", "X-Frame-Options": "DENY"} {
		require.Equal(t, want, w.Header().Get(name))
	}
	require.Regexp(t, `\Adefault-src 'none'; style-src 'sha256-[A-Za-z0-9+/=]+'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'\z`, w.Header().Get("Content-Security-Policy"))
	require.NotContains(t, w.Body.String(), "«", "a sentence is missing")
	require.NotContains(t, w.Body.String(), "<script")
	require.NotContains(t, w.Body.String(), "ZgotmplZ")
	return w
}

func TestLookingAtALinkMarksNothing(t *testing.T) {
	t.Parallel()
	m := &marker{view: seen()}
	h := marks(t, m)
	for _, path := range []string{"/m/abc", "/m/abc?c=good", "/m/abc?c=sold&amount=5", "/m/abc?c=nonsense", "/m/abc?undo=1"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			w := ask(t, h, method, path, "c=good")
			require.Equal(t, http.StatusOK, w.Code)
		}
	}
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodOptions} {
		require.NotEqual(t, http.StatusOK, ask(t, h, method, "/m/abc", "c=good").Code)
	}
	require.Empty(t, m.acts)
	require.Equal(t, 10, m.looks)
	body := ask(t, h, http.MethodGet, "/m/abc?c=sold", "").Body.String()
	require.Contains(t, body, "Mark this lead as Sold?")
	require.Contains(t, body, "Lead of 2 Oct, 14:05, form Bath &lt;b&gt;")
	require.Equal(t, 4, strings.Count(body, `method="post"`), "the other choices are there as well")
	require.Less(t, strings.Index(body, `value="sold"`), strings.Index(body, `value="good"`))
	require.Contains(t, body, `<label for="amount">Sold for how much, in EUR? May stay empty.</label>`)
	m.view.Currency = ""
	require.NotContains(t, ask(t, h, http.MethodGet, "/m/abc?c=sold", "").Body.String(), "amount")
}

func TestAFormMarksAndUndoes(t *testing.T) {
	t.Parallel()
	sold := admin.Mark{ID: "0d1zk30000000", Choice: ledger.ChoiceSold, At: received.Add(time.Hour), Amount: "1240.5", Currency: "EUR", UndoUntil: received.Add(70 * time.Minute)}
	m := &marker{view: seen(), done: &admin.Marked{MarkView: seen(sold), Outcome: admin.MarkDone, Mark: sold}}
	h := marks(t, m)
	w := ask(t, h, http.MethodPost, "/m/abc?c=good", url.Values{"c": {"sold"}, "amount": {"1.240,50"}}.Encode())
	require.Equal(t, http.StatusOK, w.Code)
	body := w.Body.String()
	require.Contains(t, body, "<h1>Marked as Sold, 1,240.50 EUR</h1>")
	require.Contains(t, body, "You can undo it until 15:15.")
	require.Contains(t, body, `name="undo" value="0d1zk30000000"`)
	require.Contains(t, body, `href="?"`)

	m.done = &admin.Marked{MarkView: seen(), Outcome: admin.MarkUndone, Mark: sold}
	require.Contains(t, ask(t, h, http.MethodPost, "/m/abc", "undo=0d1zk30000000").Body.String(), "<h1>Undone</h1>")
	m.done.Outcome = admin.MarkTooLate
	body = ask(t, h, http.MethodPost, "/m/abc", "undo=0d1zk30000000").Body.String()
	require.Contains(t, body, "cannot be undone any more")
	require.NotContains(t, body, "<form")
	require.Equal(t, []string{"abc sold 1.240,50", "abc undo 0d1zk30000000", "abc undo 0d1zk30000000"}, m.acts)

	sold.UndoUntil = time.Time{}
	m.done = &admin.Marked{MarkView: seen(sold), Outcome: admin.MarkAlready, Mark: sold}
	body = ask(t, h, http.MethodPost, "/m/abc", "c=sold").Body.String()
	require.Contains(t, body, "Already marked as Sold")
	require.Contains(t, body, "Its ten minutes are over")
	require.NotContains(t, body, "<form")
	m.done = &admin.Marked{MarkView: seen(), Outcome: admin.MarkBadMoney, Mark: admin.Mark{Choice: ledger.ChoiceSold, Amount: `x"y`}}
	body = ask(t, h, http.MethodPost, "/m/abc", "c=sold&amount=x").Body.String()
	require.Contains(t, body, `value="x&#34;y" aria-describedby="wrong hint" aria-invalid="true"`)

	// The page of a lead that is marked says so, and offers the rest.
	m.view = seen(sold)
	body = ask(t, h, http.MethodGet, "/m/abc?c=sold", "").Body.String()
	require.Contains(t, body, "Already marked as Sold, 1,240.50 EUR.")
	require.NotContains(t, body, `value="sold"`)
	require.Equal(t, 3, strings.Count(body, `name="c"`))
}

func TestWhatCannotBeShownIsSaidPolitely(t *testing.T) {
	t.Parallel()
	m := &marker{}
	h := marks(t, m)
	for status, err := range map[int]error{
		http.StatusNotFound: &admin.Error{Code: admin.NotFound}, http.StatusGone: &admin.Error{Code: admin.Gone},
		http.StatusServiceUnavailable: errors.New("disk"),
	} {
		m.err = err
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			w := ask(t, h, method, "/m/abc", "c=good")
			require.Equal(t, status, w.Code)
			require.Contains(t, w.Body.String(), "<h1>")
		}
	}
	m.err = nil
	m.view = seen()
	require.Equal(t, http.StatusNotFound, ask(t, h, http.MethodGet, "/m/", "").Code)
	require.Equal(t, http.StatusNotFound, ask(t, h, http.MethodGet, "/m/a/b", "").Code)
	require.Equal(t, http.StatusNotFound, ask(t, h, http.MethodPost, "/m/abc", "c="+strings.Repeat("x", 9000)).Code)
	status := 0
	for range 100 {
		status = ask(t, h, http.MethodGet, "/m/abc", "").Code
	}
	require.Equal(t, http.StatusTooManyRequests, status)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/m/abc", nil)
	r.RemoteAddr = "198.51.100.9:1"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code, "another address is not slowed down")
}
