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

// holdAside is how long a lead waits whose CRM takes others but not this one.
const holdAside = 5 * time.Minute

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
// own trouble is told from the CRM's; so does a probe.
func (h *handover) send(ctx context.Context, parallel int, probe bool) time.Duration {
	now := h.d.clock.Now()
	batch, state, err := h.d.store.Claim(ctx, store.ClaimRequest{
		Destination: h.destination, Node: h.d.node, Batch: h.d.ids.Next(), Now: now, Lease: h.d.lease(), MaxRows: max(parallel, 2), MaxBytes: 1 << 30, Probe: probe, Leads: true,
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
		h.log.Error("a lead could not be read; it is tried again", "lead", row.ID.Event().String(), "error", err)
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
		h.log.Error("a lead cannot be opened: is it of another master key? it is tried again", "lead", lead.ID.String(), "tries", row.Tries, "error", err)
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

// longestWait caps how long a lane of leads waits by itself: a CRM that is back should
// not wait for its leads.
const longestWait = 10 * time.Minute

// decideLeads says what the outcomes of several leads do to the rows and the lane.
// While the CRM takes others, a lead that it does not take steps aside; when it takes
// none, the lane waits or is held, and the rows keep their place. A lead in trouble
// while others were taken since its trouble began is its own cause: it says nothing of
// the lane.
func (a attempt) decideLeads(done []handed) verdict {
	v := verdict{settlement: ledger.Settlement{
		Batch: a.batch, Outcome: "sent", Lane: a.lane, Records: make(map[ledger.ID][]string), Copies: make(map[ledger.ID][]byte),
	}}
	st := &v.settlement
	taken, reached := false, false
	var worst, lanes ledger.Outcome // of all rows; of those that speak for the lane
	for _, h := range done {
		switch o := h.delivered.Outcome.(type) {
		case ledger.Accepted:
			taken, reached = true, true
			st.Answer = o.Answer
		case ledger.Refusal:
			reached = true
		case ledger.Hold, ledger.RetryAt, ledger.Lost:
			worst = worse(worst, o)
			if !a.itsOwn(h.row) {
				lanes = worse(lanes, o)
			}
		case ledger.Split, nil: // a CRM never splits; nil is a lead that never went out
		}
	}
	for _, h := range done {
		st.Changes = append(st.Changes, a.leadChange(h, taken || a.itsOwn(h.row)))
		if len(h.delivered.Records) > 0 {
			st.Records[h.row.ID] = h.delivered.Records
		}
		if h.copied != nil {
			st.Copies[h.row.ID] = h.copied
		}
	}
	a.laneOfLeads(&st.Lane, lanes, taken, reached)
	switch o := worst.(type) {
	case ledger.Hold:
		st.Outcome, st.Answer = "held", o.Answer
	case ledger.RetryAt:
		st.Outcome, st.Answer = "retry", o.Answer
	case ledger.Lost:
		st.Outcome, st.Answer = "lost", o.Answer
	default:
		if !reached {
			st.Outcome = "retry"
			return v
		}
	}
	st.Lane.Answer = st.Answer
	return v
}

// laneOfLeads says what a batch means for the lane: nothing, if no lead of it speaks
// for the CRM.
func (a attempt) laneOfLeads(l *ledger.Lane, worst ledger.Outcome, taken, reached bool) {
	if taken {
		well(l)
		l.AcceptedAt = a.now
		return
	}
	switch o := worst.(type) {
	case ledger.Hold:
		a.hold(l, o.Reason)
	case ledger.RetryAt:
		a.backOff(l, o.Wait, o.Reason)
		if o.Wait <= 0 {
			l.DueAt = earlier(l.DueAt, a.now.Add(longestWait))
		}
	case ledger.Lost:
		a.backOff(l, 0, ledger.Backlog)
		l.DueAt = earlier(l.DueAt, a.now.Add(longestWait))
	default:
		if reached {
			well(l)
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// worse keeps the outcome that stops more.
func worse(a, b ledger.Outcome) ledger.Outcome {
	if _, held := a.(ledger.Hold); held {
		return a
	}
	return b
}

// itsOwn tells whether the CRM took others since this lead's trouble began.
func (a attempt) itsOwn(r ledger.Row) bool {
	return !r.SuspectSince.IsZero() && !a.lane.AcceptedAt.IsZero() && !a.lane.AcceptedAt.Before(r.SuspectSince)
}

func (a attempt) leadChange(h handed, aside bool) ledger.Change {
	c := waitOn(h.row)
	later := a.now.Add(ledger.Backoff(h.row.Tries+1, a.jitter))
	if h.gone {
		c.State, c.Why = ledger.Skipped, ledger.Cleared
		return c
	}
	if h.broken != nil {
		c.DueAt = a.now.Add(max(time.Minute, later.Sub(a.now)))
		return c
	}
	switch o := h.delivered.Outcome.(type) {
	case ledger.Accepted:
		c.State = ledger.Sent
		return c
	case ledger.Refusal:
		c.State, c.Why = ledger.Failed, ledger.Refused
		return c
	case ledger.Lost:
		if c.UnknownSince.IsZero() {
			c.UnknownSince = a.batch.ClaimedAt
		}
	case ledger.RetryAt:
		later = a.now.Add(max(o.Wait, later.Sub(a.now)))
	case ledger.Hold:
		later = a.now.Add(holdAside)
	case ledger.Split: // a CRM never gives it
	}
	if c.SuspectSince.IsZero() {
		c.SuspectSince = a.batch.ClaimedAt
	}
	if aside {
		c.DueAt = later
	}
	return c
}
