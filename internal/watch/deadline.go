package watch

import (
	"context"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
)

// soon is how long before a deadline a finding is opened.
const soon = 24 * time.Hour

// deadlines notes what would be lost within a day: one finding for an event and its
// destination. What only waits for its turn leaves within seconds.
func (w *Watcher) deadlines(ctx context.Context, ws *config.Workspace) error {
	now := w.c.Clock.Now()
	list, err := w.c.Store.Deadlines(ctx, ws.ID, now, now.Add(soon))
	if err != nil {
		return err
	}
	type cause struct {
		why   ledger.Reason
		count int64
		first time.Time
	}
	var order []string
	causes := map[string]*cause{}
	for _, d := range list { // the soonest first: its reason is the finding's
		if d.Reason == ledger.Queued {
			continue
		}
		subject := ledger.DeadlineSubject(d.Destination, d.Name)
		if causes[subject] == nil {
			causes[subject] = &cause{why: d.Reason, first: d.First}
			order = append(order, subject)
		}
		causes[subject].count += d.Count
	}
	var open []ledger.Finding
	for _, subject := range order {
		c := causes[subject]
		open = append(open, ledger.Finding{Kind: ledger.FindingDeadline, Subject: subject, Evidence: ledger.DeadlineEvidence(c.why, c.count, c.first)})
	}
	return w.settle(ctx, ws, open, ledger.FindingDeadline)
}
