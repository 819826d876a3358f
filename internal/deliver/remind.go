package deliver

import (
	"context"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

const (
	// People are reminded at nine in the workspace's time zone; one that fails is tried
	// again until the evening.
	remindAt    = 9
	remindUntil = 20
	remindAgain = 15 * time.Minute
	remindLook  = time.Minute
	// remindMost is how many leads one reminder lists.
	remindMost = 40
	// remindTimeout ends one that hangs.
	remindTimeout = time.Minute
)

// remind asks people, once a day, about leads that nobody has marked.
func (d *Deliverer) remind(ctx context.Context) {
	next := make(map[int64]time.Time) // when a CRM is to be looked at again
	for ctx.Err() == nil {
		now := d.clock.Now()
		for _, c := range d.settings.Get().CRMs() {
			kind, ok := d.crms[c.Kind].(crm.Reminder)
			if !ok || now.Before(next[c.ID]) {
				continue
			}
			ws, c := d.settings.Get().CRM(c.ID)
			if c == nil {
				continue
			}
			again, err := d.remindCRM(ctx, kind, ws, c, now)
			if err != nil && ctx.Err() == nil {
				d.log.Error("nobody could be reminded of open leads; it is tried again", "crm", c.Name, "error", err)
				again = now.Add(remindAgain)
			}
			next[c.ID] = again
		}
		_ = d.clock.Sleep(ctx, remindLook)
	}
}

// remindCRM sends the day's reminder, if it is time and there is something to ask. It
// returns when to look again.
func (d *Deliverer) remindCRM(ctx context.Context, kind crm.Reminder, ws *config.Workspace, c *config.CRM, now time.Time) (time.Time, error) {
	zone := ws.Timezone
	if zone == nil {
		zone = time.UTC
	}
	local := now.In(zone)
	year, month, date := local.Date()
	nine := time.Date(year, month, date, remindAt, 0, 0, 0, zone)
	tomorrow := time.Date(year, month, date+1, remindAt, 0, 0, 0, zone)
	switch {
	case now.Before(nine):
		return earlier(nine, now.Add(time.Hour)), nil // the zone may be changed meanwhile
	case local.Hour() >= remindUntil:
		return earlier(tomorrow, now.Add(time.Hour)), nil
	}
	account := d.crmAccount(ctx, ws, c)
	if !account.Marks || account.MarkURL == nil {
		return now.Add(remindAgain), nil
	}
	open, total, err := d.store.Unmarked(ctx, ws.ID, c.ID, nine.Add(-ledger.MarkValid), nine.Add(-ledger.MarkRemind), remindMost)
	if err != nil || total == 0 {
		return now.Add(time.Hour), err
	}
	r := crm.Reminding{Day: nine.Format(time.DateOnly), Total: total}
	for _, u := range open {
		r.Leads = append(r.Leads, crm.OpenLead(u))
	}
	mine, err := d.store.ClaimReminder(ctx, c.ID, r.Day, now)
	if err != nil || !mine {
		return now.Add(remindAgain), err
	}
	again := d.ask(ctx, kind, account, r, now)
	return now.Add(remindAgain), d.store.EndReminder(context.WithoutCancel(ctx), c.ID, r.Day, again)
}

// ask sends a reminder and returns when to try it again; never, if it went out or may have.
func (d *Deliverer) ask(ctx context.Context, kind crm.Reminder, account crm.Account, r crm.Reminding, now time.Time) time.Time {
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), remindTimeout)
	defer cancel()
	again := time.Time{}
	outcome := kind.Remind(sending, account, r)
	switch o := outcome.(type) {
	case ledger.RetryAt:
		again = now.Add(max(remindAgain, o.Wait))
	case ledger.Hold:
		again = now.Add(remindAgain)
	case ledger.Accepted, ledger.Lost, ledger.Refusal, ledger.Split:
	}
	said := ledger.AnswerOf(outcome)
	if _, ok := outcome.(ledger.Accepted); ok {
		d.log.Info("reminded of open leads", "crm", account.Name, "leads", r.Total)
	} else {
		d.log.Warn("a reminder of open leads was not accepted", "crm", account.Name, "status", said.Status, "answer", said.Message, "next_at", again)
	}
	return again
}
