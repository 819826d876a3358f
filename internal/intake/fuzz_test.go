package intake_test

import (
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/intake"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/platform"
	"github.com/capiloop/capiloop/internal/platform/meta"
	"github.com/capiloop/capiloop/internal/record"
)

// openFuzz stands a door before the real store where the seeds run as tests. The
// fuzzer gets one without: it steers by coverage, and a database's own goroutines
// would lead it astray.
func openFuzz(f *testing.F) *door {
	f.Helper()
	return open(f, func(c *intake.Config) {
		if fuzzing() {
			c.Recorder = dry{}
		}
	})
}

func fuzzing() bool { return flag.Lookup("test.fuzz").Value.String() != "" }

// dry judges events as record does and keeps nothing.
type dry struct{}

func (dry) Record(_ context.Context, q record.Request) (*record.Outcome, error) {
	out := &record.Outcome{Results: make([]record.Result, len(q.Items))}
	for i, item := range q.Items {
		r := &out.Results[i]
		r.Rejected = item.Problems
		if item.Problems.Err() != nil {
			continue
		}
		encoded := (&meta.Platform{}).Encode(item.Event, platform.Rules{Locale: capi.Locale{Country: "US", Now: time.Unix(now, 0)}})
		if r.Rejected = nil; encoded.Problems.Err() != nil {
			r.Rejected = encoded.Problems
		}
		r.ID, r.EventName, r.EventID, r.State, r.Warnings = ledger.ID(i), item.Event.EventName, item.Event.EventID, ledger.Waiting, encoded.Problems
	}
	return out, nil
}

// balance sends a request and checks what must hold for any: an answer in JSON that
// blames nobody but the caller, and a book that balances.
func balance(t *testing.T, d *door, target, kind, body string) {
	t.Helper()
	a := d.do(t, http.MethodPost, target, strings.NewReader(body), "Content-Type", kind, "Authorization", "Bearer "+keyOne)
	require.Less(t, a.Code, 500, a.Body.String())
	if a.Code >= 400 {
		require.NotEmpty(t, a.at("error", "message"))
	}
	if !fuzzing() {
		d.book(t)
	}
}

func FuzzEvents(f *testing.F) {
	for _, s := range []string{
		lead("a"), `[` + lead("a") + `,{}]`, `{"data":[` + lead("b", `,"consent":{"ad_user_data":"denied"}`) + `],"dataset":1}`,
		"", "{", "[", `{"data":`, `{"\u0064ata":[[]]}`, "\uFEFF{}", `{"a":"\ud800","consent":"\ud800"}`, `[1,"",null,true,{"":{}}]`, "{\"a\":\xff}",
		`{"event_name":"Purchase","custom_data":{"value":1e999,"contents":[{"id":1}],"content_ids":"[1]"}}`,
		`{"user_data":"{\"em\":[]}"}`, `{"user_data":"{"}`, `{"app_data":{"extinfo":{"0":"a2","99":1}}}`,
	} {
		f.Add(s)
	}
	d := openFuzz(f)
	f.Fuzz(func(t *testing.T, body string) { balance(t, d, "/v1/events", "application/json", body) })
}

func FuzzDropIn(f *testing.F) {
	for _, c := range readCaptured(f) {
		if !strings.HasPrefix(c.ContentType, "multipart/") {
			f.Add(c.Path, c.ContentType, captiveKeys.Replace(c.Body))
		}
	}
	f.Add("/v1.0/1234567890/events", "", `{"data":"[\"{}\",\"\",1]","test_event_code":{},"consent":"{"}`)
	f.Add("/1234567890/events", "text/plain", "data=%5B%5D&data=&=&;")
	f.Add("/capi/1234567890/events", "application/json", `{"data":["{\"event_name\":\"Lead\"}"],"accessKey":1}`)
	d := openFuzz(f)
	f.Fuzz(func(t *testing.T, path, kind, body string) {
		if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "%?# \t\r\n\x00\x7f") || strings.HasPrefix(path, "//") {
			t.Skip()
		}
		r, err := http.NewRequest(http.MethodPost, "http://example.com"+path, strings.NewReader(body))
		if err != nil {
			t.Skip()
		}
		r.RequestURI, r.RemoteAddr = path, "192.0.2.1:1"
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Authorization", "Bearer "+keyOne)
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		require.Less(t, w.Code, 500, w.Body.String())
		require.True(t, json.Valid(w.Body.Bytes()))
		if !fuzzing() {
			d.book(t)
		}
	})
}

func FuzzMultipart(f *testing.F) {
	for _, c := range readCaptured(f) {
		if strings.HasPrefix(c.ContentType, "multipart/") {
			f.Add(c.ContentType, captiveKeys.Replace(c.Body))
		}
	}
	f.Add("multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=data\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=5B=\r\n--x--")
	d := openFuzz(f)
	f.Fuzz(func(t *testing.T, kind, body string) { balance(t, d, "/v26.0/"+datasetOne+"/events", kind, body) })
}

// Whatever a page sends, the answer is empty or tells what is wrong, and the book balances.
func FuzzTag(f *testing.F) {
	for _, body := range []string{
		said("shop-hold", granted, tagged("Lead", "1"), `"x"`), said("shop-send", `{"ads":"","by":"none"}`, tagged("Purchase", "2", `,"custom_data":{"value":1,"currency":"EUR"}`)),
		`{"v":1,"site":"shop-hold","sent":1e300,"fbc":"fb.1.1.x","consent":{"ads":"granted"},"sightings":[{"n":"1","event_name":"Lead","at":-1}]}`, "", "[]", "{\"v\":1,",
	} {
		f.Add(body)
	}
	d := openFuzz(f)
	f.Fuzz(func(t *testing.T, body string) {
		a := d.report(body)
		require.Contains(t, []int{204, 400, 404, 413, 422, 429}, a.Code)
		if a.Code != http.StatusNoContent {
			require.NoError(t, json.Unmarshal(a.Body.Bytes(), &a.parsed))
			require.NotEmpty(t, a.at("error", "fix"))
		}
		for _, cookie := range a.Header().Values("Set-Cookie") {
			_, err := http.ParseSetCookie(cookie)
			require.NoError(t, err)
		}
		if !fuzzing() {
			d.book(t)
		}
	})
}
