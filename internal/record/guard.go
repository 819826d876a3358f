package record

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
)

// guard holds what a person should look at before Meta learns of it: it asks once for a
// bulk of changes, and for what looks like a slip of the keyboard.
type guard struct {
	off    bool
	most   int // changes with an event that may come within ten minutes
	median func(event, currency string) (float64, bool)
}

// guard looks up what is usual for a source.
func (r *Recorder) guard(ctx context.Context, ws *config.Workspace, source string, c *ledger.StageChange, now time.Time) (guard, error) {
	set := ws.Guard
	if set.Off || slices.Contains(set.Without, source) {
		return guard{off: true}, nil
	}
	g := guard{most: ledger.UnknownNorm}
	norm, known, err := r.norm(ctx, ws.ID, source, now)
	if err != nil {
		return g, err
	}
	if known {
		g.most = max(set.Floor-1, int(math.Floor(float64(set.Burst)*norm)))
	}
	usual := make(map[[2]string]float64)
	if c.Amount != "" {
		for i := range ws.Rules {
			rule := &ws.Rules[i]
			if rule.Value != ledger.ValueDeal {
				continue
			}
			currency := c.Currency
			median, known, err := r.c.Store.UsualAmount(ctx, ws.ID, rule.Event, currency, now)
			if err != nil {
				return g, err
			}
			if known {
				usual[[2]string{rule.Event, currency}] = median
			}
		}
	}
	g.median = func(event, currency string) (float64, bool) {
		m, ok := usual[[2]string{event, currency}]
		return m, ok
	}
	return g, nil
}

// norms remembers for a minute what is usual for each source: counting four weeks for
// every change would cost more than the change.
type norms struct {
	mu   sync.Mutex
	list map[string]norm
}

type norm struct {
	perHour float64
	known   bool
	at      time.Time
}

func (r *Recorder) norm(ctx context.Context, ws int64, source string, now time.Time) (perHour float64, known bool, err error) {
	key := strconv.FormatInt(ws, 10) + "/" + source
	r.norms.mu.Lock()
	defer r.norms.mu.Unlock()
	n, ok := r.norms.list[key]
	if !ok || now.Sub(n.at) > time.Minute {
		n.at = now
		if n.perHour, n.known, err = r.c.Store.Norm(ctx, ws, source, now); err != nil {
			return 0, false, err
		}
		if r.norms.list == nil {
			r.norms.list = make(map[string]norm)
		}
		r.norms.list[key] = n
	}
	return n.perHour, n.known, nil
}

// judge returns why an event is held, or None. around is how many came at the same time.
func (g *guard) judge(l *ledger.Lead, rule *ledger.Rule, o *occasion, around int) ledger.Reason {
	if g.off {
		return ledger.None
	}
	if around >= g.most {
		return ledger.BulkChange
	}
	if rule.Value == ledger.ValueDeal && o.amount != "" {
		amount, err := strconv.ParseFloat(o.amount, 64)
		if median, known := g.median(rule.Event, o.currency); err == nil && known && median > 0 && amount > ledger.OutlierTimes*median {
			return ledger.ValueOutlier
		}
	}
	if isTestName(l) {
		return ledger.TestName
	}
	return ledger.None
}

// testWords are what people type in when they try a form out.
var testWords = []string{"test", "tests", "testing", "tester", "teste", "prueba", "essai", "prova", "тест", "тестовый", "asdf", "qwerty", "foobar"}

// isTestName tells whether the whole name of a lead is made of such words.
func isTestName(l *ledger.Lead) bool {
	words := strings.Fields(strings.ToLower(strings.Join([]string{l.Contact.FullName, l.Contact.FirstName, l.Contact.LastName}, " ")))
	if len(words) == 0 {
		return false
	}
	for _, w := range words {
		if !slices.Contains(testWords, strings.Trim(w, "0123456789.,-_")) {
			return false
		}
	}
	return true
}
