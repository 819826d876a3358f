package intake

import (
	"context"
	"net/http"
	"strings"

	"github.com/capiloop/capiloop/capi"
)

// thing is what a route takes one or several of, in the words of its errors.
type thing struct {
	one, several string // "lead", "leads"
	code         string // of too_many_leads, no_leads
	example      string // stands in the fix of every body that cannot be read
	smaller      string // how one that is too large gets smaller
	// enveloped things may stand in an object under data, one by one.
	enveloped bool
}

// posted reads what was sent to a route of things: JSON, by who has a key of the
// workspace. key is the Idempotency-Key, "" if there is none.
func (h *Handler) posted(ctx context.Context, c *call, what *thing) (raw []byte, key string, e *wrong) {
	if c.Method != http.MethodPost {
		w := wrongMethod()
		return nil, "", &w
	}
	if e := h.authenticate(ctx, c, bearer(c)); e != nil {
		return nil, "", e
	}
	if kind, _ := mediaType(c); !isJSONType(kind) {
		return nil, "", &wrong{
			http.StatusUnsupportedMediaType, "unsupported_media_type", "this route takes JSON only", "send the header Content-Type: application/json", "",
		}
	}
	if key, e = idempotencyKey(c); e != nil {
		return nil, "", e
	}
	raw, e = readBody(c)
	if e == nil {
		raw, e = readJSON(raw)
	}
	if e != nil {
		e.fix = strings.Replace(e.fix, example, what.example, 1)
		return nil, "", e
	}
	return raw, key, nil
}

// items takes a request apart: one object, a list, or an object with the list in data.
func (what *thing) items(raw []byte) (items [][]byte, several bool, e *wrong) {
	list := raw
	if raw[0] == '{' {
		data, _, has, e := findData(raw)
		if e != nil {
			return nil, false, e
		}
		alone := !has || what.enveloped && data[0] == '{'
		if alone && len(raw) > maxOne {
			return nil, false, &wrong{http.StatusRequestEntityTooLarge, "too_large", "the " + what.one + " is larger than 1 MiB (1048576 bytes)", what.smaller, ""}
		}
		if alone {
			return [][]byte{raw}, false, nil
		}
		list = data
	}
	if list[0] != '[' {
		return nil, false, &wrong{
			http.StatusUnprocessableEntity, capi.ProblemWrongType, "want a " + what.one + " or a list of " + what.several + ", got " + shape(list), what.example, "data",
		}
	}
	eachElement(list, func(value []byte) bool {
		items = append(items, value)
		return len(items) <= maxEvents
	})
	switch {
	case len(items) > maxEvents:
		return nil, true, &wrong{
			http.StatusRequestEntityTooLarge, "too_many_" + what.code, "the request holds more than 1000 " + what.several, "split it into several requests", "data",
		}
	case len(items) == 0:
		return nil, true, &wrong{http.StatusUnprocessableEntity, "no_" + what.code, "the list holds no " + what.one, what.example, "data"}
	}
	return items, true, nil
}

type problemAnswer struct {
	Field  string `json:"field"`
	Code   string `json:"code"`
	Level  string `json:"level"`
	Reason string `json:"reason"`
	Fix    string `json:"fix"`
}

func problemAnswers(problems capi.Problems) []problemAnswer {
	list := make([]problemAnswer, 0, len(problems))
	for _, p := range problems {
		list = append(list, problemAnswer{p.Field, p.Code, p.Severity.String(), p.Reason, p.Fix})
	}
	return list
}

// rejectedAnswer is the body of an answer about one thing that was not taken.
func rejectedAnswer(problems []problemAnswer) any {
	p := firstAnswer(problems)
	return map[string]any{"error": map[string]string{"code": p.Code, "message": p.Reason, "fix": p.Fix, "field": p.Field}, "problems": problems}
}

// firstAnswer returns the problem for which a thing was rejected.
func firstAnswer(list []problemAnswer) problemAnswer {
	for _, p := range list {
		if p.Level == capi.SeverityError.String() {
			return p
		}
	}
	return list[0]
}
