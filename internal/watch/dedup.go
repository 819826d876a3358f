package watch

import (
	"context"
	"fmt"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/report"
)

// dedup notes what the browsers' and the servers' copies of events show: that they do not
// pair, and pages from which no server hears.
func (w *Watcher) dedup(ctx context.Context, ws *config.Workspace) error {
	now := w.c.Clock.Now()
	d, err := report.Meter{Store: w.c.Store, Prints: w.c.Prints}.Measure(ctx, ws, now.Add(-weekDays*day), now)
	if err != nil {
		return err
	}
	var open []ledger.Finding
	for i := range d.Rows {
		r := &d.Rows[i]
		if r.Trouble() {
			open = append(open, ledger.Finding{Kind: ledger.FindingDedupIDs, Subject: ledger.DedupSubject(r.Dataset, r.Event, ""), Evidence: ledger.StageEvidence(r.Summary(), r.NextStep)})
		}
		for _, p := range r.Silent() {
			open = append(open, ledger.Finding{
				Kind: ledger.FindingDedupMissing, Subject: ledger.DedupSubject(r.Dataset, r.Event, p.Page),
				Evidence: ledger.StageEvidence(p.Title(r.Event), fmt.Sprintf("%d of %d %s of %s came from browsers only", p.Missing, p.Events, r.Event, p.Page), r.Event),
			})
		}
	}
	return w.settle(ctx, ws, open, ledger.FindingDedupIDs, ledger.FindingDedupMissing)
}
