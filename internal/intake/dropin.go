package intake

import (
	"context"
	"net/http"
	"strconv"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/record"
)

// dropIn stands in for Graph: POST /{version}/{dataset}/events, and the gateway hook
// of Meta's SDKs, which differs in the token's name and the status of its answer.
// Like Graph it takes all events of a request or none.
func (h *Handler) dropIn(ctx context.Context, c *call) reply {
	if c.Method != http.MethodPost {
		return graphOf(wrongMethod()).reply()
	}
	token := c.URL.Query().Get("access_token")
	if token == "" {
		token = bearer(c)
	}
	if token != "" { // a wrong one need not send its body
		if e := h.authenticate(ctx, c, token); e != nil {
			return graphOf(*e).reply()
		}
	}
	raw, e := readBody(c)
	if e != nil {
		return graphOf(*e).reply()
	}
	f, e := readFields(c, raw)
	if e != nil {
		return graphOf(*e).reply()
	}
	if c.workspace == nil {
		if token = f.text("access_token"); token == "" && c.route == routeGateway {
			token = f.text("accessKey")
		}
		if e := h.authenticate(ctx, c, token); e != nil {
			return graphOf(*e).reply()
		}
	}
	if h.c.Settings.Get().Dataset(c.workspace, c.dataset) == nil {
		return unknownObject(c.dataset).reply()
	}
	items, e := h.readEvents(c, f)
	if e != nil {
		return graphOf(*e).reply()
	}
	out, err := h.c.Recorder.Record(ctx, record.Request{
		Workspace: c.workspace, Source: c.key.Name, Items: items, AllOrNothing: true,
	})
	if err != nil {
		return graphOf(h.notRecorded(ctx, c, err)).reply()
	}
	for i, r := range out.Results {
		if r.Rejected != nil {
			c.countRejected(out.Results)
			return graphProblem(i, firstError(r.Rejected)).reply()
		}
	}
	c.count(out.Results)
	status := http.StatusOK
	if c.route == routeGateway {
		status = http.StatusAccepted // with any other the SDK throws
	}
	b := append(make([]byte, 0, 96), `{"events_received":`...)
	b = strconv.AppendInt(b, int64(len(items)), 10)
	b = append(append(append(b, `,"messages":[],"fbtrace_id":"`...), traceID()...), `"}`...)
	return reply{status: status, body: b}
}

// countRejected counts those that broke a rule; the others of a request that is
// refused whole were neither taken nor rejected.
func (c *call) countRejected(results []record.Result) {
	for i := range results {
		if results[i].Rejected != nil {
			c.tally.rejected++
		}
	}
}

// readEvents reads data: a list of 1 to 1000 events. The list may be inside a text,
// as forms have it, and each event once more, as Python's and Ruby's SDKs do.
func (h *Handler) readEvents(c *call, f fields) ([]record.Item, *wrong) {
	data, present, ok := f.json("data")
	switch {
	case !present:
		return nil, parameter("The parameter data is required", `send data: a list of 1 to 1000 events`)
	case !ok:
		return nil, parameter("param data must be an array: its text is not JSON", "send data as JSON text: [{…},{…}]")
	case data[0] != '[':
		return nil, parameter("param data must be an array, got "+shape(data), "send data: [{…},{…}]")
	}
	var defaults own
	for _, name := range []string{"test_event_code", "partner_agent", "consent"} {
		raw, present, ok := f.json(name)
		if name != "consent" || !ok {
			raw, present = f.quoted(name)
		}
		if !present {
			continue
		}
		if _, p := defaults.take(name, raw); p != nil {
			return nil, parameter(name+": "+p.Reason, p.Fix)
		}
	}
	if code := c.URL.Query().Get("test_event_code"); code != "" && defaults.testCode == "" {
		if p := defaults.takeTestCode(code); p != nil {
			return nil, parameter("test_event_code: "+p.Reason, p.Fix)
		}
	}
	items := make([]record.Item, 0, min(maxEvents, 1+len(data)/500))
	var e *wrong
	eachElement(data, func(value []byte) bool {
		n := strconv.Itoa(len(items))
		if len(items) == maxEvents {
			e = parameter("param data must hold at most 1000 events", "split it into several requests of at most 1000 events")
			return false
		}
		inner, ok := unwrap(value)
		if !ok || inner[0] != '{' {
			e = parameter("param data["+n+"] must be an object", "send each event as a JSON object, or as the text of one")
			return false
		}
		item := readItem(inner, defaults)
		item.Dataset = c.dataset // the path's, whatever the event says
		items = append(items, item)
		return true
	})
	if e == nil && len(items) == 0 {
		e = parameter("param data must be non-empty", "send 1 to 1000 events")
	}
	return items, e
}

func parameter(message, fix string) *wrong {
	return &wrong{http.StatusBadRequest, capi.ProblemWrongType, message, fix, "data"}
}
