package intake

import (
	"math"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A website's form takes this many from one address, and this many at once: a company
// or a mobile network stands behind one address, and so does a form builder's server.
const (
	formsPerSecond = 1
	formsAtOnce    = 60
)

// The tag's events that are taken from one address: a mobile network's visitors may all
// have the same, and a page that was off line sends what it kept.
const (
	tagPerSecond = 50
	tagAtOnce    = 1000
)

// floods slows down who sends by the hundred. What it remembers is bounded.
type floods struct {
	perSecond rate.Limit
	atOnce    int

	mu   sync.Mutex
	seen map[poster]*rate.Limiter
}

// poster is an address at one source.
type poster struct {
	source int64
	addr   netip.Addr
}

func newFloods(perSecond rate.Limit, atOnce int) *floods {
	return &floods{perSecond: perSecond, atOnce: atOnce, seen: make(map[poster]*rate.Limiter)}
}

// allow tells whether n forms or events are taken.
func (f *floods) allow(source int64, addr netip.Addr, n int, now time.Time) bool {
	who := poster{source, network(addr)}
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.seen[who]
	if l == nil {
		if len(f.seen) >= maxAddresses {
			f.forget(now)
		}
		l = rate.NewLimiter(f.perSecond, f.atOnce)
		f.seen[who] = l
	}
	return l.AllowN(now, n)
}

// forget drops the addresses that have been quiet; if that is too few, all but those
// that are at their limit, and at last these.
func (f *floods) forget(now time.Time) {
	for _, least := range []float64{float64(f.atOnce), 1, math.Inf(-1)} {
		for who, l := range f.seen {
			if l.TokensAt(now) >= least {
				delete(f.seen, who)
			}
		}
		if len(f.seen) < maxAddresses {
			return
		}
	}
}

func wrongTagFlood() wrong {
	return wrong{http.StatusTooManyRequests, "too_many_events", "too many events came from this address", "send them again in a few seconds", ""}
}

func wrongFlood() wrong {
	return wrong{http.StatusTooManyRequests, "too_many_forms", "too many forms came from this address", "send it again in a few seconds", ""}
}
