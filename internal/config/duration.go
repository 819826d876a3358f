package config

import (
	"errors"
	"strconv"
	"time"
)

const (
	day     = 24 * time.Hour
	longest = 100 * 365 * day // for ever, and far from what overflows a time.Duration
)

// units are what a span of time may be written in. A month is thirty days: these
// spans say how long something is kept, not on which date it ends.
var units = []struct {
	name string
	is   time.Duration
}{{"mo", 30 * day}, {"d", day}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}

var errDuration = errors.New("no span of time")

// ParseDuration reads a whole number with a unit: 30d, 24mo, 12h, 90m, 10s.
func ParseDuration(text string) (time.Duration, error) {
	for _, u := range units {
		digits, ok := cutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n > int64(longest/u.is) || digits[0] < '0' || digits[0] > '9' { // no sign
			return 0, errDuration
		}
		return time.Duration(n) * u.is, nil
	}
	return 0, errDuration
}

// cutSuffix takes a unit off if digits stand before it, so that "m" does not take
// the end of "mo" nor the other way round.
func cutSuffix(text, unit string) (string, bool) {
	n := len(text) - len(unit)
	if n < 1 || text[n:] != unit || text[n-1] < '0' || text[n-1] > '9' {
		return "", false
	}
	return text[:n], true
}
