package e2e_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// flood has the page ask for n events in one go, every 200th of which is a purchase.
func (v *visitor) flood(n int) {
	v.t.Helper()
	v.do(fmt.Sprintf(`window.loop=0;setTimeout(function(){performance.mark('the flood');
		for(var i=0;i<%d;i++)if(i%%200)capiloop('track','ViewContent',{content_ids:['p'+i],value:i,currency:'EUR'});
			else capiloop('track','Purchase',{order_id:Math.random()+'',value:10,currency:'EUR'});
		window.loop=1},50)`, n))
	v.until("loop")
}

// traced is an event of Chromium's trace.
type traced struct {
	Name  string  `json:"name"`
	Phase string  `json:"ph"`
	PID   int     `json:"pid"`
	TID   int     `json:"tid"`
	At    float64 `json:"ts"`   // µs
	CPU   float64 `json:"tdur"` // µs that the thread had the processor: how busy the machine is does not count
}

// tasks calls do and returns how long (ms) each of the tasks of the page's main thread
// had the processor meanwhile, the page's own loop among them.
func (v *visitor) tasks(do func()) []float64 {
	v.t.Helper()
	var mu sync.Mutex
	var all []traced
	over := make(chan struct{})
	require.NoError(v.t, chromedp.Listen(v.ctx, func(e any) {
		switch e := e.(type) {
		case *tracing.EventDataCollected:
			mu.Lock()
			defer mu.Unlock()
			for _, raw := range e.Value {
				var one traced
				if json.Unmarshal(raw, &one) == nil {
					all = append(all, one)
				}
			}
		case *tracing.EventTracingComplete:
			close(over)
		}
	}))
	_, err := chromedp.Call(v.ctx, tracing.Start, tracing.StartParams{TraceConfig: &tracing.TraceConfig{IncludedCategories: []string{"toplevel", "blink.user_timing", "disabled-by-default-devtools.timeline"}}})
	require.NoError(v.t, err)
	do()
	_, err = chromedp.Call(v.ctx, tracing.End, cdp.Empty{})
	require.NoError(v.t, err)
	<-over
	mu.Lock()
	defer mu.Unlock()
	var mark traced
	for _, e := range all {
		if e.Name == "the flood" {
			mark = e
		}
	}
	require.NotZero(v.t, mark.PID, "the page's mark in the trace")
	var list []float64
	for _, e := range all {
		if e.PID == mark.PID && e.TID == mark.TID && e.Phase == "X" && e.Name == "ThreadControllerImpl::RunTask" {
			list = append(list, e.CPU/1e3)
		}
	}
	return list
}

// Ten thousand calls in one go: the page stays quick, every purchase arrives soon, and
// neither memory nor storage is filled.
func TestBrowserTenThousandCalls(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "consent: {wait: send}")
	s.blocked = true // the Pixel's stub fills, too
	s.put("/", pixel+s.tagFrom(gateHost), "")
	v := s.visit(t)
	v.open("/")
	tasks := v.tasks(func() {
		v.flood(10_000)
		s.eventually(t, 40e9, "the purchases", func() bool { return len(s.everywhere("Purchase")) >= 50 })
		v.quiet()
	})
	require.Len(t, s.server("Purchase"), 50)
	require.Greater(t, len(tasks), 50, "the tasks were measured")
	longest := 0.0
	for _, ms := range tasks {
		longest = max(longest, ms)
	}
	require.LessOrEqual(t, longest, 50.0, "ms that the longest task took")
	t.Logf("%d tasks, the longest took %.1f ms", len(tasks), longest)
	require.LessOrEqual(t, v.kept(), 600, "events on the device")
	require.Less(t, v.number(`Object.keys(localStorage).reduce(function(n,k){return n+k.length+localStorage[k].length},0)`), 1e6)
}

// A page that never stops, off line: what lies on the device stays a part of what the
// site itself may need, and purchases have the first claim.
func TestBrowserAFloodOffline(t *testing.T) {
	t.Parallel()
	s := newWebsite(t, "consent: {wait: send}")
	s.put("/", s.tagFrom(gateHost), "")
	v := s.visit(t)
	v.open("/")
	s.answers(cut)
	for range 3 {
		v.flood(20_000)
	}
	v.until(`Object.keys(localStorage).filter(function(k){return /^_capiloop[.]e[.]/.test(k)&&/"Purchase"/.test(localStorage[k])}).length==300`)
	require.LessOrEqual(t, v.kept(), 900)
	require.Less(t, v.number(`Object.keys(localStorage).reduce(function(n,k){return n+k.length+localStorage[k].length},0)`), 1e6)
	require.LessOrEqual(t, v.number(`Object.keys(JSON.parse(localStorage['_capiloop.d'])).length`), 202.0)
	s.answers(0)
	v.do("dispatchEvent(new Event('online'))")
	s.eventually(t, 40e9, "the purchases", func() bool { return len(s.everywhere("Purchase")) == 300 })
}
