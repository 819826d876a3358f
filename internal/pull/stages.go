package pull

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// completeChange reads what the hook of a CRM left out, and records the change.
func (p *Puller) completeChange(ctx context.Context, n store.Notice) error {
	ws, c := p.crm(n.Workspace, n.Source)
	if c == nil {
		return p.c.Store.SettleNotice(ctx, n, store.NoticeFailed, ledger.DestinationGone, time.Time{}, "", false)
	}
	kind, ok := p.c.CRMs[c.Kind].(crm.StageCompleter)
	var change ledger.StageChange
	if err := json.Unmarshal(n.Body, &change); err != nil || !ok {
		return p.c.Store.SettleNotice(ctx, n, store.NoticeFailed, ledger.None, time.Time{}, c.Name, false)
	}
	if change.At.IsZero() {
		change.At = n.At
	}
	if err := p.baselineRead(ctx, kind, ws, c, &change); err != nil {
		return p.failed(ctx, n, c.Name, err)
	}
	if err := kind.Complete(ctx, p.c.Account(ctx, ws, c), &change); err != nil {
		return p.failed(ctx, n, c.Name, err)
	}
	if _, err := p.c.Recorder.Stages(ctx, ws, c.Name, c.Kind, c.ID, []ledger.StageChange{change}); err != nil {
		return err // the lease ends and it comes again
	}
	return p.c.Store.SettleNotice(ctx, n, store.NoticeDone, ledger.None, time.Time{}, c.Name, false)
}

// baselineRead lets a value wait of which only the baseline can tell whether it is history.
// Where no rule is for stages nothing is read, and nothing could be sent.
func (p *Puller) baselineRead(ctx context.Context, kind crm.CRM, ws *config.Workspace, c *config.CRM, change *ledger.StageChange) error {
	if !tellsStanding(kind, change) || !followed(ws, c) {
		return nil
	}
	to, err := p.c.Store.PolledTo(ctx, c.ID)
	if err == nil && to.IsZero() {
		err = crm.Unread("the baseline", ledger.RetryAt{Reason: ledger.Backlog, Answer: ledger.Answer{Message: "what the CRM held at the connection is still being read"}})
	}
	return err
}

// tellsStanding says whether hooks tell of the field of a change without telling whether its
// value is new.
func tellsStanding(kind crm.CRM, change *ledger.StageChange) bool {
	standing, ok := kind.(crm.Standing)
	return ok && standing.TellsStanding(change.Field)
}

func (p *Puller) crm(ws, source int64) (*config.Workspace, *config.CRM) {
	w := p.c.Settings.Get().WorkspaceByID(ws)
	if w == nil {
		return nil, nil
	}
	for _, c := range w.CRMs {
		if store.CRMSource(c.ID) == source {
			return w, c
		}
	}
	return w, nil
}

// look is how often it is seen which CRMs are to be looked at.
const look = 15 * time.Second

// followCRMs keeps the stages of every CRM that a rule may be for up to date, and looks
// for moves that no hook told of: each CRM by itself, so that a slow one keeps none waiting.
func (p *Puller) followCRMs(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	var mu sync.Mutex
	busy, due, began := make(map[int64]bool), make(map[int64]time.Time), make(map[int64]time.Time) // by destination
	for ctx.Err() == nil {
		for _, ws := range p.c.Settings.Get().Workspaces {
			for _, c := range ws.CRMs {
				now := p.c.Clock.Now()
				mu.Lock()
				wanted := followed(ws, c) && !busy[c.ID] && !now.Before(due[c.ID])
				busy[c.ID] = busy[c.ID] || wanted
				if began[c.ID].IsZero() && wanted {
					began[c.ID] = now
				}
				first := began[c.ID]
				mu.Unlock()
				if !wanted {
					continue
				}
				running.Go(func() {
					p.followCRM(ctx, ws, c, first)
					mu.Lock()
					defer mu.Unlock()
					busy[c.ID], due[c.ID] = false, now.Add(c.Poll)
				})
			}
		}
		_ = p.c.Clock.Sleep(ctx, look)
	}
}

// followed tells whether the stages of a CRM are looked at.
func followed(ws *config.Workspace, c *config.CRM) bool { return c.Poll > 0 && hasStageRules(ws) }

func hasStageRules(ws *config.Workspace) bool {
	return slices.ContainsFunc(ws.Rules, func(r ledger.Rule) bool { return r.Stage != ledger.StageReceived })
}

// followCRM looks at one CRM. began is when this process looked at it for the first time, or
// tried to.
func (p *Puller) followCRM(ctx context.Context, ws *config.Workspace, c *config.CRM, began time.Time) {
	kind := p.c.CRMs[c.Kind]
	var err error
	if lister, ok := kind.(crm.StageLister); ok {
		err = p.listStages(ctx, lister, ws, c)
	}
	if poller, ok := kind.(crm.StagePoller); ok && err == nil {
		err = p.pollMoves(ctx, poller, ws, c, began)
	}
	if err != nil && ctx.Err() == nil {
		p.readFailed(ctx, ws, c.Name, store.CRMSource(c.ID), err)
	}
	if err := p.checkRules(ctx, ws); err != nil && ctx.Err() == nil {
		p.c.Log.Error("the rules could not be compared with the CRM's stages", "workspace", ws.Name, "error", err)
	}
}

func (p *Puller) listStages(ctx context.Context, kind crm.StageLister, ws *config.Workspace, c *config.CRM) error {
	stages, err := kind.Stages(ctx, p.c.Account(ctx, ws, c))
	if err != nil {
		return err
	}
	return p.c.Store.SaveStages(ctx, ws.ID, c.Name, stages, p.c.Clock.Now(), func(st ledger.Stage) bool {
		return slices.ContainsFunc(ws.Rules, func(r ledger.Rule) bool { return r.IsFor(c.Name, &st) })
	})
}

// checkRules opens a finding for each rule that no CRM has a stage for, or whose field none
// watches, where all CRMs of the workspace list their stages: a typing error would otherwise
// just send nothing.
func (p *Puller) checkRules(ctx context.Context, ws *config.Workspace) error {
	for _, c := range ws.CRMs {
		if _, ok := p.c.CRMs[c.Kind].(crm.StageLister); !ok {
			return nil
		}
	}
	if len(ws.CRMs) == 0 {
		return nil
	}
	stages, err := p.c.Store.Stages(ctx, ws.ID)
	if err != nil || len(stages) == 0 {
		return err
	}
	for i := range ws.Rules {
		r := &ws.Rules[i]
		if r.Stage == ledger.StageReceived {
			continue
		}
		f := ledger.Finding{
			Workspace: ws.ID, Kind: ledger.FindingMapping, Subject: "rule/" + r.Stage + r.Field, At: p.c.Clock.Now(),
			Evidence: ledger.StageEvidence(ledger.RuleWithout, r.Stage),
		}
		known := slices.ContainsFunc(stages, func(st store.SourceStage) bool {
			return r.IsFor(st.Source, &st.Stage) || r.Field != "" && strings.EqualFold(r.Field, st.Field)
		})
		if r.Field != "" {
			f.Evidence = ledger.StageEvidence(ledger.Unwatched, r.Field)
			known = known || p.watched(ctx, ws, r)
		}
		if err := p.c.Store.Note(ctx, f, !known); err != nil {
			return err
		}
	}
	return nil
}

// watched tells whether a CRM may tell of the field of a rule: it watches the field, or
// tells of all that it has.
func (p *Puller) watched(ctx context.Context, ws *config.Workspace, r *ledger.Rule) bool {
	return slices.ContainsFunc(ws.CRMs, func(c *config.CRM) bool {
		if r.CRM != "" && r.CRM != c.Name {
			return false
		}
		named := func(field string) bool { return strings.EqualFold(field, r.Field) }
		return !crm.Watches(p.c.CRMs[c.Kind]) || slices.ContainsFunc(crm.Watched(p.c.Account(ctx, ws, c)), named)
	})
}

// pollOverlap is looked at again each time: searches of CRMs see a write seconds late.
const pollOverlap = 2 * time.Minute

// pollMoves reads the moves since the last time. The first time is the baseline: what the
// CRM held when it was connected is history. A record that was made since that look began held
// nothing before, so its hook, which waits, tells of it.
func (p *Puller) pollMoves(ctx context.Context, kind crm.StagePoller, ws *config.Workspace, c *config.CRM, began time.Time) error {
	now := p.c.Clock.Now()
	since, err := p.c.Store.PolledTo(ctx, c.ID)
	if err != nil {
		return err
	}
	if !since.IsZero() {
		since = since.Add(-pollOverlap)
	}
	seen, caught := 0, 0
	for change, err := range kind.Moves(ctx, p.c.Account(ctx, ws, c), since) {
		if err != nil {
			return err
		}
		if since.IsZero() && tellsStanding(kind, &change) && !change.CreatedAt.Before(began) {
			continue
		}
		if change.At.IsZero() && since.IsZero() { // the CRM does not say when: at the connection it is history
			change.History = true
		}
		done, err := p.c.Recorder.Stages(ctx, ws, c.Name, c.Kind, c.ID, []ledger.StageChange{change})
		if err != nil {
			return err
		}
		seen++
		if !done[0].Duplicate {
			caught++
		}
	}
	if caught > 0 {
		p.c.Log.Info("stage changes read from the CRM that no hook told of", "crm", c.Name, "caught", caught, "seen", seen, "first", since.IsZero())
	}
	return p.c.Store.Polled(ctx, ws.ID, c.ID, c.Name, now)
}

// readFailed notes that a CRM's stages cannot be read, where a person must do something.
func (p *Puller) readFailed(ctx context.Context, ws *config.Workspace, name string, source int64, err error) {
	p.c.Log.Warn("the stages of a CRM could not be read; it is tried again", "crm", name, "error", err)
	var f *crm.ReadError
	if !errors.As(err, &f) {
		return
	}
	if o, held := f.Outcome.(ledger.Hold); held {
		finding := ledger.Finding{Workspace: ws.ID, Kind: store.ReadFinding(source), Subject: name, Evidence: string(o.Reason), At: p.c.Clock.Now()}
		if err := p.c.Store.Raise(ctx, finding); err != nil {
			p.c.Log.Error("a finding could not be noted", "error", err)
		}
	}
}

// outcomeOf says what a failed reading means, of a lead or of a stage change.
func outcomeOf(err error) ledger.Outcome {
	if f, ok := errors.AsType[*leadform.FetchError](err); ok {
		return f.Outcome
	}
	if f, ok := errors.AsType[*crm.ReadError](err); ok {
		return f.Outcome
	}
	return ledger.RetryAt{Reason: ledger.Backlog}
}
