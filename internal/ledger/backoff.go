package ledger

import "time"

// Times of the retry table.
const (
	maxBackoff = time.Hour
	maxProbe   = 15 * time.Minute

	// DedupWindow is how long a destination may be asked again about an event whose
	// answer was lost: Meta forgets event ids after 48 hours (page "Deduplicate
	// pixel and server events"), and an hour is kept as margin.
	DedupWindow = 47 * time.Hour

	// ExpiryMargin is taken off the age that Meta allows, so that an event that ages
	// on its way never spoils the batch it travels in.
	ExpiryMargin = time.Hour
)

// Backoff returns how long a lane waits after its n-th failure in a row (counted
// from 1): 5 s, 30 s, 1 min, then doubling to 1 h. From the fourth on, jitter
// (0 to 1) takes up to a fifth off, so that several lanes do not come back at once.
func Backoff(n int, jitter float64) time.Duration {
	switch {
	case n <= 1:
		return 5 * time.Second
	case n == 2:
		return 30 * time.Second
	case n == 3:
		return time.Minute
	}
	d := maxBackoff
	if n-3 < 6 {
		d = min(time.Minute<<(n-3), maxBackoff)
	}
	return d - time.Duration(jitter*0.2*float64(d))
}

// ProbeAfter returns how long a held lane waits before its n-th probe (counted
// from 1): 30 s, 1 min, then doubling to 15 min.
func ProbeAfter(n int) time.Duration {
	switch {
	case n <= 1:
		return 30 * time.Second
	case n <= 5:
		return min(time.Minute<<(n-2), maxProbe)
	}
	return maxProbe
}
