package deliver

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/platform"
	"github.com/capiloop/capiloop/internal/store"
)

const (
	// leaseFor is longer than any request takes, so that a live node never loses its
	// lane in the middle of one.
	leaseFor = 90 * time.Second
	// A poll finds what no wake-up told of: rows whose time has come, and on
	// PostgreSQL rows of another node whose hint was lost.
	pollAlone  = 10 * time.Second
	pollShared = 2 * time.Second
	// fill is how long a busy lane lets its next batch grow.
	fill = 250 * time.Millisecond
	// housekeeping is how often a lane looks for rows that are too late.
	housekeeping = time.Minute
)

// lane sends the deliveries of one destination, one batch at a time.
type lane struct {
	d           *Deliverer
	destination int64
	log         *slog.Logger
	crm         bool // leads into a CRM: no waiting for fuller batches
	// ready returns what sends a batch, or false while the settings do not have the
	// destination.
	ready func() (send func(ctx context.Context, probe bool) time.Duration, ok bool)

	lastClaim   time.Time // zero: the lane was idle
	lastTidy    time.Time
	unreachable bool // the store failed last time; said once
}

// run sends until ctx is done.
func (l *lane) run(ctx context.Context) {
	wake := l.d.store.Wakes(l.destination)
	for ctx.Err() == nil {
		wait := l.turn(ctx)
		if wait <= 0 {
			continue
		}
		timer := l.d.clock.After(wait)
		select {
		case <-ctx.Done():
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// turn does the next thing and returns how long the lane may rest.
func (l *lane) turn(ctx context.Context) time.Duration {
	send, ok := l.ready()
	if !ok {
		return l.d.poll
	}
	now := l.d.clock.Now()
	if now.Sub(l.lastTidy) >= housekeeping {
		l.lastTidy = now
		l.tidy(ctx, now)
	}
	due, err := l.d.store.Due(ctx, l.destination, now)
	if err != nil {
		l.storeFailed(ctx, "look for work", err)
		return l.d.poll
	}
	l.unreachable = false
	if !due.Rows || due.LaneAt.After(now) {
		l.lastClaim = time.Time{}
		return l.rest(now, due)
	}
	if wait := l.lastClaim.Add(fill).Sub(now); !l.crm && due.Held == ledger.None && !due.Full && wait > 0 && wait <= fill {
		_ = l.d.clock.Sleep(ctx, wait) // not woken by what arrives: that is what it waits for
		now = l.d.clock.Now()
	}
	l.lastClaim = now
	return send(ctx, due.Held != ledger.None)
}

// rest returns how long nothing can be due.
func (l *lane) rest(now time.Time, due store.Due) time.Duration {
	if due.Rows && due.LaneAt.After(now) {
		return max(min(due.LaneAt.Sub(now), housekeeping), time.Millisecond)
	}
	if !due.NextAt.IsZero() {
		return max(min(due.NextAt.Sub(now), l.d.poll), time.Millisecond)
	}
	return l.d.poll
}

func (l *lane) tidy(ctx context.Context, now time.Time) {
	if n, err := l.d.store.Expire(ctx, l.destination, now); err != nil {
		l.storeFailed(ctx, "expire rows", err)
	} else if n > 0 {
		l.log.Warn("events expired", "destination", l.destination, "events", n)
	}
	if _, err := l.d.store.ReleaseDue(ctx, l.destination, now); err != nil {
		l.storeFailed(ctx, "release rows", err)
	}
	if l.crm {
		return // doing it again leaves one record: there is no doubt that a person must settle
	}
	if _, err := l.d.store.ParkDoubtful(ctx, l.destination, now.Add(-ledger.DedupWindow)); err != nil {
		l.storeFailed(ctx, "park doubtful rows", err)
	}
}

// part is a piece of a refused batch that is still to be tried by itself.
type part struct {
	ids   []ledger.ID
	since time.Time
}

// send claims and sends one batch, and if it is refused as a whole its parts, until
// the bad rows stand alone. It works depth first: a bad row is found in about
// 2·log2(n) requests, and when the destination refuses everything that shows after
// the first branch.
func (l *lane) send(ctx context.Context, account platform.Account, probe bool) time.Duration {
	var aside []part // a single that was refused without a clear reason
	work := []part{{}}
	for len(work) > 0 && ctx.Err() == nil {
		next := work[len(work)-1]
		work = work[:len(work)-1]
		a, ok := l.claim(ctx, account, next, probe)
		if !ok {
			if next.ids == nil {
				return l.d.poll
			}
			continue
		}
		started := l.d.clock.Now()
		outcome := l.post(ctx, account, a.batch)
		a.now = l.d.clock.Now()
		v := a.decide(outcome)
		again, stop := l.follow(&a, &v, outcome, len(work) > 0, aside)
		if !l.settle(ctx, &v, a.now.Sub(started)) || stop {
			return 0
		}
		if _, good := outcome.(ledger.Accepted); good && len(aside) > 0 {
			work, aside = append(work, aside...), nil
		}
		if again {
			aside = append(aside, part{ids: []ledger.ID{a.batch.Rows[0].ID}, since: a.since})
		}
		for _, v0 := range slices.Backward(v.parts) {
			work = append(work, part{ids: v0, since: a.since})
		}
	}
	return 0
}

// follow completes a verdict by what it means for the batch as a whole: again is
// set for a single to be tried once more after its neighbours, stop when the lane
// has to pause.
func (l *lane) follow(a *attempt, v *verdict, o ledger.Outcome, more bool, aside []part) (again, stop bool) {
	switch o := o.(type) {
	case ledger.RetryAt, ledger.Hold, ledger.Lost:
		return false, true
	case ledger.Split:
		if a.since.IsZero() {
			a.since = a.batch.ClaimedAt
		}
		if o.Unclear && len(aside) > 0 { // two refusals in a row and nothing accepted between
			a.holdUnclear(v)
			v.parts = nil
			return false, true
		}
	case ledger.Refusal:
		if !v.suspect {
			return false, false
		}
		if more && len(aside) == 0 {
			return true, false
		}
		a.holdUnclear(v)
		return false, true
	case ledger.Accepted:
	}
	return false, false
}

func (l *lane) claim(ctx context.Context, account platform.Account, p part, probe bool) (attempt, bool) {
	rows, bytes := l.d.platform(account).Limits()
	now := l.d.clock.Now()
	batch, state, err := l.d.store.Claim(ctx, store.ClaimRequest{
		Destination: l.destination, Node: l.d.node, Batch: l.d.ids.Next(), Now: now, Lease: l.d.lease(),
		MaxRows: rows, MaxBytes: bytes, IDs: p.ids, Probe: probe,
	})
	if err != nil && !errors.Is(err, store.ErrLeased) {
		l.storeFailed(ctx, "claim a batch", err)
	}
	if err != nil || batch == nil {
		return attempt{}, false
	}
	return attempt{batch: batch, lane: state, since: p.since, now: now, jitter: rand.Float64()}, true //nolint:gosec // jitter is no secret
}

// post sends the batch. What was cut because the process stops counts as maybe sent.
func (l *lane) post(ctx context.Context, account platform.Account, b *ledger.Batch) ledger.Outcome {
	sending, cancel := l.withGrace(ctx)
	defer cancel()
	return l.d.platform(account).Send(sending, account, b)
}

// withGrace returns a context for a request: when the process stops, one under way
// gets a few seconds to finish and is then cut.
func (l *lane) withGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		grace := time.NewTimer(l.d.grace)
		defer grace.Stop()
		select {
		case <-sending.Done():
		case <-grace.C:
			cancel()
		}
	})
	return sending, func() {
		stop()
		cancel()
	}
}

// settle writes the verdict down, also while the process is stopping.
func (l *lane) settle(ctx context.Context, v *verdict, took time.Duration) bool {
	st := &v.settlement
	err := l.d.store.Settle(context.WithoutCancel(ctx), st)
	l.d.observe(st, took)
	switch {
	case errors.Is(err, store.ErrLeaseLost):
		l.log.Warn("lane taken over by another node", "destination", l.destination)
		return false
	case err != nil:
		l.storeFailed(ctx, "settle a batch", err)
		return false
	}
	l.report(st)
	return true
}

// report logs what a person running the server wants to know: troubles and their
// end, not every request.
func (l *lane) report(st *ledger.Settlement) {
	a := st.Answer
	args := []any{
		"destination", st.Batch.Destination, "outcome", st.Outcome, "events", len(st.Batch.Rows),
		"status", a.Status, "code", a.Code, "subcode", a.Subcode, "trace_id", a.TraceID, "answer", a.Message,
	}
	if st.Outcome == "sent" {
		l.log.Debug("batch sent", args...)
		return
	}
	if st.Lane.Held != ledger.None {
		args = append(args, "held", string(st.Lane.Held))
	}
	l.log.Warn("batch not accepted", append(args, "next_at", st.Lane.DueAt)...)
}

// storeFailed says once that the database is in trouble, and lets the lane breathe.
func (l *lane) storeFailed(ctx context.Context, doing string, err error) {
	if ctx.Err() == nil && !l.unreachable {
		l.log.Error("the database failed", "doing", doing, "destination", l.destination, "error", err)
	}
	l.unreachable = true
	_ = l.d.clock.Sleep(ctx, time.Second)
}
