// Package crmtest is what the strict fakes of CRMs share: a server that can be told to
// fail, a log of what it was asked and of what it wrote, a lead, and the checks that every
// CRM has to pass. Each fake itself lives beside its CRM's tests.
package crmtest

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

// Token is the credential that fakes take.
const Token = "made-up-token-0001-no-real-one" //nolint:gosec // it opens only fakes

// Fault is what goes wrong with a call.
type Fault int

// The faults.
const (
	TooMany Fault = iota // 429 in the vendor's shape, nothing done
	Broken               // 500, nothing done
	Hang                 // no answer until the caller gives up, nothing done
	Cut                  // done, but the connection closes instead of an answer
	HTML                 // 502 with a page of HTML, nothing done
)

// Call is one request as it came.
type Call struct {
	Method, Path, Query string
	Header              http.Header
	Body                []byte
}

// Write is one accepted write.
type Write struct{ Kind, ID, Key string }

// Server runs a fake and keeps its log.
type Server struct {
	URL string
	// Busy writes the vendor's own 429; nil: a bare one.
	Busy func(w http.ResponseWriter)

	mu     sync.Mutex
	calls  []Call
	writes []Write
	faults []fault
}

type fault struct {
	kind  Fault
	left  int
	match string
}

// New starts a fake; it ends with the test. Its handler runs one call at a time.
func New(t *testing.T, handler http.Handler) *Server {
	t.Helper()
	s := &Server{}
	var one sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20+1))
		if err != nil || len(body) > 1<<20 {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		kind, failing := s.note(r, body)
		if failing && kind != Cut {
			s.fail(w, r, kind)
			return
		}
		one.Lock()
		defer one.Unlock()
		if failing {
			handler.ServeHTTP(httptest.NewRecorder(), r)
			cut(w)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// cut closes the connection after the first byte of an answer. The byte keeps the
// caller's transport from repeating a reading by itself.
func cut(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = conn.Write([]byte("H"))
	_ = conn.Close()
}

// Next makes the next n calls fail whose "METHOD /path" begins with match.
func (s *Server) Next(n int, kind Fault, match string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fault{kind, n, match})
}

func (s *Server) note(r *http.Request, body []byte) (Fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, Call{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Clone(), body})
	for i := range s.faults {
		f := &s.faults[i]
		if f.left > 0 && strings.HasPrefix(r.Method+" "+r.URL.Path, f.match) {
			f.left--
			return f.kind, true
		}
	}
	return 0, false
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, kind Fault) {
	switch kind {
	case TooMany:
		if s.Busy != nil {
			s.Busy(w)
			return
		}
		w.WriteHeader(http.StatusTooManyRequests)
	case Hang:
		<-r.Context().Done()
	case HTML:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, "<html><body>Bad gateway for ana.lead@example.com</body></html>")
	default:
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// Wrote notes an accepted write.
func (s *Server) Wrote(kind, id, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, Write{kind, id, key})
}

// Writes returns the accepted writes of one kind.
func (s *Server) Writes(kind string) []Write {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Write
	for _, w := range s.writes {
		if w.Kind == kind {
			list = append(list, w)
		}
	}
	return list
}

// Calls returns the calls whose "METHOD /path" begins with match.
func (s *Server) Calls(match string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Call
	for _, c := range s.calls {
		if strings.HasPrefix(c.Method+" "+c.Path, match) {
			list = append(list, c)
		}
	}
	return list
}

// Answer writes a JSON answer.
func Answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// Account returns an account on a fake; more are settings, name and value by turns.
func Account(kind, address string, more ...string) crm.Account {
	texts := map[string]string{"url": address, "token": Token, "allow_private": "true"}
	for i := 0; i+1 < len(more); i += 2 {
		texts[more[i]] = more[i+1]
	}
	return crm.Account{ID: 7, Workspace: 1, Kind: kind, Name: kind, Country: "US", Currency: "USD", Options: secret.NewOptions(texts, nil, nil)}
}

// Lead returns the lead of the samples in vectors/payloads.
func Lead() *ledger.Lead {
	return &ledger.Lead{
		ID: 123456789012345, Workspace: 1, Source: "meta", Kind: "meta_leads", Platform: "meta", LeadID: "987650000012345",
		Origin: ledger.Origin{
			FormID: "200000000000002", FormName: "Form A", AdID: "300000000000003", AdName: "Ad A", AdSetID: "300000000000002",
			AdSetName: "Set A", CampaignID: "300000000000001", CampaignName: "Campaign A", Channel: "ig",
		},
		Clicks:    ledger.Clicks{FBClid: "IwAR-example-fbclid", GClid: "gclid-Example"},
		PageURL:   "https://www.example.com/roof",
		CreatedAt: time.Date(2026, 11, 18, 11, 6, 37, 0, time.UTC),
		Contact:   ledger.Contact{FullName: "Ana Example", FirstName: "Ana", LastName: "Example", Email: "Ana.Lead@example.com", Phone: "(202) 555-0143", Postcode: "20500"},
		Answers:   []ledger.FormAnswer{{Question: "what_are_you_looking_for", Label: "What are you looking for?", Values: []string{"roof_repair"}}},
		IP:        "203.0.113.9", UserAgent: "Mozilla/5.0 made up",
	}
}

// Quiet fails the test if an answer holds a token or something about the person.
func Quiet(t *testing.T, d crm.Delivered) {
	t.Helper()
	if d.Outcome == nil {
		t.Error("there is no outcome")
		return
	}
	QuietText(t, ledger.AnswerOf(d.Outcome).Message)
	QuietText(t, ledger.AnswerOf(d.Outcome).TraceID)
}

// QuietText is Quiet for one text.
func QuietText(t *testing.T, text string) {
	t.Helper()
	low := strings.ToLower(text)
	for _, private := range []string{Token, "made-up", "ana.lead", "ana example", "2025550143", "555-0143", "roof_repair", "203.0.113.9"} {
		if strings.Contains(low, private) {
			t.Errorf("the message %q holds %q", text, private)
		}
	}
}

var update = flag.Bool("update", false, "rewrite the golden files")

// Golden compares the requests that Preview shows with a file in testdata, which -update
// rewrites.
func Golden(t *testing.T, name string, calls []crm.Call) {
	t.Helper()
	var b bytes.Buffer
	for _, c := range calls {
		b.WriteString(c.Method + " " + c.URL + "\n")
		if len(c.Body) > 0 && json.Indent(&b, c.Body, "", "  ") != nil {
			b.Write(c.Body)
		}
		b.WriteString("\n")
	}
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("%s differs; this is what it is now:\n%s", path, b.String())
	}
}
