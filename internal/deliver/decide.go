package deliver

import (
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// maxNotCounted is how often an event is sent that the destination accepts without
// counting it, before a person must look.
const maxNotCounted = 5

// attempt is one request and the state of the world around it.
type attempt struct {
	batch *ledger.Batch
	lane  ledger.Lane
	// since is when the batch of which this is a part was first refused; zero: this
	// is no part of a refused batch.
	since  time.Time
	now    time.Time
	jitter float64
}

// verdict is what follows from an attempt.
type verdict struct {
	settlement ledger.Settlement
	parts      [][]ledger.ID // to be sent next, apart
	suspect    bool          // a single row was refused and it is not clear whose fault it is
}

// decide says what an outcome does to the rows and the lane. It is pure.
func (a attempt) decide(o ledger.Outcome) verdict {
	v := verdict{settlement: ledger.Settlement{Batch: a.batch, Answer: ledger.AnswerOf(o), Lane: a.lane}}
	v.settlement.Lane.Answer = v.settlement.Answer
	switch o := o.(type) {
	case ledger.Accepted:
		v.settlement.Outcome = "sent"
		a.accepted(&v)
	case ledger.RetryAt:
		v.settlement.Outcome = "retry"
		a.retry(&v, o.Wait, o.Reason)
	case ledger.Lost:
		v.settlement.Outcome = "lost"
		a.lost(&v)
	case ledger.Hold:
		v.settlement.Outcome = "held"
		a.hold(&v.settlement.Lane, o.Reason)
	case ledger.Split:
		v.settlement.Outcome = "split"
		a.split(&v, o)
	case ledger.Refusal:
		v.settlement.Outcome = "refused"
		a.refused(&v, o)
	}
	return v
}

// well clears a lane's troubles: the destination answered about the events
// themselves, so the way is open.
func well(l *ledger.Lane) {
	l.Failures, l.Paused, l.DueAt = 0, ledger.None, time.Time{}
	l.Held, l.HeldSince, l.Probes = ledger.None, time.Time{}, 0
}

func (a attempt) accepted(v *verdict) {
	well(&v.settlement.Lane)
	v.settlement.Lane.AcceptedAt = a.now
	v.settlement.Changes = a.each(func(r ledger.Row) ledger.Change {
		return ledger.Change{Row: r, State: ledger.Sent}
	})
}

// retry lets the whole lane come back later; rows keep their place.
func (a attempt) retry(v *verdict, wait time.Duration, why ledger.Reason) {
	a.backOff(&v.settlement.Lane, wait, why)
	v.settlement.Changes = a.each(waitOn)
}

func (a attempt) backOff(l *ledger.Lane, wait time.Duration, why ledger.Reason) {
	l.Failures++
	l.Paused = why
	if wait <= 0 {
		wait = ledger.Backoff(l.Failures, a.jitter)
	}
	l.DueAt = a.now.Add(wait)
}

// lost is retry for rows that may have arrived: they remember since when.
func (a attempt) lost(v *verdict) {
	a.backOff(&v.settlement.Lane, 0, ledger.Backlog)
	v.settlement.Changes = a.each(func(r ledger.Row) ledger.Change {
		c := waitOn(r)
		if c.UnknownSince.IsZero() {
			c.UnknownSince = a.batch.ClaimedAt
		}
		return c
	})
}

// hold stops the lane until a repair; no attempt is counted against the rows.
func (a attempt) hold(l *ledger.Lane, reason ledger.Reason) {
	if l.Held == ledger.None {
		l.HeldSince, l.Probes = a.now, 0
	}
	l.Held = reason
	l.Probes++
	l.DueAt = a.now.Add(ledger.ProbeAfter(l.Probes))
}

// split sends the parts of a refused batch apart. The batch as such is done with;
// its rows are untouched.
func (a attempt) split(v *verdict, o ledger.Split) {
	ids := make([]ledger.ID, len(a.batch.Rows))
	for i, r := range a.batch.Rows {
		ids[i] = r.ID
	}
	if !o.OneByOne {
		v.parts = [][]ledger.ID{ids[:len(ids)/2], ids[len(ids)/2:]}
		return
	}
	if len(ids) > 1 {
		for i := range ids {
			v.parts = append(v.parts, ids[i:i+1])
		}
		return
	}
	// Alone, and still not counted.
	v.settlement.Changes = a.each(func(r ledger.Row) ledger.Change {
		c := waitOn(r)
		if c.DueAt = a.now.Add(ledger.Backoff(r.Tries+1, a.jitter)); r.Tries+1 >= maxNotCounted {
			c.State, c.Why = ledger.Held, ledger.NotCounted
		}
		return c
	})
}

// refused ends a row for good, unless the refusal may mean the whole destination:
// then the row fails only if another row was accepted since it was first refused.
func (a attempt) refused(v *verdict, o ledger.Refusal) {
	since := a.since
	row := a.batch.Rows[0]
	if !row.SuspectSince.IsZero() {
		since = row.SuspectSince
	}
	if since.IsZero() {
		since = a.batch.ClaimedAt
	}
	// Not "after": on a coarse clock a whole bisection may happen in one instant.
	meanwhile := !a.lane.AcceptedAt.IsZero() && !a.lane.AcceptedAt.Before(since)
	if !o.Unclear || meanwhile {
		if !o.Unclear {
			well(&v.settlement.Lane)
		}
		v.settlement.Changes = []ledger.Change{{Row: row, State: ledger.Failed, Why: ledger.Refused}}
		return
	}
	v.suspect = true
	c := waitOn(row)
	c.SuspectSince = since
	v.settlement.Changes = []ledger.Change{c}
}

// holdUnclear stops the lane because it is not clear whether the event or the
// destination is at fault. The first probe, with another event, follows at once.
func (a attempt) holdUnclear(v *verdict) {
	l := &v.settlement.Lane
	first := l.Held == ledger.None
	a.hold(l, ledger.UnclearRefusal)
	if first {
		l.Probes, l.DueAt = 0, a.now
	}
}

func waitOn(r ledger.Row) ledger.Change {
	return ledger.Change{Row: r, State: ledger.Waiting, UnknownSince: r.UnknownSince, SuspectSince: r.SuspectSince}
}

func (a attempt) each(f func(ledger.Row) ledger.Change) []ledger.Change {
	changes := make([]ledger.Change, len(a.batch.Rows))
	for i, r := range a.batch.Rows {
		changes[i] = f(r)
	}
	return changes
}
