package linkedin_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/leadform/linkedin"
	"github.com/capiloop/capiloop/internal/secret"
)

const (
	clientSecret = "linkedin-client-secret-0001"
	token        = "linkedin-token-0001-synthetic"
	owner        = "urn:li:sponsoredAccount:500000001"
	sampleID     = "00000000-0000-4000-8000-000000000001-6"
)

// fake is LinkedIn: strict about headers, versions and encoding, with answers in no
// order. Its events come as LinkedIn sends them: the challenge first.
type fake struct {
	url string

	mu    sync.Mutex
	leads []map[string]any // by submittedAt
	next  *answer          // instead of the next answer
	calls int
}

type answer struct {
	status int
	header map[string]string
	body   string
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	f.url = s.URL
	f.add(t, sampleID, 1794999995000)
	return f
}

// add puts in the sample's lead with its form under another id and time.
func (f *fake) add(t *testing.T, id string, at int64) {
	t.Helper()
	var lead, form map[string]any
	require.NoError(t, json.Unmarshal(sample(t, "linkedin-lead-response.json"), &lead))
	require.NoError(t, json.Unmarshal(sample(t, "linkedin-lead-form.json"), &form))
	lead["form"], lead["id"], lead["submittedAt"] = form, id, json.Number(strconv.FormatInt(at, 10))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leads = append(f.leads, lead)
}

func (f *fake) change(change func(lead map[string]any)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f.leads[0])
}

func (f *fake) remove() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leads = nil
}

// fail makes the next answer this one.
func (f *fake) fail(a answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = &a
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "serviceErrorCode": 100, "code": code, "message": message})
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	id, single := strings.CutPrefix(r.URL.Path, "/rest/leadFormResponses/")
	switch {
	case r.Header.Get("Authorization") != "Bearer "+token:
		refuse(w, 401, "UNAUTHORIZED", "Invalid access token "+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	case !regexp.MustCompile(`^20\d{4}$`).MatchString(r.Header.Get("LinkedIn-Version")):
		refuse(w, 400, "VERSION_MISSING", "A version must be present")
	case r.Header.Get("X-Restli-Protocol-Version") != "2.0.0":
		refuse(w, 400, "PROTOCOL", "Invalid Restli protocol version")
	case strings.Contains(r.URL.RawQuery, "urn:li:"):
		refuse(w, 400, "ILLEGAL_ARGUMENT", "Syntax exception in path variables: URN is not encoded")
	case !strings.Contains(r.URL.RawQuery, "form:(hiddenFields,"):
		refuse(w, 400, "ILLEGAL_ARGUMENT", "the brackets of the projection must not be encoded")
	case f.next != nil:
		a := *f.next
		f.next = nil
		if a.status == 0 { // the connection breaks
			panic(http.ErrAbortHandler)
		}
		for k, v := range a.header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
	case single:
		for _, l := range f.leads {
			if l["id"] == id {
				shuffle(l)
				_ = json.NewEncoder(w).Encode(l)
				return
			}
		}
		refuse(w, 404, "NOT_FOUND", "leadFormResponse not found")
	case r.URL.Path == "/rest/leadFormResponses":
		f.list(w, r)
	default:
		refuse(w, 404, "NOT_FOUND", "no such resource")
	}
}

var rangePattern = regexp.MustCompile(`^\(start:(\d+),end:(\d+)\)$`)

func (f *fake) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	m := rangePattern.FindStringSubmatch(q.Get("submittedAtTimeRange"))
	count, err1 := strconv.Atoi(q.Get("count"))
	start, err2 := strconv.Atoi(q.Get("start"))
	if q.Get("q") != "owner" || q.Get("owner") != "(sponsoredAccount:"+owner+")" || q.Get("leadType") != "(leadType:SPONSORED)" || m == nil || err1 != nil || err2 != nil {
		refuse(w, 400, "ILLEGAL_ARGUMENT", "the finder's parameters are not right")
		return
	}
	from, _ := strconv.ParseInt(m[1], 10, 64)
	to, _ := strconv.ParseInt(m[2], 10, 64)
	if time.Since(time.UnixMilli(from)) > 365*24*time.Hour {
		refuse(w, 400, "ILLEGAL_ARGUMENT", "the look-back is 365 days")
		return
	}
	var in []any
	for _, l := range f.leads {
		at, _ := l["submittedAt"].(json.Number).Int64()
		if at >= from && at < to {
			in = append(in, l)
		}
	}
	part := in[min(start, len(in)):min(start+count, len(in))]
	_ = json.NewEncoder(w).Encode(map[string]any{
		"paging": map[string]any{"start": start, "count": count, "total": len(in)}, "elements": part,
	})
}

func shuffle(lead map[string]any) {
	list, _ := lead["formResponse"].(map[string]any)["answers"].([]any)
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

// source is the account's, with the settings changed as said.
func (f *fake) source(change map[string]string) leadform.Source {
	texts := map[string]string{"client_secret": clientSecret, "token": token, "owner": owner}
	if f != nil {
		texts["url"] = f.url
	}
	maps.Copy(texts, change)
	return leadform.Source{
		ID: 1, Workspace: 7, Kind: linkedin.Name, Name: "linkedin", Country: "ES",
		CreatedAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Options: secret.NewOptions(texts, nil, nil),
	}
}

// deliver sends an event as LinkedIn does: at least once.
func deliver(t *testing.T, k *linkedin.Kind, s leadform.Source, body []byte) []leadform.Notice {
	t.Helper()
	first := k.Receive(post(body, sign("hmacsha256=", body)), s, time.Now())
	again := k.Receive(post(body, sign("hmacsha256=", body)), s, time.Now())
	require.Equal(t, http.StatusOK, first.Answer.Status)
	require.Equal(t, first, again, "a repeat says the same")
	require.Empty(t, first.Leads)
	return first.Notices
}

func sign(before string, body []byte) string {
	m := hmac.New(sha256.New, []byte(clientSecret))
	m.Write([]byte(before))
	m.Write(body)
	return hex.EncodeToString(m.Sum(nil))
}

func post(body []byte, signature string) leadform.Request {
	h := http.Header{}
	if signature != "" {
		h.Set("X-LI-Signature", signature)
	}
	return leadform.Request{Method: http.MethodPost, Header: h, Body: body}
}

func get(query string) leadform.Request {
	q, _ := url.ParseQuery(query)
	return leadform.Request{Method: http.MethodGet, Query: q, Header: http.Header{}}
}

// sample reads a file of testdata without its indentation, as it goes over the wire.
func sample(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, json.Compact(&b, raw))
	return b.Bytes()
}
