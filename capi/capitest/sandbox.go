package capitest

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unique"
)

// crossOrigin keeps other websites from arming faults or having webhooks sent
// through a browser that can reach the sandbox.
var crossOrigin = http.NewCrossOriginProtection()

func (g *Graph) serveSandbox(w http.ResponseWriter, r *http.Request) {
	if err := crossOrigin.Check(r); err != nil {
		sandboxError(w, http.StatusForbidden, "a request from another website is not allowed")
		return
	}
	switch r.Method + " " + strings.TrimPrefix(r.URL.Path, "/_sandbox/") {
	case "GET events":
		g.getEvents(w, r)
	case "GET summary":
		writeJSON(w, 200, g.Summary())
	case "GET twice":
		writeJSON(w, 200, map[string]any{"twice": g.Twice(), "second_ids": g.SecondIDs()})
	case "GET stream":
		g.stream(w, r)
	case "GET fault":
		writeJSON(w, 200, map[string]any{"faults": g.Faults()})
	case "POST fault":
		g.postFault(w, r)
	case "DELETE fault":
		g.ClearFaults()
		w.WriteHeader(http.StatusNoContent)
	case "POST lead":
		g.postLead(w, r)
	case "POST reset":
		g.Reset()
		w.WriteHeader(http.StatusNoContent)
	case "GET page.css":
		servePage(w, pageCSS, "text/css; charset=utf-8")
	case "GET page.js":
		servePage(w, pageJS, "text/javascript; charset=utf-8")
	default:
		sandboxError(w, http.StatusNotFound, "no such route; there are GET events, summary, twice, stream; GET, POST, DELETE fault; POST lead, reset")
	}
}

func sandboxError(w http.ResponseWriter, status int, text string) {
	writeJSON(w, status, map[string]string{"error": text})
}

// Summary is what came in, in numbers.
type Summary struct {
	Datasets []DatasetSummary `json:"datasets"`
	Requests Requests         `json:"requests"`
	Events   uint64           `json:"events"`   // accepted
	Distinct int              `json:"distinct"` // different (dataset, event_name, event_id)
	Last     uint64           `json:"last"`     // seq of the last event
}

// DatasetSummary is one dataset's part of a Summary.
type DatasetSummary struct {
	Dataset string        `json:"dataset"`
	Names   []NameSummary `json:"events"`
	NameSummary
}

// NameSummary counts the events of one name.
type NameSummary struct {
	EventName       string `json:"event_name,omitempty"`
	Received        uint64 `json:"received"`
	Kept            uint64 `json:"kept"`
	Dropped         uint64 `json:"dropped"`
	Discarded       uint64 `json:"discarded"`
	ConversionLeads uint64 `json:"conversion_leads"`
}

// Summary returns the counts so far. They are exact, also for events that are no
// longer remembered one by one.
func (g *Graph) Summary() Summary {
	s := Summary{Requests: g.Requests(), Datasets: []DatasetSummary{}}
	g.mu.Lock()
	defer g.mu.Unlock()
	s.Last, s.Events, s.Distinct = g.log.next-1, g.log.next-1, len(g.dedup.ids)
	at := map[string]int{}
	for k, t := range g.tallies {
		ds := k.dataset.Value()
		i, ok := at[ds]
		if !ok {
			i = len(s.Datasets)
			at[ds], s.Datasets = i, append(s.Datasets, DatasetSummary{Dataset: ds})
		}
		n := NameSummary{k.name.Value(), t.received, t.kept, t.dropped, t.discarded, t.conversionLeads}
		d := &s.Datasets[i]
		d.Names = append(d.Names, n)
		d.Received += n.Received
		d.Kept += n.Kept
		d.Dropped += n.Dropped
		d.Discarded += n.Discarded
		d.ConversionLeads += n.ConversionLeads
	}
	slices.SortFunc(s.Datasets, func(a, b DatasetSummary) int { return cmp.Compare(a.Dataset, b.Dataset) })
	for _, d := range s.Datasets {
		slices.SortFunc(d.Names, func(a, b NameSummary) int { return cmp.Compare(a.EventName, b.EventName) })
	}
	return s
}

// getEvents lists events in the order of arrival: those with a seq above since, at
// most limit (1000 unless said, 10,000 at most), filtered by dataset, event_name,
// event_id, outcome and test_event_code. next is the since of the next page, and is
// absent on the last one. payload=0 leaves the payloads out.
func (g *Graph) getEvents(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	since, err1 := strconv.ParseUint(orElse(q.Get("since"), "0"), 10, 64)
	limit, err2 := strconv.Atoi(orElse(q.Get("limit"), "1000"))
	if err1 != nil || err2 != nil || limit < 1 {
		sandboxError(w, http.StatusBadRequest, "since is the seq of an event, limit a number from 1 to 10000")
		return
	}
	page := g.eventPage(q, since, min(limit, 10_000))
	writeJSON(w, 200, page)
}

type eventPage struct {
	Events []Received `json:"events"`
	Next   uint64     `json:"next,omitempty"`
}

func (g *Graph) eventPage(q url.Values, since uint64, limit int) eventPage {
	ds, name := unique.Make(q.Get("dataset")), unique.Make(q.Get("event_name"))
	g.mu.Lock()
	defer g.mu.Unlock()
	p := eventPage{Events: []Received{}}
	for seq := max(since+1, g.log.first); seq < g.log.next; seq++ {
		r := g.log.at(seq)
		if ds.Value() != "" && r.dataset != ds || name.Value() != "" && r.name != name ||
			q.Has("event_id") && r.id != q.Get("event_id") || q.Has("test_event_code") && r.call.testCode != q.Get("test_event_code") ||
			q.Has("outcome") && string(outcomes[r.outcome]) != q.Get("outcome") {
			continue
		}
		if len(p.Events) == limit {
			p.Next = p.Events[limit-1].Seq
			return p
		}
		v := g.log.received(seq)
		if q.Get("payload") == "0" {
			v.Payload = nil
		}
		p.Events = append(p.Events, v)
	}
	return p
}

// postFault arms a fault. A form, as the page sends it, is answered with the page.
func (g *Graph) postFault(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	if err != nil {
		sandboxError(w, http.StatusRequestEntityTooLarge, "a fault is smaller than 64 KiB")
		return
	}
	var f Fault
	form := strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded")
	// curl -d sends JSON under the form's content type.
	if form && !strings.HasPrefix(strings.TrimSpace(string(raw)), "{") {
		v, err := url.ParseQuery(string(raw))
		if err != nil {
			sandboxError(w, http.StatusBadRequest, "the form cannot be read")
			return
		}
		if v.Has("clear") {
			g.ClearFaults()
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return
		}
		number := func(name string) int { n, _ := strconv.Atoi(v.Get(name)); return n }
		f = Fault{
			Mode: Mode(v.Get("mode")), Code: number("code"), Subcode: number("subcode"), Status: number("status"), Count: number("count"),
			Dataset: v.Get("dataset"), DelayMS: number("delay_ms"), EventID: v.Get("event_id"), Received: number("received"),
		}
	} else if len(raw) > 0 {
		form = false
		if err := json.Unmarshal(raw, &f); err != nil {
			sandboxError(w, http.StatusBadRequest, `the body is no fault; {"code":190,"subcode":463,"count":1} would be one: `+err.Error())
			return
		}
	}
	if err := f.check(); err != nil {
		sandboxError(w, http.StatusBadRequest, err.Error())
		return
	}
	g.faults.add(f)
	if form {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	writeJSON(w, http.StatusCreated, map[string]any{"faults": g.Faults()})
}

// postLead makes a lead and, where webhook and app_secret are given, delivers it.
func (g *Graph) postLead(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Lead
		CreatedTime int64  `json:"created_time"` // Unix seconds
		Webhook     string `json:"webhook"`
		AppSecret   string `json:"app_secret"`
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err == nil && len(raw) > 0 {
		err = json.Unmarshal(raw, &in)
	}
	if err != nil {
		sandboxError(w, http.StatusBadRequest, "the body is no lead: "+err.Error())
		return
	}
	if in.ID != "" && !leadID(in.ID) {
		sandboxError(w, http.StatusBadRequest, "a lead id has 15 to 17 digits")
		return
	}
	if in.CreatedTime != 0 {
		in.Created = time.Unix(in.CreatedTime, 0)
	}
	if in.Fields == nil {
		in.Fields = []Field{
			{"full_name", []string{"Maria Example"}}, {"email", []string{"maria@example.com"}}, {"phone_number", []string{"+16505551212"}},
		}
	}
	out := map[string]any{"id": g.AddLead(in.Lead)}
	if in.Webhook != "" {
		status, err := g.DeliverLeads(r.Context(), in.Webhook, in.AppSecret, out["id"].(string))
		out["delivered"], out["status"] = err == nil && status >= 200 && status < 300, status
		if err != nil {
			out["error"] = err.Error()
		}
	}
	writeJSON(w, http.StatusCreated, out)
}

const streamMost = 200 // events that a stream sends at once; the page shows no more

// stream sends the events as they arrive, as server-sent events. A reader that
// falls behind is told how many it missed.
func (g *Graph) stream(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	control := http.NewResponseController(w)
	var at streamPosition
	at.epoch = -1
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for idle := 0; ; idle++ {
		m := g.streamed(&at)
		if m != nil || idle%60 == 0 { // an empty comment keeps proxies from closing
			b := []byte(":\n\n")
			if m != nil {
				data, err := json.Marshal(m)
				if err != nil {
					return
				}
				b = append(append([]byte("data: "), data...), "\n\n"...)
			}
			if _, err := w.Write(b); err != nil {
				return
			}
			if control.Flush() != nil {
				return
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

type streamPosition struct {
	epoch, changes, hits int
	seq                  uint64
	requests             uint64
}

type streamMessage struct {
	Reset    bool          `json:"reset,omitempty"` // forget what was shown
	Skipped  uint64        `json:"skipped,omitempty"`
	Events   []Received    `json:"events,omitempty"`
	Changed  []Received    `json:"changed,omitempty"`
	Faults   []ActiveFault `json:"faults"`
	Requests Requests      `json:"requests"`
	Total    uint64        `json:"total"`
}

// streamed returns what is new since at and moves it on; nil if nothing is.
func (g *Graph) streamed(at *streamPosition) *streamMessage {
	faults, requests := g.Faults(), g.Requests()
	hits := g.faults.version()
	g.mu.Lock()
	defer g.mu.Unlock()
	m := &streamMessage{Faults: faults, Requests: requests, Total: g.log.next - 1}
	if at.epoch != g.epoch {
		m.Reset = true
		*at = streamPosition{epoch: g.epoch, changes: g.changesLost + len(g.changes), hits: at.hits}
	}
	seq := max(at.seq+1, g.log.first)
	if n := g.log.next - seq; n > streamMost {
		m.Skipped = n - streamMost
		seq = g.log.next - streamMost
	}
	for ; seq < g.log.next; seq++ {
		m.Events = append(m.Events, g.log.received(seq))
	}
	for i := max(at.changes-g.changesLost, 0); i < len(g.changes); i++ {
		if g.log.find(g.changes[i]) != nil {
			m.Changed = append(m.Changed, g.log.received(g.changes[i]))
		}
	}
	if !m.Reset && len(m.Events)+len(m.Changed) == 0 && at.hits == hits && at.requests == requests.Count {
		return nil
	}
	at.seq, at.changes, at.hits, at.requests = g.log.next-1, g.changesLost+len(g.changes), hits, requests.Count
	return m
}
