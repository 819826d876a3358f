package watch

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

const (
	day        = 24 * time.Hour
	monthDays  = 28 // Meta counts conversions for 28 days
	weekDays   = 7
	fewToJudge = 10 // leads, or moves: below, their shares say nothing
)

// advise notes what Meta is told too little of, for workspaces with rules.
func (w *Watcher) advise(ctx context.Context, ws *config.Workspace) error {
	var open []ledger.Finding
	if len(ws.Rules) > 0 {
		stages, err := w.c.Store.Stages(ctx, ws.ID)
		if err != nil {
			return err
		}
		open = sequence(ws.Rules, stages)
		more, err := w.volume(ctx, ws)
		if err != nil {
			return err
		}
		open = append(open, more...)
	}
	return w.settle(ctx, ws, open, ledger.FindingSequence, ledger.FindingVolume)
}

// sequence says what the rules leave out.
func sequence(rules []ledger.Rule, stages []store.SourceStage) (list []ledger.Finding) {
	add := func(subject, evidence string) {
		list = append(list, ledger.Finding{Kind: ledger.FindingSequence, Subject: subject, Evidence: evidence})
	}
	events := map[string]bool{}
	raw, winners := false, true
	for i := range rules {
		r := &rules[i]
		events[r.Event] = true
		raw = raw || isRaw(r, stages)
		winners = winners && isWinner(r, stages)
	}
	if len(events) < ledger.AdvisedStages {
		add(ledger.TooFewStages, strconv.Itoa(len(events)))
	}
	if !raw {
		add(ledger.NoRawLead, "")
	}
	if winners {
		add(ledger.OnlyWinners, "")
	}
	return list
}

// isRaw tells whether a rule is for leads as they come in: for their receipt, for the
// first stage of a pipeline, or by the name of its event.
func isRaw(r *ledger.Rule, stages []store.SourceStage) bool {
	if r.Stage == ledger.StageReceived || r.Event == "Lead" {
		return true
	}
	for i := range stages {
		st := &stages[i]
		if r.IsFor(st.Source, &st.Stage) && isFirst(st, stages) {
			return true
		}
	}
	return false
}

// isFirst tells whether a stage is the first of its pipeline. Where no list of the CRM
// gives an order, none is.
func isFirst(st *store.SourceStage, stages []store.SourceStage) bool {
	ordered := false
	for i := range stages {
		o := &stages[i]
		if o.Source != st.Source || o.Pipeline != st.Pipeline || o.Field != st.Field {
			continue
		}
		if o.Position < st.Position {
			return false
		}
		ordered = ordered || o.Position > st.Position
	}
	return ordered
}

// wonWords are what a won stage is called where no CRM says that it is one.
var wonWords = []string{"won", "closed won", "closedwon", "sold"}

// isWinner tells whether a rule is for nothing but won stages.
func isWinner(r *ledger.Rule, stages []store.SourceStage) bool {
	if r.Stage == ledger.StageReceived {
		return false
	}
	known, won := false, true
	for i := range stages {
		st := &stages[i]
		if st.Meaning != ledger.MeaningUnknown && r.IsFor(st.Source, &st.Stage) {
			known = true
			won = won && st.Meaning == ledger.MeaningWon
		}
	}
	if known {
		return won
	}
	return r.Event == "Purchase" || slices.Contains(wonWords, strings.ToLower(r.Stage))
}

// volume says how much of what Meta recommends is reached.
func (w *Watcher) volume(ctx context.Context, ws *config.Workspace) (list []ledger.Finding, err error) {
	now := w.c.Clock.Now()
	leads, covered, err := w.c.Store.MetaLeads(ctx, ws.ID, now.Add(-monthDays*day))
	if err != nil {
		return nil, err
	}
	lag, moves, err := w.c.Store.MoveLag(ctx, ws.ID, now.Add(-weekDays*day))
	if err != nil {
		return nil, err
	}
	add := func(subject string, evidence ...string) {
		list = append(list, ledger.Finding{Kind: ledger.FindingVolume, Subject: subject, Evidence: strings.Join(evidence, "\n")})
	}
	if percent := covered * 100 / max(leads, 1); leads >= fewToJudge && percent < ledger.AdvisedCoverage {
		add(ledger.LowCoverage, strconv.FormatInt(percent, 10), strconv.FormatInt(leads, 10))
	}
	if days := int(age(ws, now) / day); leads > 0 && leads < ledger.AdvisedLeads && days >= weekDays { // without any, Meta brings none
		evidence := []string{strconv.FormatInt(leads, 10)}
		if days < monthDays {
			evidence = append(evidence, strconv.Itoa(days))
		}
		add(ledger.FewLeads, evidence...)
	}
	if moves >= fewToJudge && lag > ledger.AdvisedDelay {
		add(ledger.LateEvents, strconv.Itoa(int(lag/time.Hour)))
	}
	return list, nil
}

// age is since when the workspace is connected with anything.
func age(ws *config.Workspace, now time.Time) time.Duration {
	first := now
	earlier := func(t time.Time) {
		if !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	for _, d := range ws.Datasets {
		earlier(d.CreatedAt)
	}
	for _, s := range ws.Sources {
		earlier(s.CreatedAt)
	}
	for _, c := range ws.CRMs {
		earlier(c.CreatedAt)
	}
	return now.Sub(first)
}
