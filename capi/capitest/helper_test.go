package capitest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

const (
	dataset = "1234567890"
	hash    = "62a14e44f765419d10fea99367361a727c12365e2520f32218d505ed9aa0f62f"
	now     = 1796000000 // 29 November 2026
)

// clock is a clock that tests move.
type clock struct{ seconds atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(now+c.seconds.Load(), 0) }
func (c *clock) advance(d time.Duration) { c.seconds.Add(int64(d / time.Second)) }

func newGraph(change ...func(*capitest.Options)) (*capitest.Graph, *clock) {
	c := &clock{}
	o := capitest.Options{Now: c.now}
	for _, f := range change {
		f(&o)
	}
	return capitest.New(o), c
}

// answer is what Graph said.
type answer struct {
	Status int `json:"-"`
	Header http.Header
	Body   string `json:"-"`
	Events *int   `json:"events_received"`
	Error  struct {
		Message   string `json:"message"`
		Type      string `json:"type"`
		Code      int    `json:"code"`
		Subcode   int    `json:"error_subcode"`
		Transient *bool  `json:"is_transient"`
		Title     string `json:"error_user_title"`
		User      string `json:"error_user_msg"`
		Trace     string `json:"fbtrace_id"`
	} `json:"error"`
}

func (a answer) code() string { return fmt.Sprintf("%d/%d", a.Error.Code, a.Error.Subcode) }

func call(tb testing.TB, g http.Handler, method, target, body string, headers ...string) answer {
	tb.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer token")
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	raw, err := io.ReadAll(w.Body)
	require.NoError(tb, err)
	a := answer{}
	_ = json.Unmarshal(raw, &a) // a body that is not JSON is looked at as it is
	a.Status, a.Header, a.Body = w.Code, w.Header(), string(raw)
	return a
}

// post sends events that are written as JSON, with @ for the clock's time.
func post(tb testing.TB, g http.Handler, events ...string) answer {
	tb.Helper()
	data := strings.ReplaceAll(strings.Join(events, ","), "@", strconv.Itoa(now))
	return call(tb, g, "POST", "/v26.0/"+dataset+"/events", `{"data":[`+data+`]}`)
}

// website is an event that breaks no rule.
func website(name, id string) string {
	return `{"event_name":"` + name + `","event_id":"` + id + `","event_time":@,"action_source":"website","event_source_url":"https://example.com/",` +
		`"user_data":{"em":"` + hash + `","client_user_agent":"Mozilla"},"custom_data":{"value":1,"currency":"USD"}}`
}
