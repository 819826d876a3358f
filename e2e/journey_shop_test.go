package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

// The shop's sale day.
const (
	saleOrders    = 1000
	salePaid      = 820
	saleAbandoned = 130 // at the bank
	saleDeclined  = 50
	saleRefunded  = 60  // of the paid ones, later
	saleRefuse    = 180 // of those who paid: no marketing
	saleCrawlers  = 300 // page views
	saleMetas     = 30  // of them by Meta's own
)

const (
	shopOrigin = "https://shop.example.com"
	shopAgent  = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1"
)

// shopLines are the website of the shop; proxies tell who its visitors are.
const shopLines = `    sources:
      - {kind: website, name: web, site: tee-and-co, origins: [https://shop.example.com]}
trusted_proxies: [127.0.0.1]
`

// shop is "Tee & Co", whose pages have the tag and whose server hears from the bank.
type shop struct {
	*rig
	mu   sync.Mutex
	acks []time.Duration
}

func newShop(t *testing.T, database string) *shop {
	t.Helper()
	return &shop{rig: newRig(t, setup{database: database, country: "DE", lines: shopLines, graph: capitest.Options{StrictSource: true}})}
}

// page is what the tag in a visitor's page sends.
func (s *shop) page(t *testing.T, visitor int, agent, ads string, events ...event) {
	t.Helper()
	now := s.clock.Now().UnixMilli()
	for _, e := range events {
		e["at"] = now - 500
		if ads == "granted" {
			e["event_source_url"] = shopOrigin + "/p?utm_source=sale&mail=visitor" + strconv.Itoa(visitor) + rawDomain
		}
	}
	body, err := json.Marshal(event{"v": 1, "site": "tee-and-co", "sent": now, "consent": event{"ads": ads, "by": "tcf"}, "events": events})
	require.NoError(t, err)
	began := time.Now()
	status, answer := s.request(t, http.MethodPost, "/t", body, "Content-Type", "text/plain;charset=UTF-8", "Origin", shopOrigin, "User-Agent", agent,
		"X-Forwarded-For", fmt.Sprintf("2a00:%x:%x::1", visitor/0xffff+1, visitor%0xffff))
	took := time.Since(began)
	require.Equal(t, http.StatusNoContent, status, "%s", answer)
	s.mu.Lock()
	s.acks = append(s.acks, took)
	s.mu.Unlock()
}

// acked is how long half of the answers since the last call took at most; the shop's
// pages never wait for one, and should not if they did.
func (s *shop) acked(t *testing.T, when string) {
	t.Helper()
	s.mu.Lock()
	acks := s.acks
	s.acks = nil
	s.mu.Unlock()
	slices.Sort(acks)
	half, most := acks[len(acks)/2], acks[len(acks)*99/100]
	t.Logf("%s: %d answers, half of them within %s, 99 %% within %s", when, len(acks), half, most)
	require.Less(t, half, 50*time.Millisecond, when)
}

// order is one of the sale day.
type order struct {
	n             int
	paid, refuses bool
}

func (o order) id() string  { return fmt.Sprintf("T-%04d", o.n) }
func (o order) cents() int  { return 1500 + o.n*7%9000 }
func (o order) data() event { return event{"value": o.value(), "currency": "EUR", "order_id": o.id()} }

func (o order) value() any   { return json.Number(fmt.Sprintf("%d.%02d", o.cents()/100, o.cents()%100)) }
func (o order) ads() string  { return map[bool]string{true: "denied", false: "granted"}[o.refuses] }
func (o order) mail() string { return "buyer" + strconv.Itoa(o.n) + rawDomain }

// browser is what the visitor's page reports of an order.
func (s *shop) browser(t *testing.T, o order, name string) {
	t.Helper()
	e := event{"event_name": name, "event_id": o.id()}
	if !o.refuses {
		e["custom_data"], e["user_data"] = o.data(), event{"em": o.mail(), "fbp": fmt.Sprintf("fb.1.%d.%d", s.clock.Now().UnixMilli(), 1000+o.n)}
	}
	s.page(t, o.n, shopAgent, o.ads(), e)
}

// bank is what the shop's server reports once the bank has paid. It leaves the id to
// Capiloop, which makes it of the order.
func (s *shop) bank(t *testing.T, o order) answer {
	t.Helper()
	return s.send(t, event{
		"event_name": "Purchase", "event_time": s.clock.Now().Unix(), "action_source": "website", "event_source_url": shopOrigin + "/thanks", "consent": o.ads(),
		"custom_data": o.data(), "user_data": event{"em": o.mail(), "client_user_agent": shopAgent, "client_ip_address": "2a00::1"},
	})
}

// A sale day: Meta hears of each paid order once, in whole euros and cents, from whichever
// copy came first, and of nobody who refused; crawlers are told apart; and the shop's
// pages are answered at once also while Meta hangs.
func TestJourneyShopSaleDay(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, database string) {
		s := newShop(t, database)
		orders := make([]order, saleOrders)
		for n := range orders {
			orders[n] = order{n: n, paid: n < salePaid, refuses: n < saleRefuse}
		}
		require.Equal(t, saleOrders-salePaid, saleAbandoned+saleDeclined)

		s.each(orders[:saleOrders/2], func(o order) { s.buy(t, o) })
		s.acked(t, "with Meta at its best")
		s.graph.Fault(capitest.Fault{Mode: capitest.ModeHang})
		s.send(t, s.leads(datasetA, "before", 1)...)
		s.eventually(t, 10*time.Second, "Meta hangs", func() bool { return s.graph.Faults()[0].Hits > 0 })
		s.each(orders[saleOrders/2:], func(o order) { s.buy(t, o) })
		s.crawl(t)
		s.acked(t, "while Meta hangs")
		s.graph.ClearFaults()

		s.each(orders[:saleRefunded], func(o order) { // the plug-in tells of the order again when its state changes
			require.Equal(t, 1, s.bank(t, o).Duplicates)
		})
		s.drained(t, 60*time.Second)
		s.judge(t, orders)
	})
}

func (s *shop) each(orders []order, do func(order)) {
	work := make(chan order)
	var done sync.WaitGroup
	for range 8 {
		done.Go(func() {
			for o := range work {
				do(o)
			}
		})
	}
	for _, o := range orders {
		work <- o
	}
	close(work)
	done.Wait()
}

// buy goes through the checkout. The page of thanks and the bank's word come in either
// order.
func (s *shop) buy(t *testing.T, o order) {
	t.Helper()
	s.browser(t, o, "InitiateCheckout")
	switch {
	case !o.paid: // nobody thanks, and no bank tells
	case o.n%2 == 0:
		s.browser(t, o, "Purchase")
		s.bank(t, o)
	default:
		s.bank(t, o)
		s.browser(t, o, "Purchase")
	}
}

// crawl lets programs open pages.
func (s *shop) crawl(t *testing.T) {
	t.Helper()
	metas := []string{"facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)", "meta-externalagent/1.1", "meta-externalads/1.1"}
	others := []string{"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "Mozilla/5.0 (compatible; bingbot/2.0)", "Mozilla/5.0 (X11; Linux x86_64) HeadlessChrome/142.0.0.0 Safari/537.36"}
	for n := range saleCrawlers {
		agent := others[n%len(others)]
		if n < saleMetas {
			agent = metas[n%len(metas)]
		}
		s.page(t, 5000+n, agent, "granted", event{"event_name": "PageView", "event_id": fmt.Sprintf("crawler-%d", n)})
	}
}

func (s *shop) judge(t *testing.T, orders []order) {
	t.Helper()
	want := map[string]order{}
	for _, o := range orders {
		if !o.refuses {
			want["InitiateCheckout "+o.id()] = o
			if o.paid {
				want["Purchase "+o.id()] = o
			}
		}
	}
	purchases := 0
	for _, e := range s.graph.Kept(datasetA) {
		if e.EventName == "Lead" {
			continue
		}
		o, ok := want[e.EventName+" "+e.EventID]
		require.True(t, ok, "nobody waited for %s %s", e.EventName, e.EventID)
		delete(want, e.EventName+" "+e.EventID)
		require.Equal(t, o.id(), e.OrderID)
		value, err := e.Value.Float64()
		require.NoError(t, err)
		require.InDelta(t, float64(o.cents())/100, value, 1e-9)
		require.Equal(t, "EUR", e.Currency)
		require.Empty(t, e.Warnings)
		require.NotContains(t, string(e.Payload), "example.com&")
		if e.EventName == "Purchase" {
			purchases++
		}
	}
	require.Empty(t, want, "Meta has not heard of these")
	require.Equal(t, salePaid-saleRefuse, purchases)
	require.Empty(t, s.graph.SecondIDs())

	b := s.book(t, datasetA)
	require.EqualValues(t, saleCrawlers, b.by("skipped", "crawler"))
	require.EqualValues(t, 2*saleRefuse, b.by("skipped", "no_consent"), "their checkout and their purchase, each once")
	require.EqualValues(t, salePaid+saleRefunded, b.Beside.Duplicates, "the other copy of each, and what the plug-in told again")
	require.Zero(t, b.Beside.Rejected)
	require.EqualValues(t, 0, b.Failed+b.Held+b.Waiting)
}

// A visitor in California who opted out is reported under Limited Data Use.
func TestAVisitorInCaliforniaIsUnderLimitedDataUse(t *testing.T) {
	t.Parallel()
	s := newShop(t, "sqlite")
	s.page(t, 1, shopAgent, "granted",
		event{"event_name": "ViewContent", "event_id": "california", "ldu": event{"country": 1, "state": 1000}},
		event{"event_name": "ViewContent", "event_id": "elsewhere"},
		event{"event_name": "ViewContent", "event_id": "browser", "consent": event{"ads": "granted", "by": "gcm", "gpc": true}})
	s.drained(t, 20*time.Second)
	found := map[string][]any{}
	for _, e := range s.graph.Kept(datasetA) {
		var p struct {
			Options []string `json:"data_processing_options"`
			Country *int     `json:"data_processing_options_country"`
			State   *int     `json:"data_processing_options_state"`
		}
		require.NoError(t, json.Unmarshal(e.Payload, &p))
		if p.Options == nil {
			found[e.EventID] = nil
			continue
		}
		found[e.EventID] = []any{p.Options[0], *p.Country, *p.State}
	}
	require.Equal(t, map[string][]any{"california": {"LDU", 1, 1000}, "elsewhere": nil, "browser": {"LDU", 0, 0}}, found)
}

// A burst of 200 events a second, CAPILOOP_SOAK_BURST seconds long: all are taken, none is
// lost, and the pages are answered at once.
func TestSoakTagBurst(t *testing.T) {
	t.Parallel()
	s := newShop(t, "sqlite")
	const perSecond = 200
	n := perSecond * number(t, "CAPILOOP_SOAK_BURST", 5)
	due := time.NewTicker(time.Second / perSecond)
	defer due.Stop()
	began := time.Now()
	var visitors sync.WaitGroup
	for i := range n {
		<-due.C
		visitors.Go(func() {
			s.page(t, i, shopAgent, "granted", event{"event_name": "AddToCart", "event_id": fmt.Sprintf("cart-%d", i), "custom_data": event{"value": 45.0, "currency": "EUR"}})
		})
	}
	visitors.Wait()
	t.Logf("%d events in %s", n, time.Since(began).Round(time.Millisecond))
	s.acked(t, "in the burst")
	s.drained(t, 120*time.Second)
	b := s.book(t, datasetA)
	require.EqualValues(t, n, b.Received)
	require.EqualValues(t, n, b.Sent)
	require.Len(t, s.graph.Kept(datasetA), n)
}
