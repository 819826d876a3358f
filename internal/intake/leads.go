package intake

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"

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

// leads is POST /v1/leads: one lead, or {"data":[…]}. Each is written down by itself;
// the good ones are taken even if others are bad.
func (h *Handler) leads(ctx context.Context, c *call) reply {
	raw, key, e := h.posted(ctx, c, &leadThing)
	if e != nil {
		return e.reply()
	}
	items, several, e := leadThing.items(raw)
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

var leadThing = thing{
	one: "lead", several: "leads", code: "leads", smaller: "send shorter answers",
	example: `send a lead such as {"lead_id":"1234567890123456","platform":"meta","email":"jane@example.com"}, or {"data":[…]} with several`,
}

// onceOnly is the Idempotency-Key of a request, with the SHA-256 of its body.
type onceOnly struct {
	key     string // "": there is none
	body    [32]byte
	several bool
}

func (h *Handler) lead(ctx context.Context, c *call, raw []byte, index int, once onceOnly) (leadAnswer, error) {
	lead, problems := leadapi.Decode(raw, h.c.Clock.Now())
	a := leadAnswer{Index: index, Problems: problemAnswers(problems)}
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
			body = rejectedAnswer(answers[0].Problems)
		}
	}
	b, err := json.Marshal(body)
	if err != nil { // texts and numbers only
		return wrong{http.StatusInternalServerError, "internal", "the answer could not be written; the leads were taken", "look them up by their ids", ""}.reply()
	}
	return reply{status: status, body: b}
}
