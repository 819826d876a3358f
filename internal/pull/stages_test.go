package pull_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// teller is a CRM that tells of stages.
type teller struct {
	mu      sync.Mutex
	stages  []ledger.Stage
	moves   []ledger.StageChange
	asked   []time.Time // since when the moves were asked for
	trouble error
}

func (c *teller) Options() []crm.Option { return []crm.Option{crm.WatchOption("")} }
func (c *teller) Deliver(context.Context, crm.Account, *ledger.Lead, []string) crm.Delivered {
	return crm.Delivered{}
}
func (c *teller) Preview(crm.Account, *ledger.Lead) []crm.Call              { return nil }
func (c *teller) Check(context.Context, crm.Account, bool) []crm.Check      { return nil }
func (c *teller) Pace(crm.Account) (parallel int, perSecond float64)        { return 1, 10 }
func (c *teller) Receive(crm.Incoming, crm.Account, time.Time) crm.Received { return crm.Received{} }

func (c *teller) Complete(_ context.Context, _ crm.Account, change *ledger.StageChange) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	change.Contact.Email = "of-" + change.Records[0] + "@example.com"
	return c.trouble
}

func (c *teller) Stages(context.Context, crm.Account) ([]ledger.Stage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stages, c.trouble
}

func (c *teller) Moves(_ context.Context, _ crm.Account, since time.Time) iter.Seq2[ledger.StageChange, error] {
	return func(yield func(ledger.StageChange, error) bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked = append(c.asked, since)
		if c.trouble != nil {
			yield(ledger.StageChange{}, c.trouble)
			return
		}
		for _, m := range c.moves {
			if !m.At.Before(since) && !yield(m, nil) {
				return
			}
		}
	}
}

// TellsStanding: its hooks tell all tags of a contact, whatever was changed.
func (c *teller) TellsStanding(field string) bool { return field == "tags" }

func (c *teller) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// hook writes a thin change down, as intake does.
func (r *rig) hook(t *testing.T, c ledger.StageChange) {
	t.Helper()
	body, err := json.Marshal(c)
	require.NoError(t, err)
	_, err = r.store.AddNotices(t.Context(), []store.Notice{{
		ID: r.ids.Next(), Workspace: r.ws.ID, Source: store.CRMSource(r.ws.CRMs[0].ID), Key: "stage:" + c.Key, Body: body, At: time.Now(),
	}})
	require.NoError(t, err)
}

func (r *rig) findings(t *testing.T) map[ledger.FindingKind]ledger.Finding {
	t.Helper()
	list, err := r.store.Findings(t.Context(), r.ws.ID)
	require.NoError(t, err)
	open := map[ledger.FindingKind]ledger.Finding{}
	for _, f := range list {
		if f.FixedAt.IsZero() {
			open[f.Kind] = f
		}
	}
	return open
}

// effects are those of all moves of all leads, by stage.
func (r *rig) effects(t *testing.T) map[string]ledger.Effect {
	t.Helper()
	leads, err := r.store.Leads(t.Context(), r.ws.ID, 0, 100)
	require.NoError(t, err)
	got := map[string]ledger.Effect{}
	for _, l := range leads {
		moves, err := r.store.Moves(t.Context(), l.Lead.ID)
		require.NoError(t, err)
		for _, m := range moves {
			got[m.Record+" "+m.Stage] = m.Effect
		}
	}
	return got
}

var onWon = ledger.Rule{Stage: "Won", Event: "Purchase"}

func TestAThinHookIsReadBack(t *testing.T) {
	t.Parallel()
	inBubble(t, nothing, func(t *testing.T, r *rig) {
		time.Sleep(time.Minute)
		at := time.Now()
		r.hook(t, ledger.StageChange{Key: "1", Thin: true, Records: []string{"deal:1"}, Stage: "Won", At: at})
		r.hook(t, ledger.StageChange{Key: "1", Thin: true, Records: []string{"deal:1"}, Stage: "Won", At: at})
		time.Sleep(time.Minute)
		require.Equal(t, map[string]ledger.Effect{"deal:1 Won": ledger.EffectEvent}, r.effects(t))
		require.EqualValues(t, 1, r.notices(t)[store.NoticeDone])
	}, onWon)
}

func TestAHookWaitsWhileTheCRMRefuses(t *testing.T) {
	t.Parallel()
	inBubble(t, nothing, func(t *testing.T, r *rig) {
		r.crm.change(func() {
			r.crm.trouble = &crm.ReadError{Outcome: ledger.Hold{Reason: ledger.TokenInvalid}, Err: errors.New("the token was refused")}
		})
		r.hook(t, ledger.StageChange{Key: "1", Thin: true, Records: []string{"deal:1"}, Stage: "Won", At: time.Now()})
		time.Sleep(3 * time.Hour)
		require.EqualValues(t, 1, r.notices(t)[store.NoticeWaiting])
		require.Equal(t, string(ledger.TokenInvalid), r.findings(t)[ledger.FindingStages].Evidence)
		r.crm.change(func() { r.crm.trouble = nil })
		time.Sleep(time.Hour)
		require.Equal(t, map[string]ledger.Effect{"deal:1 Won": ledger.EffectEvent}, r.effects(t))
		require.NotContains(t, r.findings(t), ledger.FindingStages)
	}, onWon)
}

func TestADeletedRecordIsGivenUp(t *testing.T) {
	t.Parallel()
	inBubble(t, nothing, func(t *testing.T, r *rig) {
		r.crm.change(func() {
			r.crm.trouble = &crm.ReadError{Outcome: ledger.Refusal{}, Err: errors.New("there is no such deal")}
		})
		r.hook(t, ledger.StageChange{Key: "1", Thin: true, Records: []string{"deal:1"}, Stage: "Won"})
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, r.notices(t)[store.NoticeFailed])
	}, onWon)
}

func TestWhatTheCRMHeldIsHistoryAndWhatNoHookToldOfIsCaught(t *testing.T) {
	t.Parallel()
	before := time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)
	inBubble(t, nothing, func(t *testing.T, r *rig) {
		r.crm.change(func() {
			r.crm.stages = []ledger.Stage{{Pipeline: "1", ID: "7", Label: "Won", Meaning: ledger.MeaningWon}}
			r.crm.moves = []ledger.StageChange{{Records: []string{"deal:1"}, Pipeline: "1", Stage: "7", At: before, CreatedAt: before.Add(-time.Hour), Contact: ledger.Contact{Email: "old@example.com"}}}
		})
		time.Sleep(20 * time.Minute)
		require.Equal(t, map[string]ledger.Effect{"deal:1 7": ledger.EffectHistory}, r.effects(t))

		r.crm.change(func() {
			r.crm.moves = append(r.crm.moves, ledger.StageChange{
				Records: []string{"deal:2"}, Pipeline: "1", Stage: "7", At: time.Now(), CreatedAt: before, Contact: ledger.Contact{Email: "new@example.com"},
			})
		})
		time.Sleep(20 * time.Minute)
		require.Equal(t, map[string]ledger.Effect{"deal:1 7": ledger.EffectHistory, "deal:2 7": ledger.EffectEvent}, r.effects(t))
		require.Contains(t, r.log.String(), "no hook told of")
		require.Contains(t, r.crm.asked, time.Time{}, "the first time it is all that the CRM holds")
	}, onWon)
}

// A hook that may tell what stood there long before waits for the baseline, which knows.
func TestAValueThatStoodBeforeTheConnectionIsHistoryHoweverEarlyItsHookComes(t *testing.T) {
	t.Parallel()
	inBubble(t, nothing, func(t *testing.T, r *rig) {
		tag := func(record, value string) ledger.StageChange {
			return ledger.StageChange{Key: record + " " + value, Records: []string{record}, Field: "tags", Stage: value, Contact: ledger.Contact{Email: record[8:] + "@example.com"}}
		}
		hooked := func(c ledger.StageChange) ledger.StageChange {
			c.Thin, c.At = true, time.Now()
			return c
		}
		r.crm.change(func() {
			r.crm.trouble = &crm.ReadError{Outcome: ledger.RetryAt{Reason: ledger.Backlog}, Err: errors.New("out of order")}
		})
		time.Sleep(time.Minute)
		r.hook(t, hooked(tag("contact:1", "hot")))
		time.Sleep(10 * time.Minute)
		require.Empty(t, r.effects(t))
		r.crm.change(func() {
			r.crm.trouble = nil
			r.crm.moves = []ledger.StageChange{tag("contact:1", "hot")}
		})
		time.Sleep(time.Hour)
		require.Equal(t, map[string]ledger.Effect{"contact:1 hot": ledger.EffectHistory}, r.effects(t))
		r.hook(t, hooked(tag("contact:2", "hot")))
		time.Sleep(time.Minute)
		require.Equal(t, map[string]ledger.Effect{"contact:1 hot": ledger.EffectHistory, "contact:2 hot": ledger.EffectEvent}, r.effects(t))
	}, ledger.Rule{Field: "tags", Is: "hot", Event: "QualifiedLead"})
}

func TestARuleForAStageThatIsNotThere(t *testing.T) {
	t.Parallel()
	inBubble(t, nothing, func(t *testing.T, r *rig) {
		r.crm.change(func() { r.crm.stages = []ledger.Stage{{Pipeline: "1", ID: "7", Label: "Contract"}} })
		time.Sleep(20 * time.Minute)
		require.Contains(t, r.findings(t)[ledger.FindingMapping].Explain().Cause, "Won")
		r.crm.change(func() { r.crm.stages = append(r.crm.stages, ledger.Stage{Pipeline: "1", ID: "8", Label: "won"}) })
		time.Sleep(20 * time.Minute)
		require.NotContains(t, r.findings(t), ledger.FindingMapping)
	}, onWon)
}

func TestARuleForAFieldThatNobodyWatches(t *testing.T) {
	t.Parallel()
	won := ledger.Stage{Field: "status", ID: "won"}
	for field, cause := range map[string]string{"score": "", "status": "", "budget": "The CRM does not tell of the field budget, so the rule never holds."} {
		inBubble(t, nothing, func(t *testing.T, r *rig) {
			r.crm.change(func() { r.crm.stages = []ledger.Stage{won} })
			time.Sleep(20 * time.Minute)
			f, found := r.findings(t)[ledger.FindingMapping]
			require.Equal(t, cause != "", found, field)
			if found {
				require.Equal(t, cause, f.Explain().Cause)
			}
		}, ledger.Rule{Field: field, Is: "9", Event: "QualifiedLead"})
	}
}

func TestWithoutRulesForStagesTheCRMIsLeftAlone(t *testing.T) {
	t.Parallel()
	inBubble(t, nothing, func(t *testing.T, r *rig) {
		time.Sleep(time.Hour)
		require.Empty(t, r.crm.asked)
	}, ledger.Rule{Stage: ledger.StageReceived, Event: "Lead"})
}
