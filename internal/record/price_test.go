package record_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
)

func bought(id, value, currency string, change func(e *capi.Event)) *capi.Event {
	e := &capi.Event{
		EventName: "Purchase", EventID: id, EventTime: time.Now().Unix() - 5, ActionSource: capi.ActionSourceWebsite, EventSourceURL: "https://shop.example.com/",
		CustomData: &capi.CustomData{Value: value, Currency: currency, ContentIDs: []string{"tee"}},
		UserData:   capi.UserData{Email: []string{"jane@example.com"}, ClientIPAddress: "203.0.113.7", ClientUserAgent: "Mozilla/5.0 (X11) Firefox/140"},
	}
	if change != nil {
		change(e)
	}
	return e
}

// till is a desk at which purchases are recorded, each under an id of its own.
type till struct {
	*desk
	n int
}

func (c *till) buy(t *testing.T, value, currency string, change func(e *capi.Event)) record.Result {
	t.Helper()
	c.n++
	return c.one(t, record.Item{Event: bought(strconv.Itoa(c.n), value, currency, change), Dataset: "1"})
}

func (c *till) held(t *testing.T, value, currency string, change func(e *capi.Event)) bool {
	t.Helper()
	res := c.buy(t, value, currency, change)
	require.Nil(t, res.Rejected, "%v", res.Rejected)
	v, err := c.store.Event(t.Context(), c.ws.ID, res.ID)
	require.NoError(t, err)
	require.Equal(t, res.State, v.Deliveries[0].State)
	if res.State == ledger.Held {
		require.Equal(t, ledger.ValueOutlier, v.Deliveries[0].Reason)
		require.Equal(t, ledger.ValueOutlier, res.Reason)
	}
	return res.State == ledger.Held
}

// five lets what is usual become known.
func (c *till) five(t *testing.T, value string, change func(e *capi.Event)) {
	t.Helper()
	for range 5 {
		require.False(t, c.held(t, value, "EUR", change))
	}
}

// A website Purchase whose value is 100 times the usual for its content is held.
func TestAPurchaseAHundredTimesTheUsualIsHeld(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		c := &till{desk: newDeskOn(t, database())}
		for range 4 {
			require.False(t, c.held(t, "45.00", "EUR", nil))
		}
		require.False(t, c.held(t, "4500", "EUR", nil), "of four nobody knows what is usual")
		require.True(t, c.held(t, "4500", "EUR", nil))
		require.True(t, c.held(t, "900.01", "EUR", nil))
		require.False(t, c.held(t, "900", "EUR", nil), "twenty times is no slip")

		require.False(t, c.held(t, "4500", "JPY", nil), "another currency is another price")
		require.False(t, c.held(t, "4500", "EUR", func(e *capi.Event) { e.CustomData.ContentIDs = []string{"sofa"} }))
		require.False(t, c.held(t, "4500", "EUR", func(e *capi.Event) { e.CustomData.ContentIDs = []string{"tee", "cap"} }))
		require.False(t, c.held(t, "4500", "EUR", func(e *capi.Event) { e.CustomData.NumItems = "100" }), "a hundred of them may cost that")
		require.False(t, c.held(t, "4500", "EUR", func(e *capi.Event) { e.EventName = "Donate" }))
		require.False(t, c.held(t, "4500", "EUR", func(e *capi.Event) { e.ActionSource = capi.ActionSourceSystemGenerated }))

		findings, err := c.store.Findings(t.Context(), c.ws.ID)
		require.NoError(t, err)
		require.Len(t, findings, 1)
		require.Equal(t, []string{string(ledger.FindingGuard), "api", string(ledger.ValueOutlier)}, []string{string(findings[0].Kind), findings[0].Subject, findings[0].Evidence})
		n, err := c.store.Decide(t.Context(), store.RetryQuery{Workspace: c.ws.ID, Reason: ledger.ValueOutlier, Now: time.Now()}, false)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		findings, err = c.store.Findings(t.Context(), c.ws.ID)
		require.NoError(t, err)
		require.False(t, findings[0].FixedAt.IsZero())
		book, err := c.store.Book(t.Context(), store.BookQuery{Workspace: c.ws.ID})
		require.NoError(t, err)
		require.Zero(t, book.Unexplained())
	})
}

func TestWhatAPurchaseIsOf(t *testing.T) {
	t.Parallel()
	c := &till{desk: newDesk(t)}
	contents := func(list ...capi.Content) func(e *capi.Event) {
		return func(e *capi.Event) { e.CustomData.ContentIDs, e.CustomData.Contents = nil, list }
	}
	none := func(e *capi.Event) { e.CustomData.ContentIDs = nil }
	called := func(e *capi.Event) { e.CustomData.ContentIDs, e.CustomData.ContentName = nil, "Course" }
	two := contents(capi.Content{ID: "a", Quantity: "1"}, capi.Content{ID: "b", Quantity: "2"})
	for _, what := range []func(e *capi.Event){two, none, called} {
		c.five(t, "45.00", what)
		require.True(t, c.held(t, "4500", "EUR", what))
	}
	require.True(t, c.held(t, "4500", "EUR", contents(capi.Content{ID: "b", Quantity: "2.0"}, capi.Content{ID: "a"})), "in whatever order, and one is one")
	require.False(t, c.held(t, "4500", "EUR", contents(capi.Content{ID: "a"}, capi.Content{ID: "b", Quantity: "200"})))
}

func TestTheGuardOfPurchasesCanBeOff(t *testing.T) {
	t.Parallel()
	for name, guard := range map[string]ledger.Guard{"for all": {Off: true}, "for the source": {Without: []string{"api"}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &till{desk: newDesk(t)}
			c.five(t, "45.00", nil)
			c.ws.Guard = guard
			require.False(t, c.held(t, "4500", "EUR", nil))
			c.five(t, "4500", nil)
			c.ws.Guard = ledger.DefaultGuard()
			require.True(t, c.held(t, "4500", "EUR", nil), "who is not guarded teaches nothing")
		})
	}
}

func TestWhatIsHeldIsUsualOnceItIsReleased(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		c := &till{desk: newDeskOn(t, database())}
		c.ws.Datasets[1].Live = true
		both := func() record.Result {
			c.n++
			return c.one(t, record.Item{Event: bought(strconv.Itoa(c.n), "4500", "EUR", nil)})
		}
		c.five(t, "45.00", nil)
		for range 10 {
			require.Equal(t, ledger.Held, both().State, "what is held is not usual")
		}
		for n := range 2 { // one dataset after the other: each purchase counts once
			done, err := c.store.Decide(t.Context(), store.RetryQuery{Workspace: c.ws.ID, Destination: c.ws.Datasets[n].ID, Reason: ledger.ValueOutlier, Now: time.Now()}, true)
			require.NoError(t, err)
			require.Equal(t, 10, done)
		}
		require.False(t, c.held(t, "4500", "EUR", nil))
		require.False(t, c.held(t, "45.00", "EUR", nil))
	})
}

// A retry is no second purchase, what is free is none either, and what goes nowhere says
// nothing.
func TestWhatTeachesNothing(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		c := &till{desk: newDeskOn(t, database())}
		c.n = 1
		for range 20 {
			c.one(t, record.Item{Event: bought("same", "45.00", "EUR", nil), Dataset: "1"})
			c.one(t, record.Item{Event: bought("same", "45.00", "EUR", nil), Dataset: "2"})
			require.Nil(t, c.buy(t, "0", "EUR", nil).Rejected)
			c.buy(t, "-3", "EUR", nil)
			c.n++
			c.one(t, record.Item{Event: bought(strconv.Itoa(c.n), "45.00", "EUR", nil), Dataset: "1", Consent: ledger.Decision{Consent: ledger.ConsentDenied}})
			c.n++
			c.one(t, record.Item{Event: bought(strconv.Itoa(c.n), "45.00", "EUR", nil), Dataset: "1", TestEventCode: "TEST1"})
		}
		require.False(t, c.held(t, "4500", "EUR", nil), "one purchase is known, and this the second")
		c.five(t, "45.00", nil)
		require.True(t, c.held(t, "4500", "EUR", nil))
		for range 20 {
			require.False(t, c.held(t, "0", "EUR", nil))
		}
		require.True(t, c.held(t, "4500", "EUR", nil), "no number of free ones makes it usual")
	})
}

// An outlier of the future does not slip past the guard when its time comes, and one that
// is released waits for its time.
func TestAnOutlierOfTheFutureIsHeldByTheGuard(t *testing.T) {
	t.Parallel()
	c := &till{desk: newDesk(t)}
	c.five(t, "45.00", nil)
	res := c.buy(t, "4500", "EUR", func(e *capi.Event) { e.EventTime = time.Now().Add(time.Hour).Unix() })
	require.Equal(t, ledger.ValueOutlier, res.Reason)
	_, err := c.store.Decide(t.Context(), store.RetryQuery{Workspace: c.ws.ID, Now: time.Now()}, true)
	require.NoError(t, err)
	v, err := c.store.Event(t.Context(), c.ws.ID, res.ID)
	require.NoError(t, err)
	require.Equal(t, ledger.Waiting, v.Deliveries[0].State)
	require.True(t, v.Deliveries[0].DueAt.After(time.Now().Add(50*time.Minute)))
}

// Whatever the order in which purchases come, on whichever node and after whatever
// restart: once five are known, the outliers are held and nothing else is.
func TestWhoIsHeldDependsOnNothingButThePrice(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		for round := range 4 {
			where := database()
			s := newShops(t, where)
			var list []*capi.Event
			for n := range 60 {
				value := 20 + rand.Float64()*60
				if n%4 == 0 {
					value = 2000 + rand.Float64()*5000
				}
				list = append(list, bought(fmt.Sprintf("%d-%d", round, n), strconv.FormatFloat(value, 'f', 2, 64), "EUR", nil))
			}
			for n := range 5 {
				s.record(t, bought(fmt.Sprintf("%d-first-%d", round, n), "45", "EUR", nil))
			}
			rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			var wg sync.WaitGroup
			for n, e := range list {
				if n == len(list)/2 {
					wg.Wait()
					s.restart(t)
				}
				wg.Go(func() {
					value, _ := strconv.ParseFloat(e.CustomData.Value, 64)
					if got := s.record(t, e); (got == ledger.Held) != (value > 900) {
						t.Errorf("%s is %s", e.CustomData.Value, got)
					}
				})
			}
			wg.Wait()
		}
	})
}

// shops are the nodes that a shop's purchases come to: two on PostgreSQL.
type shops struct {
	where string
	list  []*board
	next  atomic.Int64
}

func newShops(t *testing.T, database string) *shops {
	t.Helper()
	s := &shops{where: database}
	t.Cleanup(func() { s.close(t) })
	s.open(t)
	return s
}

func (s *shops) open(t *testing.T) {
	t.Helper()
	nodes := 1
	if strings.HasPrefix(s.where, "postgres") {
		nodes = 2
	}
	for range nodes {
		b, _ := openBoard(t, s.where, nil, &secret.Ring{})
		b.ws.Guard = ledger.DefaultGuard()
		s.list = append(s.list, b)
	}
}

func (s *shops) close(t *testing.T) {
	t.Helper()
	for _, b := range s.list {
		require.NoError(t, b.store.Close())
	}
	s.list = nil
}

func (s *shops) restart(t *testing.T) {
	t.Helper()
	s.close(t)
	s.open(t)
}

func (s *shops) record(t *testing.T, e *capi.Event) ledger.State {
	t.Helper()
	b := s.list[int(s.next.Add(1))%len(s.list)]
	out, err := b.recorder.Record(t.Context(), record.Request{Workspace: b.ws, Source: "web", Items: []record.Item{{Event: e}}})
	if err != nil {
		t.Error(err)
		return ""
	}
	return out.Results[0].State
}
