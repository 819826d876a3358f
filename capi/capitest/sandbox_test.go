package capitest_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

func TestSandboxEvents(t *testing.T) {
	t.Parallel()
	g, _ := newGraph()
	for i := range 25 {
		require.Equal(t, 200, post(t, g, website("Lead", strconv.Itoa(i))).Status)
	}
	require.Equal(t, 200, post(t, g, website("Lead", "3"), website("Purchase", "3")).Status)
	type page struct {
		Events []capitest.Received
		Next   uint64
	}
	var all []capitest.Received
	since := uint64(0)
	for {
		var p page
		get(t, g, fmt.Sprintf("/_sandbox/events?dataset=%s&limit=10&since=%d", dataset, since), &p)
		all = append(all, p.Events...)
		if since = p.Next; since == 0 {
			break
		}
	}
	require.Len(t, all, 27)
	for i, r := range all {
		require.EqualValues(t, i+1, r.Seq)
		require.NotEmpty(t, r.Payload)
	}
	var p page
	get(t, g, "/_sandbox/events?dataset=none", &p)
	require.Empty(t, p.Events)
	get(t, g, "/_sandbox/events?event_id=3&payload=0", &p)
	require.Len(t, p.Events, 3)
	require.Empty(t, p.Events[0].Payload)
	get(t, g, "/_sandbox/events?outcome=dropped", &p)
	require.Len(t, p.Events, 1)
	require.EqualValues(t, 4, p.Events[0].DuplicateOf)
	get(t, g, "/_sandbox/events?test_event_code=TEST1", &p)
	require.Empty(t, p.Events)
	require.Equal(t, 400, get(t, g, "/_sandbox/events?since=x", nil).Status)
	var twice struct{ Twice []capitest.Repeat }
	get(t, g, "/_sandbox/twice", &twice)
	require.Equal(t, []capitest.Repeat{{Dataset: dataset, EventName: "Lead", EventID: "3", Times: 2}}, twice.Twice)

	var s capitest.Summary
	get(t, g, "/_sandbox/summary", &s)
	require.Equal(t, "Lead", s.Datasets[0].Names[0].EventName)
	require.EqualValues(t, 26, s.Datasets[0].Names[0].Received)
	require.EqualValues(t, 1, s.Datasets[0].Dropped)
	require.EqualValues(t, 26, s.Requests.Count)
	require.Equal(t, 26, s.Distinct)
}

func TestSandboxFaults(t *testing.T) {
	t.Parallel()
	g, _ := newGraph()
	require.Equal(t, 201, call(t, g, "POST", "/_sandbox/fault", `{"code":190,"subcode":463,"count":2,"dataset":"`+dataset+`"}`).Status)
	require.Equal(t, 201, call(t, g, "POST", "/_sandbox/fault", `{"mode":"html"}`, "Content-Type", "application/x-www-form-urlencoded").Status, "curl -d")
	a := call(t, g, "POST", "/_sandbox/fault", "code=4&count=1", "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin")
	require.Equal(t, 303, a.Status)
	require.Len(t, g.Faults(), 3)
	require.Contains(t, get(t, g, "/_sandbox/fault", nil).Body, `"left":-1`)
	require.Equal(t, "190/463", post(t, g, website("Lead", "1")).code())
	require.Equal(t, 400, call(t, g, "POST", "/_sandbox/fault", `{"mode":"explode"}`).Status)
	require.Equal(t, 400, call(t, g, "POST", "/_sandbox/fault", `{`).Status)
	require.Equal(t, 403, call(t, g, "POST", "/_sandbox/fault", `{}`, "Sec-Fetch-Site", "cross-site").Status, "another website")
	require.Equal(t, 204, call(t, g, "DELETE", "/_sandbox/fault", "").Status)
	require.Empty(t, g.Faults())
	require.Equal(t, 204, call(t, g, "POST", "/_sandbox/reset", "").Status)
	require.Equal(t, 404, call(t, g, "GET", "/_sandbox/nothing", "").Status)
}

func TestHostileValuesStayText(t *testing.T) {
	t.Parallel()
	g, _ := newGraph()
	evil := `</script><img src=x onerror=alert(1)>`
	require.Equal(t, 200, post(t, g, website(evil, evil)).Status)
	page := get(t, g, "/", nil)
	require.Equal(t, 200, page.Status)
	require.NotContains(t, page.Body, "onerror")
	require.Contains(t, page.Header.Get("Content-Security-Policy"), "default-src 'none'")
	require.NotContains(t, page.Header.Get("Content-Security-Policy"), "unsafe")
	require.NotContains(t, page.Body, "http://", "no outside assets")
	script := get(t, g, "/_sandbox/page.js", nil).Body
	for _, dangerous := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("} {
		require.NotContains(t, script, dangerous)
	}
	events := get(t, g, "/_sandbox/events", nil)
	require.NotContains(t, events.Body, "<img")
	require.Equal(t, "nosniff", events.Header.Get("X-Content-Type-Options"))
	require.True(t, strings.HasPrefix(events.Header.Get("Content-Type"), "application/json"))
}

func TestStream(t *testing.T) {
	t.Parallel()
	g, _ := newGraph()
	s := httptest.NewServer(g)
	defer s.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/_sandbox/stream", nil)
	require.NoError(t, err)
	res, err := s.Client().Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	lines := bufio.NewScanner(res.Body)
	type message struct {
		Reset           bool
		Events, Changed []capitest.Received
		Total           int
	}
	next := func() (m message) {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				require.NoError(t, json.Unmarshal([]byte(data), &m))
				return m
			}
		}
		require.Fail(t, "the stream ended", lines.Err())
		return m
	}
	require.True(t, next().Reset)
	require.Equal(t, 200, post(t, g, website("Lead", "1")).Status)
	m := next()
	require.Equal(t, 1, m.Total)
	require.Equal(t, "1", m.Events[0].EventID)
	g.Pixel(capitest.PixelEvent{Dataset: dataset, EventName: "Lead", EventID: "1"})
	m = next()
	require.Equal(t, capitest.Kept, m.Events[0].Outcome)
	require.Equal(t, capitest.Dropped, m.Changed[0].Outcome)
}

func TestPixelOverHTTP(t *testing.T) {
	t.Parallel()
	g, _ := newGraph()
	a := call(t, g, "GET", "/tr?id="+dataset+"&ev=Lead&eid=1&dl=https%3A%2F%2Fexample.com&fbp=fb.1.1.1&ud%5Bexternal_id%5D=x", "")
	require.Equal(t, "image/gif", a.Header.Get("Content-Type"))
	require.Equal(t, 200, post(t, g, website("Lead", "1")).Status)
	r := g.Received()
	require.True(t, r[0].Browser)
	require.Equal(t, capitest.Dropped, r[1].Outcome)
}

func TestManySendersAtOnce(t *testing.T) {
	t.Parallel()
	g, _ := newGraph()
	var senders sync.WaitGroup
	for s := range 8 {
		senders.Go(func() {
			for i := range 50 {
				a := post(t, g, website("Lead", fmt.Sprint(s, "-", i)), website("Lead", fmt.Sprint("shared-", i)))
				if a.Status != 200 {
					t.Error(a.Body)
				}
				_, _ = g.Requests(), g.Summary()
				g.AddLead(capitest.Lead{})
				get(t, g, "/_sandbox/events?limit=5", nil)
			}
		})
	}
	senders.Wait()
	require.Len(t, g.Received(), 800)
	require.Len(t, g.Kept(dataset), 450)
	require.Equal(t, 8, g.Times(dataset, "Lead", "shared-7"))
	require.Equal(t, 450, g.Distinct())
	require.Len(t, g.Twice(), 50)
}

func TestCountOnly(t *testing.T) {
	t.Parallel()
	g, _ := newGraph(func(o *capitest.Options) { o.CountOnly = true })
	require.Equal(t, 2, *post(t, g, website("Lead", "1"), website("Lead", "1")).Events)
	require.Empty(t, g.Received())
	require.EqualValues(t, 2, g.Requests().Events)
}

func FuzzEvents(f *testing.F) {
	for _, c := range readCaptured(f) {
		f.Add(c.ContentType, c.Body)
	}
	f.Add("application/json", `{"data":["{\"event_name\":\"\\u00e9\"}",[],{"user_data":{"em":[[]]}}]}`)
	f.Add("application/json", `{"data":"[{}]"}`)
	f.Fuzz(func(t *testing.T, contentType, body string) {
		g, _ := newGraph()
		a := call(t, g, "POST", "/v26.0/1/events", body, "Content-Type", contentType)
		switch a.Status {
		case 200:
			require.NotNil(t, a.Events)
			require.Len(t, g.Received(), *a.Events)
			require.Equal(t, 200, get(t, g, "/_sandbox/events", nil).Status)
		case 400, 401:
			require.NotZero(t, a.Error.Code)
			require.Empty(t, g.Received())
		default:
			t.Fatal(a.Status, a.Body)
		}
	})
}

func BenchmarkEvents(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			g, _ := newGraph()
			user := `"em":"` + hash + `","ph":["` + hash + `"],"fn":"` + hash + `","ln":"` + hash + `","ct":"` + hash + `","country":"` + hash + `","external_id":"` + hash + `",`
			one := strings.ReplaceAll(strings.ReplaceAll(website("Lead", "ID"), "@", strconv.Itoa(now)), `"user_data":{`, `"user_data":{`+user)
			events := make([]string, n)
			id := 0
			b.SetBytes(int64(n * len(one)))
			b.ReportAllocs()
			for b.Loop() {
				for i := range events {
					id++
					events[i] = strings.Replace(one, "ID", fmt.Sprint("event-", id), 1)
				}
				r := httptest.NewRequest(http.MethodPost, "/v26.0/1/events", strings.NewReader(`{"data":[`+strings.Join(events, ",")+`]}`))
				r.Header.Set("Authorization", "Bearer t")
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				g.ServeHTTP(w, r)
				if w.Code != 200 {
					b.Fatal(w.Body.String())
				}
			}
			b.ReportMetric(float64(id)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
