package capi

import (
	"strconv"
	"strings"
	"time"
)

// NormaliseTime reads a point in time: Unix seconds, and what senders write instead of
// them (milliseconds, ISO 8601, RFC 1123); without a zone it is UTC, as Meta's page
// "Server event parameters" asks for GMT. given is false for nothing and for 0, which
// programs write for nothing. How old or how far ahead an event may be is the concern
// of Validate; now (the zero value means the present) only tells the units apart.
func NormaliseTime(raw string, now time.Time) (seconds int64, given bool, p *Problem) {
	s := plainText(raw)
	if s == "" || s == "0" || isPlaceholder(s) {
		return 0, false, nil
	}
	if whole, fraction, ok := strings.Cut(s, "."); isDigits(whole) && (!ok || isDigits(fraction)) {
		n, err := strconv.ParseInt(whole, 10, 64)
		if err == nil && n > 0 {
			return toSeconds(n, now), true, nil
		}
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil && t.Unix() > 0 {
			return t.Unix(), true, nil
		}
	}
	invalid := warning("event_time", ProblemInvalidTime)
	return 0, false, &invalid
}

// toSeconds takes n for the largest unit that does not lie a century ahead: seconds,
// milli-, micro- or nanoseconds.
func toSeconds(n int64, now time.Time) int64 {
	if now.IsZero() {
		now = time.Now()
	}
	latest := now.AddDate(100, 0, 0).Unix()
	for range 3 {
		if n <= latest {
			break
		}
		n /= 1000
	}
	return n
}

var timeLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700", "2006-01-02T15:04:05.999999999", "2006-01-02T15:04Z07:00",
	"2006-01-02T15:04", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999 Z0700",
	"2006-01-02 15:04:05.999999999", "2006-01-02 15:04", time.DateOnly,
	time.RFC1123, time.RFC1123Z, time.RFC850, time.ANSIC, "Mon, 2 Jan 2006 15:04:05 MST", "Mon, 2 Jan 2006 15:04:05 -0700",
}
