package ledger

import (
	"context"
	"sync/atomic"
	"time"
)

// Clock tells the time and waits. Its zero value is the real clock. A test of the
// whole binary can set one that is ahead and runs faster: then an hour of retries
// passes in a second, in every part of the product alike.
type Clock struct {
	start time.Time // real time at which the test clock was set
	ahead time.Duration
	speed float64
	hand  *Hand
}

// Hand sets a clock: between two settings it goes as the real one does. The demo replays
// a week with it.
type Hand struct{ ahead atomic.Int64 } // of the real time

// Clock returns the clock that is set by this hand; all of its copies follow.
func (h *Hand) Clock() Clock { return Clock{hand: h} }

// Set puts the clock to a time.
func (h *Hand) Set(t time.Time) { h.ahead.Store(int64(time.Until(t))) }

// Release lets the clock show the real time.
func (h *Hand) Release() { h.ahead.Store(0) }

// TestClock returns a clock that is ahead of the real one and runs speed times as
// fast from now on.
func TestClock(ahead time.Duration, speed float64) Clock {
	return Clock{start: time.Now(), ahead: ahead, speed: speed}
}

// IsTest tells whether the clock is a test's or the demo's, which must not reach Meta.
func (c Clock) IsTest() bool { return c.speed != 0 || c.hand != nil }

// Now returns the clock's time.
func (c Clock) Now() time.Time {
	if c.hand != nil {
		return time.Now().Add(time.Duration(c.hand.ahead.Load()))
	}
	if c.speed == 0 {
		return time.Now()
	}
	return c.start.Add(c.ahead + time.Duration(float64(time.Since(c.start))*c.speed))
}

// After returns a timer that fires when d has passed on this clock.
func (c Clock) After(d time.Duration) *time.Timer {
	if c.speed != 0 {
		d = max(time.Duration(float64(d)/c.speed), time.Millisecond)
	}
	return time.NewTimer(d)
}

// Sleep waits until d has passed on this clock or ctx is done.
func (c Clock) Sleep(ctx context.Context, d time.Duration) error {
	t := c.After(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Micros returns t as the store keeps times: microseconds since 1970, UTC.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// FromMicros is the reverse of Micros.
func FromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// Scale returns how much time passes on this clock while d passes in the world: for
// limits on what the world does, such as the length of a request.
func (c Clock) Scale(d time.Duration) time.Duration {
	if c.speed == 0 {
		return d
	}
	return time.Duration(float64(d) * c.speed)
}
