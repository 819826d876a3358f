package intake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/record"
)

// StageRecorder writes stage changes down, and what a CRM says of its records.
type StageRecorder interface {
	Stages(ctx context.Context, ws *config.Workspace, source, kind string, destination int64, changes []ledger.StageChange) ([]record.StageResult, error)
	Merge(ctx context.Context, ws *config.Workspace, destination int64, m ledger.Merge) error
}

const stagesPath = "/v1/stages"

// stagesKind is the kind of the source of changes that callers send.
const stagesKind = "api"

var stageThing = thing{
	one: "stage change", several: "stage changes", code: "stages", smaller: "send fewer or shorter fields", enveloped: true,
	example: `send a stage change such as {"lead_id":"1234567890123456","stage":"Qualified","occurred_at":"2026-11-18T14:06:37+03:00"}, or {"data":[…]} with several`,
}

// stageAnswer is what became of one stage change of a request.
type stageAnswer struct {
	Index     int             `json:"index"`
	ID        string          `json:"id,omitempty"`
	Lead      string          `json:"lead,omitempty"`
	Effect    string          `json:"effect"` // one of the ledger's, or rejected
	Sentence  string          `json:"sentence"`
	Duplicate bool            `json:"duplicate"`
	Events    []string        `json:"events"`
	URL       string          `json:"url,omitempty"` // of the lead
	Problems  []problemAnswer `json:"problems,omitempty"`
}

const effectRejected = "rejected"

// stages is POST /v1/stages: one stage change, or {"data":[…]}. The good ones are taken
// even if others are bad.
func (h *Handler) stages(ctx context.Context, c *call) reply {
	raw, key, e := h.posted(ctx, c, &stageThing)
	if e != nil {
		return e.reply()
	}
	items, several, e := stageThing.items(raw)
	if e != nil {
		return e.reply()
	}
	answers := make([]stageAnswer, len(items))
	var changes []ledger.StageChange
	var at []int // index in answers of each change
	now := h.c.Clock.Now()
	for i, item := range items {
		change, problems := crm.DecodeStage(item, now)
		answers[i] = stageAnswer{Index: i, Problems: problemAnswers(problems), Events: []string{}}
		if problems.Err() != nil {
			answers[i].Effect, answers[i].Sentence = effectRejected, firstAnswer(answers[i].Problems).Reason
			c.tally.rejected++
			continue
		}
		if key != "" {
			steady(&change, item, key, i, now)
		}
		changes, at = append(changes, change), append(at, i)
	}
	if len(changes) > 0 {
		if err := h.bind(ctx, c, key, raw); err != nil {
			return h.notRecorded(ctx, c, err).reply()
		}
		done, err := h.c.Stages.Stages(ctx, c.workspace, c.key.Name, stagesKind, 0, changes)
		if err != nil {
			return h.notRecorded(ctx, c, err).reply() // those before are kept; sent again they are known
		}
		c.tally.stages(done)
		for n := range done {
			h.fillStage(&answers[at[n]], &done[n])
		}
	}
	return answerStages(answers, several)
}

// steady lets a change be recognised by the request's Idempotency-Key if the moment of
// its receipt is all that tells it from others: that is another one when the request is
// sent again.
func steady(change *ledger.StageChange, item []byte, key string, index int, now time.Time) {
	if !change.At.IsZero() {
		return
	}
	if later, _ := crm.DecodeStage(item, now.Add(time.Hour)); later.Key == change.Key {
		return // by an id of the sender's
	}
	sum := sha256.Sum256([]byte("idempotency\x00" + key + "\x00" + strconv.Itoa(index)))
	change.Key = hex.EncodeToString(sum[:])
}

// bind ties an Idempotency-Key to the body that came with it, before anything of that is
// written; another body is refused with store.ErrIdempotencyKeyReused. The changes
// themselves are recognised one by one.
func (h *Handler) bind(ctx context.Context, c *call, key string, raw []byte) error {
	if key == "" {
		return nil
	}
	_, err := h.c.Recorder.Record(ctx, record.Request{
		Workspace: c.workspace, Source: c.source, IdempotencyKey: key,
		Body:   sha256.Sum256(append([]byte(stagesPath+"\n"), raw...)), // the same body is another request on another route
		Answer: func([]record.Result) (int, []byte) { return http.StatusOK, []byte("{}\n") },
	})
	return err
}

func (h *Handler) fillStage(a *stageAnswer, done *record.StageResult) {
	a.ID, a.Effect, a.Sentence, a.Duplicate = done.ID.String(), string(done.Effect), done.Effect.Sentence(), done.Duplicate
	if done.Duplicate {
		a.Sentence = "The same stage change came before; it counts once."
	}
	if done.Lead != 0 {
		a.Lead, a.URL = done.Lead.String(), h.c.PublicURL+leadsPath+"/"+done.Lead.String()
	}
	for _, id := range done.Events {
		a.Events = append(a.Events, id.String())
	}
}

// stages counts stage changes that were recorded.
func (t *tally) stages(done []record.StageResult) {
	for i := range done {
		if done[i].Duplicate {
			t.duplicates++
		} else {
			t.accepted++
		}
	}
}

// answerStages answers 201 if a change is new, 200 if all were known, 422 if none could
// be taken.
func answerStages(answers []stageAnswer, several bool) reply {
	status := http.StatusOK
	rejected := 0
	for i := range answers {
		switch {
		case answers[i].Effect == effectRejected:
			rejected++
		case !answers[i].Duplicate:
			status = http.StatusCreated
		}
	}
	if rejected == len(answers) {
		status = http.StatusUnprocessableEntity
	}
	var body any = map[string]any{"stages": answers, "rejected": rejected}
	switch {
	case several:
	case rejected == 1:
		body = rejectedAnswer(answers[0].Problems)
	default:
		body = answers[0]
	}
	b, err := json.Marshal(body)
	if err != nil { // texts and numbers only
		return wrong{http.StatusInternalServerError, "internal", "the answer could not be written; the stage changes were taken", "look them up at their leads", ""}.reply()
	}
	return reply{status: status, body: b}
}
