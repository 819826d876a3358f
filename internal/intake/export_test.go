package intake

import (
	"net/netip"
	"time"
)

// Remembered tells how many addresses are kept that have tried wrong keys.
func (h *Handler) Remembered() int {
	h.guesses.mu.Lock()
	defer h.guesses.mu.Unlock()
	return len(h.guesses.wrong)
}

// FloodFrom posts from n addresses and tells how many are kept.
func FloodFrom(n int) int {
	f := newFloods(formsPerSecond, formsAtOnce)
	for i := range n {
		f.allow(1, netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 1, time.Unix(0, 0))
	}
	return len(f.seen)
}
