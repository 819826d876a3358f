package intake

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// An address may try wrong keys this often, and this many at once; then it waits.
const (
	guessesPerSecond = 1
	guessesAtOnce    = 30
	maxAddresses     = 4096 // that are remembered, of either sort
)

// guesses slows down who tries keys. An address that has tried too many wrong ones
// is refused even with a right one, or else guessing would go on; only with a key
// that it had used before the guessing began is it served, so that one wrong setting
// behind a company's address does not stop that company's other shops.
type guesses struct {
	limited atomic.Int64 // how many addresses are in wrong; 0 keeps the good way free of the lock
	mu      sync.Mutex
	wrong   map[netip.Addr]*rate.Limiter

	goodMu sync.RWMutex
	good   map[caller]struct{}
}

// caller is an address with a key that was right.
type caller struct {
	addr netip.Addr
	key  [32]byte
}

func newGuesses() *guesses {
	return &guesses{wrong: make(map[netip.Addr]*rate.Limiter), good: make(map[caller]struct{})}
}

// right tells whether a right key is to be served.
func (g *guesses) right(addr netip.Addr, key [32]byte, now time.Time) bool {
	addr = network(addr)
	who := caller{addr, key}
	g.goodMu.RLock()
	_, known := g.good[who]
	g.goodMu.RUnlock()
	if known {
		return true
	}
	if g.limited.Load() > 0 && g.exhausted(addr, now) {
		return false
	}
	g.goodMu.Lock()
	if len(g.good) >= maxAddresses { // a cache: who is forgotten is learned again
		clear(g.good)
	}
	g.good[who] = struct{}{}
	g.goodMu.Unlock()
	return true
}

func (g *guesses) exhausted(addr netip.Addr, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.wrong[addr]
	return l != nil && l.TokensAt(now) < 1
}

// fail counts a wrong key. Not ok: the address has tried too many; first: it has
// just come to that.
func (g *guesses) fail(addr netip.Addr, now time.Time) (ok, first bool) {
	addr = network(addr)
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.wrong[addr]
	if l == nil {
		if len(g.wrong) >= maxAddresses {
			g.forget(now)
		}
		l = rate.NewLimiter(guessesPerSecond, guessesAtOnce)
		g.wrong[addr] = l
		g.limited.Store(int64(len(g.wrong)))
	}
	ok = l.AllowN(now, 1)
	return ok, ok && l.TokensAt(now) < 1
}

// forget drops the addresses that have been quiet; if none has, all but those that
// are at their limit, and at last these.
func (g *guesses) forget(now time.Time) {
	for _, least := range []float64{guessesAtOnce, 1, -1} {
		for addr, l := range g.wrong {
			if l.TokensAt(now) >= least {
				delete(g.wrong, addr)
			}
		}
		if len(g.wrong) < maxAddresses {
			return
		}
	}
}

// network is what is limited as one: an IPv4 address, or the /64 that one IPv6
// customer has to itself.
func network(addr netip.Addr) netip.Addr {
	if addr.Is6() {
		if p, err := addr.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return addr
}
