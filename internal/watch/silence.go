package watch

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// flow is one thing that usually comes: an event of a source, its leads, or the moves to a
// stage.
type flow struct {
	source, name string
	stage        bool
	hours        []hourly
}

// silence notes what usually comes and does not.
func (w *Watcher) silence(ctx context.Context, ws *config.Workspace) error {
	now := w.c.Clock.Now()
	since := now.Add(-2 * learnDays * day) // a month's silence still has its four weeks before
	came, err := w.c.Store.Hourly(ctx, ws.ID, since)
	if err != nil {
		return err
	}
	moved, err := w.c.Store.HourlyMoves(ctx, ws.ID, since)
	if err != nil {
		return err
	}
	known, err := w.c.Store.Findings(ctx, ws.ID)
	if err != nil {
		return err
	}
	stages, err := w.c.Store.Stages(ctx, ws.ID)
	if err != nil {
		return err
	}
	var open []ledger.Finding
	flows := append(flowsOf(came, false), labelled(flowsOf(moved, true), stages)...)
	for source := range bySource(flows) {
		if found := quietOf(ws, source, now); len(found) > 0 && !told(known, source[0].source) {
			open = append(open, found...)
		}
	}
	return w.settle(ctx, ws, open, ledger.FindingSilence)
}

// flowsOf puts the hours of each flow together.
func flowsOf(counts []store.HourCount, stage bool) (list []flow) {
	for _, c := range counts {
		if n := len(list); n == 0 || list[n-1].source != c.Source || list[n-1].name != c.Name {
			list = append(list, flow{source: c.Source, name: c.Name, stage: stage})
		}
		f := &list[len(list)-1]
		if n := len(f.hours); n > 0 && f.hours[n-1].hour == c.Hour {
			f.hours[n-1].n += c.N
			continue
		}
		f.hours = append(f.hours, hourly{c.Hour, c.N})
	}
	return list
}

// labelled calls stages as the CRM's people do.
func labelled(flows []flow, stages []store.SourceStage) []flow {
	for i := range flows {
		f := &flows[i]
		at := slices.IndexFunc(stages, func(s store.SourceStage) bool { return s.Source == f.source && s.ID == f.name && s.Label != "" })
		if at >= 0 {
			f.name = stages[at].Label
		}
	}
	return flows
}

// bySource yields the flows of each source together.
func bySource(flows []flow) func(func([]flow) bool) {
	slices.SortStableFunc(flows, func(a, b flow) int { return strings.Compare(a.source, b.source) })
	return func(yield func([]flow) bool) {
		for len(flows) > 0 {
			n := 1
			for n < len(flows) && flows[n].source == flows[0].source {
				n++
			}
			if !yield(flows[:n]) {
				return
			}
			flows = flows[n:]
		}
	}
}

// quietOf judges the flows of one source. Where all that can be judged is quiet, that is
// one cause, and one finding about the source.
func quietOf(ws *config.Workspace, flows []flow, now time.Time) []ledger.Finding {
	var quiet []ledger.Finding
	judged := 0
	for _, f := range flows {
		p, last, ok := learn(f.hours, ws.Timezone)
		if !ok {
			continue
		}
		judged++
		if expected, silent := p.silent(last, now); silent {
			quiet = append(quiet, ledger.Finding{
				Kind: ledger.FindingSilence, Subject: ledger.SilenceSubject(f.source, shown(f)),
				Evidence: ledger.SilenceEvidence(hop(ws, f), last, expected, p.perDay),
			})
		}
	}
	if judged > 1 && len(quiet) == judged {
		whole := quiet[0]
		whole.Subject = ledger.SilenceSubject(flows[0].source, "")
		return []ledger.Finding{whole}
	}
	return quiet
}

// shown is what a flow is called.
func shown(f flow) string {
	if f.name == ledger.LeadName {
		return "leads"
	}
	return f.name
}

// hop names what has most likely broken: the first of the way that nothing comes through.
func hop(ws *config.Workspace, f flow) string {
	for _, c := range ws.CRMs {
		if c.Name == f.source {
			return ledger.HopPeople // a CRM that cannot be read has a finding of its own
		}
	}
	if f.stage {
		return ledger.HopCRM
	}
	for _, s := range ws.Sources {
		if s.Name != f.source {
			continue
		}
		switch s.Kind {
		case "meta_leads", "linkedin_leads":
			return ledger.HopForm // its leads are listed every quarter of an hour, so none was missed
		case "website":
			return ledger.HopPage
		}
		return ledger.HopWebhook
	}
	return ledger.HopCaller
}

// told tells whether a finding says already that a source cannot be read.
func told(known []ledger.Finding, source string) bool {
	return slices.ContainsFunc(known, func(f ledger.Finding) bool {
		return f.FixedAt.IsZero() && f.Subject == source && (f.Kind == ledger.FindingSource || f.Kind == ledger.FindingStages || f.Kind == ledger.FindingCRM)
	})
}
