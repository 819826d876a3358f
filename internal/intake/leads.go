package intake

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

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
		e.fix = strings.Replace(e.fix, example, leadExample, 1)
		return e.reply()
	}
	items, several, e := leadItems(raw)
	if e != nil {
		return e.reply()
	}
	once := onceOnly{key: key, body: sha256.Sum256(raw), several: several}
	answers := make([]leadAnswer, len(items))
	for i, item := range items {
		a, err := h.lead(ctx, c, item, i, once)
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
		if !has && len(raw) > maxOne {
			return nil, false, &wrong{http.StatusRequestEntityTooLarge, "too_large", "the lead is larger than 1 MiB (1048576 bytes)", "send shorter answers", ""}
		}
		if !has {
			return [][]byte{raw}, false, nil
		}
		list = data
	}
	if list[0] != '[' {
		return nil, false, &wrong{http.StatusUnprocessableEntity, capi.ProblemWrongType, "want a lead or a list of leads, got " + shape(list), leadExample, "data"}
	}
	eachElement(list, func(value []byte) bool {
		items = append(items, value)
		return len(items) <= maxEvents
	})
	switch {
	case len(items) > maxEvents:
		return nil, true, &wrong{http.StatusRequestEntityTooLarge, "too_many_leads", "the request holds more than 1000 leads", "split it into several requests", "data"}
	case len(items) == 0:
		return nil, true, &wrong{http.StatusUnprocessableEntity, "no_leads", "the list holds no lead", leadExample, "data"}
	}
	return items, true, nil
}

// leadExample stands in the fix of every body that cannot be read.
const leadExample = `send a lead such as {"lead_id":"1234567890123456","platform":"meta","email":"jane@example.com"}, or {"data":[…]} with several`

// onceOnly is the Idempotency-Key of a request, with the SHA-256 of its body.
type onceOnly struct {
	key     string // "": there is none
	body    [32]byte
	several bool
}

func (h *Handler) lead(ctx context.Context, c *call, raw []byte, index int, once onceOnly) (leadAnswer, error) {
	a := leadAnswer{Index: index}
	lead, problems := leadapi.Decode(raw, h.c.Clock.Now())
	for _, p := range problems {
		a.Problems = append(a.Problems, problemAnswer{p.Field, p.Code, p.Severity.String(), p.Reason, p.Fix})
	}
	if err := problems.Err(); err != nil {
		a.State = "rejected"
		c.tally.rejected++
		return a, nil //nolint:nilerr // the caller is told in the answer
	}
	lead.Source, lead.Kind = c.key.Name, leadapi.Name
	var done record.LeadResult
	var err error
	if key := once.key; key == "" {
		done, err = h.c.Leads.Lead(ctx, c.workspace, &lead)
	} else {
		if once.several {
			key = fmt.Sprintf("%s#%d", key, index)
		}
		done, err = h.c.Leads.LeadOnce(ctx, c.workspace, &lead, key, once.body)
	}
	if err != nil {
		return a, err
	}
	a.ID, a.URL, a.State = done.ID.String(), h.c.PublicURL+leadsPath+"/"+done.ID.String(), "created"
	c.tally.lead(done)
	switch {
	case done.Duplicate:
		a.State = "known"
	case done.Merged:
		a.State = "merged"
	}
	return a, nil
}

// lead counts a lead that was recorded.
func (t *tally) lead(done record.LeadResult) {
	if done.Duplicate {
		t.duplicates++
	} else {
		t.accepted++
	}
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
			p := firstAnswer(answers[0].Problems)
			body = map[string]any{"error": map[string]string{"code": p.Code, "message": p.Reason, "fix": p.Fix, "field": p.Field}, "problems": answers[0].Problems}
		}
	}
	b, err := json.Marshal(body)
	if err != nil { // texts and numbers only
		return wrong{http.StatusInternalServerError, "internal", "the answer could not be written; the leads were taken", "look them up by their ids", ""}.reply()
	}
	return reply{status: status, body: b}
}

// firstAnswer returns the problem for which a lead was rejected.
func firstAnswer(list []problemAnswer) problemAnswer {
	for _, p := range list {
		if p.Level == capi.SeverityError.String() {
			return p
		}
	}
	return list[0]
}
