package capitest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// postEvents is POST /{dataset}/events. One event that breaks a rule refuses the
// whole request, and nothing of it is stored. Pages "Using the API", "Support".
func (g *Graph) postEvents(q *request, t Token) *graphError {
	dataset := q.path[0]
	d, err := g.dataset(dataset, t, "post")
	if err != nil {
		return err
	}
	if d.Unavailable {
		return unknownObject(dataset, "post")
	}
	events, err := readEvents(q.body)
	g.noteSize(len(events))
	if err != nil {
		return err
	}
	if err := g.poisoned(q, events); err != nil {
		return err
	}
	now := g.now()
	for i := range events {
		if err := g.judge(&events[i], now); err != nil {
			return err
		}
	}
	b := &batch{
		dataset: dataset, events: events,
		call: call{q.version, string(q.body.field("test_event_code")), string(q.body.field("partner_agent"))},
	}
	if b.call.testCode == "" {
		b.call.testCode = q.query.Get("test_event_code")
	}
	if q.fault != nil && q.fault.Mode == ModePartial {
		b.events = events[:min(q.fault.Received, len(events)-1)]
	}
	n := g.store(b, now)
	if q.fault != nil && q.fault.Mode == ModeReset {
		reset(q.w)
	}
	answerReceived(q.w, n)
	return nil
}

// answerReceived writes the answer by hand: it is the hot path of a load test.
func answerReceived(w http.ResponseWriter, n int) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	b := make([]byte, 0, 96)
	b = strconv.AppendInt(append(b, `{"events_received":`...), int64(n), 10)
	b = append(append(b, `,"messages":[],"fbtrace_id":"`...), traceID()...)
	_, _ = w.Write(append(b, `"}`...))
}

// readEvents takes data apart: an array of 1 to 1000 events, in a form as JSON text.
func readEvents(b body) ([]event, *graphError) {
	raw, ok := b.value("data")
	if ok && (len(raw) == 0 || isNull(raw)) {
		return nil, parameter("The parameter data is required")
	}
	if !ok {
		return nil, parameter("param data must be an array.")
	}
	if !isArray(raw) {
		return nil, parameter("param data must be an array.")
	}
	events := make([]event, 0, min(maxEvents, 1+len(raw)/600))
	var err *graphError
	n := 0
	eachElement(raw, func(v []byte) bool {
		if n++; n > maxEvents {
			err = parameter("param data must hold at most " + strconv.Itoa(maxEvents) + " events.")
			return false
		}
		e, ok := readEvent(v)
		if !ok {
			err = parameter("param data[" + strconv.Itoa(n-1) + "] must be an object.")
			return false
		}
		events = append(events, e)
		return true
	})
	if n == 0 {
		err = parameter("param data must be non-empty.")
	}
	if err != nil {
		return nil, err
	}
	return events, nil
}

var countedName = []byte("event_name")

// countOnly is postEvents for load tests: it believes everything.
func (g *Graph) countOnly(w http.ResponseWriter, raw []byte) {
	n := bytes.Count(raw, countedName)
	g.mu.Lock()
	g.requests.Accepted++
	g.requests.Events += uint64(n) //nolint:gosec // a count
	g.requests.MaxEvents = max(g.requests.MaxEvents, n)
	g.mu.Unlock()
	answerReceived(w, n)
}

// PixelEvent is what a browser reported.
type PixelEvent struct {
	Dataset    string `json:"dataset"`
	EventName  string `json:"event_name"`
	EventID    string `json:"event_id"` // the eventID given to fbq
	URL        string `json:"url"`
	FBP        string `json:"fbp"`
	ExternalID string `json:"external_id"`
}

// Pixel takes in an event from the browser, so that deduplication between browser
// and server can be tested. The same comes in over HTTP at /tr, with the
// parameters of Meta's Pixel: id, ev, eid, dl, fbp, ud[external_id].
func (g *Graph) Pixel(p PixelEvent) {
	now := g.now()
	payload, err := json.Marshal(p)
	if err != nil { // strings only
		panic(err)
	}
	e := event{
		raw: payload, name: []byte(p.EventName), id: []byte(p.EventID), source: []byte("website"), url: []byte(p.URL),
		time: now.Unix(), fbp: []byte(p.FBP), externalID: []byte(p.ExternalID), keys: keysOf("client_user_agent", "client_ip_address"),
	}
	if p.FBP != "" {
		e.keys |= keysOf("fbp")
	}
	if p.ExternalID != "" {
		e.keys |= keysOf("external_id")
	}
	g.store(&batch{dataset: p.Dataset, events: []event{e}, browser: true}, now)
}

// servePixel answers as the Pixel's endpoint does: always with a tiny image.
func (g *Graph) servePixel(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	if id, name := r.FormValue("id"), r.FormValue("ev"); id != "" && strings.TrimSpace(name) != "" {
		g.Pixel(PixelEvent{
			Dataset: id, EventName: name, EventID: r.FormValue("eid"), URL: r.FormValue("dl"),
			FBP: r.FormValue("fbp"), ExternalID: r.FormValue("ud[external_id]"),
		})
	}
	w.Header().Set("Content-Type", "image/gif")
	_, _ = w.Write([]byte("GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"))
}
