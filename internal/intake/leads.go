package intake

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/capiloop/capiloop/capi"
	leadapi "github.com/capiloop/capiloop/internal/leadform/api"
	"github.com/capiloop/capiloop/internal/record"
)

const leadsPath = "/v1/leads"

// leadAnswer is what became of one lead of a request.
type leadAnswer struct {
	Index    int             `json:"index"`
	ID       string          `json:"id,omitempty"`
	URL      string          `json:"url,omitempty"`
	State    string          `json:"state"` // created, known, merged, rejected
	Problems []problemAnswer `json:"problems,omitempty"`
}

type problemAnswer struct {
	Field  string `json:"field"`
	Code   string `json:"code"`
	Level  string `json:"level"`
	Reason string `json:"reason"`
	Fix    string `json:"fix"`
}

// leads is POST /v1/leads: one lead, or {"data":[…]}. Each is written down by itself;
// the good ones are taken even if others are bad.
func (h *Handler) leads(ctx context.Context, c *call) reply {
	if c.Method != http.MethodPost {
		return wrongMethod().reply()
	}
	if e := h.authenticate(ctx, c, bearer(c)); e != nil {
		return e.reply()
	}
	if kind, _ := mediaType(c); !isJSONType(kind) {
		return wrong{
			http.StatusUnsupportedMediaType, "unsupported_media_type", "this route takes JSON only", "send the header Content-Type: application/json", "",
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
	if e != nil {
		return e.reply()
	}
	items, several, e := leadItems(raw)
	if e != nil {
		return e.reply()
	}
	answers := make([]leadAnswer, len(items))
	for i, item := range items {
		a, err := h.lead(ctx, c, item, i, key, several)
		if err != nil {
			return h.notRecorded(ctx, c, err).reply() // those before are kept; sent again they are known
		}
		answers[i] = a
	}
	return answerLeads(answers, several)
}

// leadItems takes a request apart: one object, a list, or an object with the list in
// data.
func leadItems(raw []byte) (items [][]byte, several bool, e *wrong) {
	list := raw
	if raw[0] == '{' {
		data, _, has, e := findData(raw)
		if e != nil {
			return nil, false, e
		}
		if !has {
			return [][]byte{raw}, false, nil
		}
		list = data
	}
	if list[0] != '[' {
		return nil, false, &wrong{http.StatusUnprocessableEntity, capi.ProblemWrongType, "want a lead or a list of leads, got " + shape(list), `send {"data":[{…},{…}]}`, "data"}
	}
	eachElement(list, func(value []byte) bool {
		items = append(items, value)
		return len(items) <= maxEvents
	})
	switch {
	case len(items) > maxEvents:
		return nil, true, &wrong{http.StatusRequestEntityTooLarge, "too_many_leads", "the request holds more than 1000 leads", "split it into several requests", "data"}
	case len(items) == 0:
		return nil, true, &wrong{http.StatusUnprocessableEntity, "no_leads", "the list holds no lead", `send {"data":[{"email":"jane@example.com"}]}`, "data"}
	}
	return items, true, nil
}

func (h *Handler) lead(ctx context.Context, c *call, raw []byte, index int, key string, several bool) (leadAnswer, error) {
	a := leadAnswer{Index: index}
	lead, problems := leadapi.Decode(raw, h.c.Clock.Now())
	for _, p := range problems {
		a.Problems = append(a.Problems, problemAnswer{p.Field, p.Code, p.Severity.String(), p.Reason, p.Fix})
	}
	if problems.Err() != nil {
		a.State = "rejected"
		c.tally.rejected++
		return a, nil
	}
	lead.Source, lead.Kind = c.key.Name, leadapi.Name
	var done record.LeadResult
	var err error
	if key == "" {
		done, err = h.c.Leads.Lead(ctx, c.workspace, &lead)
	} else {
		if several {
			key = fmt.Sprintf("%s#%d", key, index)
		}
		done, err = h.c.Leads.LeadOnce(ctx, c.workspace, &lead, key, sha256.Sum256(raw))
	}
	if err != nil {
		return a, err
	}
	a.ID, a.URL, a.State = done.ID.String(), h.c.PublicURL+leadsPath+"/"+done.ID.String(), "created"
	c.tally.accepted++
	if done.Duplicate {
		a.State = "known"
		c.tally.accepted--
		c.tally.duplicates++
	} else if done.Merged {
		a.State = "merged"
	}
	return a, nil
}

// answerLeads answers 201 if a lead is new, 200 if all were known, 422 if none could
// be taken.
func answerLeads(answers []leadAnswer, several bool) reply {
	status := http.StatusOK
	rejected := 0
	for _, a := range answers {
		switch a.State {
		case "created":
			status = http.StatusCreated
		case "rejected":
			rejected++
		}
	}
	if rejected == len(answers) {
		status = http.StatusUnprocessableEntity
	}
	var body any = map[string]any{"leads": answers, "rejected": rejected}
	if !several {
		body = answers[0]
		if rejected == 1 {
			p := answers[0].Problems[0]
			body = map[string]any{"error": map[string]string{"code": p.Code, "message": p.Reason, "fix": p.Fix, "field": p.Field}, "problems": answers[0].Problems}
		}
	}
	b, err := json.Marshal(body)
	if err != nil { // texts and numbers only
		return wrong{http.StatusInternalServerError, "internal", "the answer could not be written; the leads were taken", "look them up by their ids", ""}.reply()
	}
	return reply{status: status, body: b}
}
