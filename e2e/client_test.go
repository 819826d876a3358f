package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// event is one event as a caller writes it.
type event map[string]any

// lead is an event of a person with raw contact data.
func (r *rig) lead(dataset, id string) event {
	return event{
		"event_name": "Lead", "event_time": r.clock.Now().Unix(), "event_id": id, "action_source": "system_generated", "dataset": dataset,
		"user_data": event{"em": "person-" + id + rawDomain, "ph": "+7 701 555-01-42"},
	}
}

func (r *rig) leads(dataset, prefix string, n int) []event {
	list := make([]event, n)
	for i := range list {
		list[i] = r.lead(dataset, fmt.Sprintf("%s-%03d", prefix, i))
	}
	return list
}

func ids(events []event) []string {
	var list []string
	for _, e := range events {
		list = append(list, e["event_id"].(string))
	}
	return list
}

// answer is what POST /v1/events says.
type answer struct {
	Accepted   int `json:"accepted"`
	Duplicates int `json:"duplicates"`
	Rejected   []struct {
		Index                    int
		Field, Code, Reason, Fix string
	} `json:"rejected"`
	Events []struct {
		ID       string `json:"id"`
		EventID  string `json:"event_id"`
		State    string `json:"state"`
		Reason   string `json:"reason"`
		Sentence string `json:"sentence"`
		URL      string `json:"url"`
	} `json:"events"`
	Error *struct{ Code, Message, Fix, Field string } `json:"error"`
}

// patient is a client for requests that may take their time.
var patient = &http.Client{Timeout: 60 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 32}}

// request sends a request with the shop's key and keeps the answer for the search.
func (r *rig) request(t *testing.T, method, path string, body []byte, headers ...string) (int, []byte) {
	t.Helper()
	status, answer, err := r.try(method, path, body, headers...)
	require.NoError(t, err)
	return status, answer
}

func (r *rig) try(method, path string, body []byte, headers ...string) (int, []byte, error) {
	q, err := http.NewRequest(method, r.url()+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	q.Header.Set("Authorization", "Bearer "+apiKey)
	q.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	res, err := patient.Do(q)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	_, _ = r.seen.Write(b)
	return res.StatusCode, b, err
}

// send sends events in one request; all must be taken.
func (r *rig) send(t *testing.T, events ...event) answer {
	t.Helper()
	status, a := r.post(t, events...)
	require.Equal(t, http.StatusAccepted, status, "%+v", a)
	require.Empty(t, a.Rejected)
	return a
}

// post sends events in one request.
func (r *rig) post(t *testing.T, events ...event) (int, answer) {
	t.Helper()
	status, b := r.request(t, http.MethodPost, "/v1/events", bodyOf(t, events...))
	var a answer
	require.NoError(t, json.Unmarshal(b, &a), "%s", b)
	return status, a
}

func bodyOf(t *testing.T, events ...event) []byte {
	t.Helper()
	body, err := json.Marshal(event{"data": events})
	require.NoError(t, err)
	return body
}

// get reads an answer of the API.
func (r *rig) get(t *testing.T, path string, into any) {
	t.Helper()
	status, b := r.request(t, http.MethodGet, path, nil)
	require.Equal(t, http.StatusOK, status, "%s: %s", path, b)
	require.NoError(t, json.Unmarshal(b, into), "%s", b)
}

// book is what GET /v1/ledger says.
type book struct {
	Received, Sent, Waiting, Held, Skipped, Failed, Unexplained int64

	ByReason []struct {
		State, Reason, Sentence string
		Count                   int64
	} `json:"by_reason"`
	Beside struct {
		Duplicates, Rejected, History int64
		AlreadySent                   int64 `json:"already_sent"`
	}
}

// by returns how many stand in a state for a reason.
func (b book) by(state, reason string) (n int64) {
	for _, l := range b.ByReason {
		if l.State == state && l.Reason == reason {
			n += l.Count
		}
	}
	return n
}

// book reads the book of a dataset ("": all) and wants it to balance.
func (r *rig) book(t *testing.T, dataset string) book {
	t.Helper()
	b, err := r.tryBook(dataset)
	require.NoError(t, err)
	require.Zero(t, b.Unexplained, "%+v", b)
	require.Equal(t, b.Received, b.Sent+b.Waiting+b.Held+b.Skipped+b.Failed, "%+v", b)
	var listed int64
	for _, l := range b.ByReason {
		require.NotEmpty(t, l.Sentence)
		listed += l.Count
	}
	require.Equal(t, b.Received, listed, "each one stands under a reason: %+v", b)
	return b
}

func (r *rig) tryBook(dataset string) (b book, err error) {
	status, body, err := r.try(http.MethodGet, "/v1/ledger?"+url.Values{"destination": {dataset}}.Encode(), nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("the ledger answered %d: %s", status, body)
	}
	if err == nil {
		err = json.Unmarshal(body, &b)
	}
	return b, err
}

// drained waits until nothing is on its way any more.
func (r *rig) drained(t *testing.T, limit time.Duration) {
	t.Helper()
	r.eventually(t, limit, "nothing waits any more", func() bool {
		b, err := r.tryBook("")
		return err == nil && b.Waiting+b.Held == 0
	})
}

// finding is what GET /v1/findings lists.
type finding struct {
	ID, Kind, Severity, Owner, State, Title, Cause string
	NextStep                                       string `json:"next_step"`
}

// findings returns those of a kind and state.
func (r *rig) findings(t *testing.T, kind, state string) []finding {
	t.Helper()
	var all, list []finding
	r.get(t, "/v1/findings", &all)
	for _, f := range all {
		if f.Kind == kind && f.State == state {
			require.NotEmpty(t, f.Title)
			require.NotEmpty(t, f.NextStep)
			list = append(list, f)
		}
	}
	return list
}

// heldOnce wants the stand-in to count each of these events once and no other.
func (r *rig) heldOnce(t *testing.T, dataset string, want []string) {
	t.Helper()
	var kept []string
	for _, e := range r.graph.Kept(dataset) {
		kept = append(kept, e.EventID)
	}
	slices.Sort(kept)
	want = slices.Sorted(slices.Values(want))
	require.Equal(t, strings.Join(want, " "), strings.Join(kept, " "), "dataset %s", dataset)
	require.Empty(t, r.graph.SecondIDs())
}
