package e2e_test

import (
	"fmt"
	"sync"
	"time"
)

// clock is the time of a rig: of the server (by --test-clock), of the stand-in and
// of whoever sends. It goes on over restarts of the server, and may be given another
// speed between two of them.
type clock struct {
	mu    sync.Mutex
	real  time.Time // when the speed was set
	from  time.Time // what the clock said then
	speed float64
}

func newClock(speed float64) *clock {
	now := time.Now()
	return &clock{real: now, from: now, speed: speed}
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *clock) now() time.Time {
	return c.from.Add(time.Duration(float64(time.Since(c.real)) * c.speed))
}

// set gives the clock another speed and lets it jump ahead. A running server does
// not notice: it is for the moment between two starts.
func (c *clock) set(speed float64, jump time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.real, c.from, c.speed = time.Now(), c.now().Add(jump), speed
}

// flag is the value of --test-clock for a server that starts now.
func (c *clock) flag() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%s,%g", time.Until(c.now()).Round(time.Millisecond), c.speed)
}
