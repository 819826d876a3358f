package intake

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/store"
)

// maxIdempotencyKey is as long as others allow; a UUID has 36.
const maxIdempotencyKey = 255

// events is POST /v1/events: the good ones are taken even if others are bad.
func (h *Handler) events(ctx context.Context, c *call) reply {
	if c.Method != http.MethodPost {
		return wrongMethod().reply()
	}
	if e := h.authenticate(ctx, c, bearer(c)); e != nil {
		return e.reply()
	}
	if kind, _ := mediaType(c); !isJSONType(kind) {
		return wrong{
			http.StatusUnsupportedMediaType, "unsupported_media_type", "this route takes JSON only",
			"send the header Content-Type: application/json", "",
		}.reply()
	}
	key, e := idempotencyKey(c)
	if e != nil {
		return e.reply()
	}
	raw, e := readBody(c)
	if e == nil {
		raw, e = readJSON(raw)
	}
	var list batch
	if e == nil {
		list, e = readBatch(raw)
	}
	if e != nil {
		return e.reply()
	}
	q := record.Request{Workspace: c.workspace, Source: c.key.Name, Items: list.items}
	if key != "" {
		q.IdempotencyKey, q.Body = key, sha256.Sum256(raw)
		q.Answer = func(results []record.Result) (int, []byte) { return h.answerEvents(results, list.warnings) }
	}
	out, err := h.c.Recorder.Record(ctx, q)
	if err != nil {
		return h.notRecorded(ctx, c, err).reply()
	}
	c.count(out.Results)
	if key != "" {
		return reply{status: out.Status, body: out.Saved, replayed: out.Replayed}
	}
	status, body := h.answerEvents(out.Results, list.warnings)
	return reply{status: status, body: body}
}

// batch is what a request to our own API holds.
type batch struct {
	items    []record.Item
	warnings capi.Problems // about the request itself
}

// readBatch reads one event, a list of them, or an object that has the list in data.
func readBatch(raw []byte) (batch, *wrong) {
	switch raw[0] {
	case '[':
		return readList(raw, own{}, nil)
	case '{':
	default:
		return batch{}, &wrong{http.StatusUnprocessableEntity, capi.ProblemWrongType, "want an object or a list, got " + shape(raw), example, ""}
	}
	data, envelope, several, e := findData(raw)
	if e != nil {
		return batch{}, e
	}
	if !several {
		if len(raw) > maxOne {
			return batch{}, &wrong{
				http.StatusRequestEntityTooLarge, "too_large", "the event is larger than 1 MiB (1048576 bytes)",
				"send fewer contents or custom properties", "",
			}
		}
		return batch{items: []record.Item{readItem(raw, own{})}}, nil
	}
	if data[0] != '[' {
		return batch{}, &wrong{
			http.StatusUnprocessableEntity, capi.ProblemWrongType, "want a list of events, got " + shape(data),
			`send {"data":[{…},{…}]}`, "data",
		}
	}
	var defaults own
	var warnings capi.Problems
	for _, m := range envelope {
		taken, p := defaults.take(m.key, m.value)
		if !taken && !graphOnly[m.key] {
			p = unknownField(m.key)
			if p.Severity == capi.SeverityWarning {
				warnings = append(warnings, *p)
				continue
			}
		}
		if p != nil {
			return batch{}, &wrong{http.StatusUnprocessableEntity, p.Code, p.Reason, p.Fix, p.Field}
		}
	}
	return readList(data, defaults, warnings)
}

// graphOnly are members of a request to Graph that change nothing here.
var graphOnly = map[string]bool{
	"access_token": true, "accessKey": true, "appsecret_proof": true, "id": true,
	"namespace_id": true, "upload_id": true, "upload_tag": true, "upload_source": true,
}

type member struct {
	key   string
	value []byte
}

// findData looks for the member data of an object. Without one the object is an
// event itself.
func findData(raw []byte) (data []byte, others []member, several bool, e *wrong) {
	eachMember(raw, func(key string, value []byte) bool {
		if key == "data" {
			several, data = true, value
		}
		return !several
	})
	if !several { // an event; reading it finds what stands twice
		return nil, nil, false, nil
	}
	seen := make(map[string]bool)
	eachMember(raw, func(key string, value []byte) bool {
		if seen[key] {
			e = &wrong{http.StatusUnprocessableEntity, capi.ProblemDuplicateField, "the field stands twice in one object", "send it once", shortKey(key)}
			return false
		}
		seen[key] = true
		if key != "data" {
			others = append(others, member{key, value})
		}
		return true
	})
	return data, others, true, e
}

func readList(raw []byte, defaults own, warnings capi.Problems) (batch, *wrong) {
	list := batch{warnings: warnings, items: make([]record.Item, 0, min(maxEvents, 1+len(raw)/500))}
	tooMany := false
	eachElement(raw, func(value []byte) bool {
		if tooMany = len(list.items) == maxEvents; tooMany {
			return false
		}
		list.items = append(list.items, readItem(value, defaults))
		return true
	})
	switch {
	case tooMany:
		return batch{}, &wrong{
			http.StatusRequestEntityTooLarge, "too_many_events", "the request holds more than 1000 events",
			"split it into several requests of at most 1000 events", "data",
		}
	case len(list.items) == 0:
		return batch{}, &wrong{http.StatusUnprocessableEntity, "no_events", "the list holds no event", example, "data"}
	}
	return list, nil
}

// bearer returns the key of the header Authorization, "" if there is none.
func bearer(c *call) string {
	scheme, key, _ := strings.Cut(c.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(key)
}

// authenticate finds the workspace that a key opens.
func (h *Handler) authenticate(ctx context.Context, c *call, key string) *wrong {
	now := h.c.Clock.Now()
	if ws, entry, ok := h.c.Settings.Get().Authenticate(key); ok && key != "" {
		if !h.guesses.right(c.peer, entry.Hash, now) {
			e := wrongTooOften()
			return &e
		}
		c.workspace, c.key, c.source = ws, entry, entry.Name
		return nil
	}
	e := wrongKey(key == "")
	if key == "" { // a forgotten header is no guess
		return &e
	}
	ok, first := h.guesses.fail(c.peer, now)
	if first {
		h.c.Log.WarnContext(ctx, "too many wrong API keys from one address", "caller", c.peer.String(), "route", c.route.String())
	}
	if !ok {
		e = wrongTooOften()
	}
	return &e
}

// idempotencyKey reads the header of that name.
func idempotencyKey(c *call) (string, *wrong) {
	values := c.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", nil
	}
	key := strings.TrimSpace(values[0])
	good := len(values) == 1 && key != "" && len(key) <= maxIdempotencyKey
	for i := range len(key) {
		good = good && key[i] >= ' ' && key[i] < 0x7F
	}
	if !good {
		return "", &wrong{
			http.StatusBadRequest, "invalid_idempotency_key", "the header Idempotency-Key is not one text of 1 to 255 visible ASCII characters",
			"send a UUID, a new one for each request and the same one when that is sent again", "Idempotency-Key",
		}
	}
	return key, nil
}

// notRecorded says why nothing was written. What the database said goes to the log
// alone.
func (h *Handler) notRecorded(ctx context.Context, c *call, err error) wrong {
	switch {
	case errors.Is(err, store.ErrIdempotencyKeyReused):
		return wrong{
			http.StatusConflict, "idempotency_key_reused", "this Idempotency-Key was used for another body within seven days",
			"use a new key for a new or corrected request", "Idempotency-Key",
		}
	case errors.Is(err, store.ErrBusy):
		return wrongBusy()
	case errors.Is(err, store.ErrClosed):
		return wrongClosing()
	case errors.Is(err, context.Canceled) && ctx.Err() != nil: // the caller has gone before its turn came
		return wrongBusy()
	}
	h.c.Log.ErrorContext(ctx, "what came in could not be written", "workspace", c.workspace.Name, "route", c.route.String(),
		"error", fmt.Sprintf("%.500s", err.Error()))
	return wrongDown()
}

// count keeps what became of the events, for the metrics and the log.
func (c *call) count(results []record.Result) {
	for i := range results {
		switch r := &results[i]; {
		case r.Rejected != nil:
			c.tally.rejected++
		case r.Duplicate:
			c.tally.duplicates++
		default:
			c.tally.accepted++
		}
	}
}
