package deliver

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// aside is how long a lead waits whose CRM takes others but not this one.
const aside = 5 * time.Minute

// crmLane returns the lane of a CRM. It carries leads: each has a call of its own,
// several at once as far as the CRM allows.
func (d *Deliverer) crmLane(id int64) *lane {
	l := &lane{d: d, destination: id, log: d.log, crm: true}
	var pace *rate.Limiter
	l.ready = func() (func(context.Context, bool) time.Duration, bool) {
		ws, c := d.settings.Get().CRM(id)
		if c == nil || d.crms[c.Kind] == nil {
			return nil, false
		}
		return func(ctx context.Context, probe bool) time.Duration {
			h := &handover{lane: l, ws: ws, crm: d.crms[c.Kind], account: d.crmAccount(ctx, ws, c)}
			parallel, perSecond := h.crm.Pace(h.account)
			if pace == nil {
				pace = rate.NewLimiter(rate.Limit(perSecond), max(parallel, 1))
			}
			pace.SetLimit(rate.Limit(perSecond))
			h.pace = pace
			return h.send(ctx, parallel, probe)
		}, true
	}
	return l
}

// handover is one batch of leads on its way into a CRM.
type handover struct {
	*lane
	ws      *config.Workspace
	crm     crm.CRM
	account crm.Account
	pace    *rate.Limiter
}

// handed is what became of one lead.
type handed struct {
	row       ledger.Row
	delivered crm.Delivered
	copied    []byte // sealed
	gone      bool   // the person's data was cleared
	broken    error  // ours, not the CRM's: the store or a key
}

// send hands over what is due. At least two leads go together, so that one lead's
// own trouble is told from the CRM's.
func (h *handover) send(ctx context.Context, parallel int, probe bool) time.Duration {
	now := h.d.clock.Now()
	rows := max(parallel, 2)
	if probe {
		rows = 1
	}
	batch, state, err := h.d.store.Claim(ctx, store.ClaimRequest{
		Destination: h.destination, Node: h.d.node, Batch: h.d.ids.Next(), Now: now, Lease: h.d.lease(), MaxRows: rows, MaxBytes: 1 << 30, Probe: probe,
	})
	if err != nil && !errors.Is(err, store.ErrLeased) {
		h.storeFailed(ctx, "claim leads", err)
	}
	if err != nil || batch == nil {
		return h.d.poll
	}
	done := make([]handed, len(batch.Rows))
	slots := make(chan struct{}, max(parallel, 1))
	var wg sync.WaitGroup
	for i, row := range batch.Rows {
		slots <- struct{}{}
		wg.Go(func() {
			done[i] = h.one(ctx, row)
			<-slots
		})
	}
	wg.Wait()
	a := attempt{batch: batch, lane: state, now: h.d.clock.Now(), jitter: rand.Float64()} //nolint:gosec // jitter is no secret
	v := a.decideLeads(done)
	h.settle(ctx, &v, a.now.Sub(now))
	return 0
}

// one hands one lead over. When the process stops, a call under way gets a few
// seconds to finish.
func (h *handover) one(ctx context.Context, row ledger.Row) handed {
	out := handed{row: row}
	stored, err := h.d.store.LeadFor(ctx, h.destination, row.ID)
	if err != nil {
		out.broken = err
		return out
	}
	if stored.Wrapped == nil || stored.Sealed == nil {
		out.gone = true
		return out
	}
	lead := stored.Lead
	plain, err := h.ws.Ring.ReadLead(int64(lead.ID), stored.Wrapped, stored.Sealed)
	if err == nil {
		err = lead.Join(plain)
	}
	if err != nil {
		out.broken = err
		return out
	}
	if err := h.pace.Wait(ctx); err != nil {
		out.broken = err
		return out
	}
	calling, cancel := h.withGrace(ctx)
	defer cancel()
	out.delivered = h.crm.Deliver(calling, h.account, &lead, stored.Records)
	if len(out.delivered.Sent) > 0 {
		if out.copied, err = h.ws.Ring.SealCopy(int64(lead.ID), int64(row.ID), stored.Wrapped, out.delivered.Sent); err != nil {
			h.log.Error("the copy of what left could not be sealed", "lead", lead.ID.String(), "error", err)
		}
	}
	return out
}

// decideLeads says what the outcomes of several leads do to the rows and the lane.
// While the CRM takes others, a lead that it does not take steps aside; when it takes
// none, the lane waits or is held, and the rows keep their place.
func (a attempt) decideLeads(done []handed) verdict {
	v := verdict{settlement: ledger.Settlement{
		Batch: a.batch, Outcome: "sent", Lane: a.lane, Records: make(map[ledger.ID][]string), Copies: make(map[ledger.ID][]byte),
	}}
	st := &v.settlement
	taken, worst := false, ledger.Outcome(nil)
	for _, h := range done {
		switch o := h.delivered.Outcome.(type) {
		case ledger.Accepted:
			taken = true
			st.Answer = o.Answer
		case ledger.Hold:
			worst = o
		case ledger.RetryAt, ledger.Lost:
			if _, held := worst.(ledger.Hold); !held {
				worst = o
			}
		case ledger.Refusal, ledger.Split, nil:
		}
	}
	for _, h := range done {
		st.Changes = append(st.Changes, a.leadChange(h, taken))
		if len(h.delivered.Records) > 0 {
			st.Records[h.row.ID] = h.delivered.Records
		}
		if h.copied != nil {
			st.Copies[h.row.ID] = h.copied
		}
	}
	switch o := worst.(type) {
	case ledger.Hold:
		st.Outcome, st.Answer = "held", o.Answer
		if !taken {
			a.hold(&st.Lane, o.Reason)
		}
	case ledger.RetryAt:
		st.Outcome, st.Answer = "retry", o.Answer
		if !taken {
			a.backOff(&st.Lane, o.Wait, o.Reason)
		}
	case ledger.Lost:
		st.Outcome, st.Answer = "lost", o.Answer
		if !taken {
			a.backOff(&st.Lane, 0, ledger.Backlog)
		}
	default:
		well(&st.Lane)
	}
	if taken {
		well(&st.Lane)
		st.Lane.AcceptedAt = a.now
	}
	st.Lane.Answer = st.Answer
	return v
}

func (a attempt) leadChange(h handed, othersTaken bool) ledger.Change {
	c := waitOn(h.row)
	if h.gone {
		c.State, c.Why = ledger.Skipped, ledger.Cleared
		return c
	}
	if h.broken != nil {
		c.DueAt = a.now.Add(time.Minute)
		return c
	}
	switch o := h.delivered.Outcome.(type) {
	case ledger.Accepted:
		c.State = ledger.Sent
	case ledger.Refusal:
		c.State, c.Why = ledger.Failed, ledger.Refused
	case ledger.Lost:
		if c.UnknownSince.IsZero() {
			c.UnknownSince = a.batch.ClaimedAt
		}
		if othersTaken {
			c.DueAt = a.now.Add(ledger.Backoff(h.row.Tries+1, a.jitter))
		}
	case ledger.RetryAt:
		if othersTaken {
			c.DueAt = a.now.Add(max(o.Wait, ledger.Backoff(h.row.Tries+1, a.jitter)))
		}
	case ledger.Hold:
		if othersTaken {
			c.DueAt = a.now.Add(aside)
		}
	case ledger.Split: // a CRM never gives it
	}
	return c
}
