package store_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// bench is a fresh database with one workspace and two destinations.
type bench struct {
	*store.Store
	url   string
	ws    int64
	first int64
	other int64
	ids   *ledger.IDs
	now   time.Time
}

// onBoth runs a test on a fresh SQLite file and, where a server is at hand, on a
// fresh PostgreSQL database.
func onBoth(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, newBench(t, filepath.Join(t.TempDir(), "capiloop.db")))
	})
	if server := os.Getenv("CAPILOOP_TEST_POSTGRES"); server != "" {
		t.Run("postgres", func(t *testing.T) {
			t.Parallel()
			test(t, newBench(t, newPostgres(t, server)))
		})
	}
}

// newPostgres makes a database that is dropped with the test.
func newPostgres(t *testing.T, server string) string {
	t.Helper()
	var random [6]byte
	_, err := rand.Read(random[:])
	require.NoError(t, err)
	name := "test_" + hex.EncodeToString(random[:])
	admin, err := sql.Open("pgx", server)
	require.NoError(t, err)
	_, err = admin.Exec("CREATE DATABASE " + name)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := admin.Exec("DROP DATABASE " + name + " WITH (FORCE)")
		require.NoError(t, err)
		require.NoError(t, admin.Close())
	})
	u, err := url.Parse(server)
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}

func newBench(t *testing.T, database string) *bench {
	t.Helper()
	s := open(t, database)
	applied, err := s.ApplyFile(t.Context(), []store.FileWorkspace{
		{Name: "shop", Destinations: []store.FileDestination{{Kind: "meta", Name: "1", Live: true}, {Kind: "meta", Name: "2", Live: true}}},
		{Name: "neighbour", Destinations: []store.FileDestination{{Kind: "meta", Name: "3", Live: true}}},
	})
	require.NoError(t, err)
	return &bench{
		Store: s, url: database, ws: applied.Workspaces["shop"],
		first: applied.Destinations["meta/1"].ID, other: applied.Destinations["meta/2"].ID,
		ids: ledger.NewIDs(s.Node(), time.Now), now: time.Now(),
	}
}

func open(t *testing.T, database string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Database: database})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// event returns an event for the first destination.
func (b *bench) event(name, eventID string) *ledger.Event {
	id := b.ids.Next()
	return &ledger.Event{
		ID: id, Workspace: b.ws, Source: "api", Name: name, EventID: eventID, Time: b.now, ActionSource: "website", Person: 1,
		Came: capi.KeySet(0).Add(capi.KeyEmail),
		Deliveries: []ledger.Delivery{{
			ID: id.Delivery(1), Destination: b.first, State: ledger.Waiting, Payload: []byte(`{"event_id":"` + eventID + `"}`),
			Priority: ledger.Ordinary, Deadline: b.now.Add(6 * 24 * time.Hour),
		}},
	}
}

func (b *bench) record(t *testing.T, events ...*ledger.Event) []store.Recorded {
	t.Helper()
	done, err := b.Record(t.Context(), &store.Recording{Workspace: b.ws, Events: events})
	require.NoError(t, err)
	require.Len(t, done, len(events))
	return done
}

func (b *bench) claim(t *testing.T, change ...func(*store.ClaimRequest)) (*ledger.Batch, ledger.Lane) {
	t.Helper()
	r := store.ClaimRequest{
		Destination: b.first, Node: "node-a", Batch: b.ids.Next(), Now: b.now, Lease: time.Minute, MaxRows: 1000, MaxBytes: 1 << 20,
	}
	for _, f := range change {
		f(&r)
	}
	batch, lane, err := b.Claim(t.Context(), r)
	require.NoError(t, err)
	return batch, lane
}

func (b *bench) settle(t *testing.T, batch *ledger.Batch, lane ledger.Lane, state ledger.State, why ledger.Reason) {
	t.Helper()
	st := &ledger.Settlement{Batch: batch, Outcome: "sent", Answer: ledger.Answer{Status: 200, TraceID: "T1"}, Lane: lane}
	for _, r := range batch.Rows {
		st.Changes = append(st.Changes, ledger.Change{Row: r, State: state, Why: why})
	}
	require.NoError(t, b.Settle(t.Context(), st))
}

// balanced checks that the book's two sides agree and that its counters are those
// of the rows.
func (b *bench) balanced(t *testing.T) *ledger.Book {
	t.Helper()
	book, err := b.Book(t.Context(), store.BookQuery{Workspace: b.ws})
	require.NoError(t, err)
	require.Zero(t, book.Unexplained())
	rows, err := b.Recount(t.Context(), b.ws)
	require.NoError(t, err)
	require.Equal(t, rows.Received, book.Received)
	for _, s := range ledger.States {
		require.Equal(t, rows.Total(s), book.Total(s), "state %s", s)
	}
	return book
}

func eventIDs(b *ledger.Batch) []string {
	var ids []string
	for _, r := range b.Rows {
		ids = append(ids, string(r.Payload[len(`{"event_id":"`):len(r.Payload)-2]))
	}
	return ids
}

func TestAnEventGoesThrough(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		done := b.record(t, b.event("Lead", "l1"), b.event("Lead", "l2"))
		require.False(t, done[0].Duplicate)
		require.EqualValues(t, 2, b.balanced(t).Total(ledger.Waiting))

		batch, lane := b.claim(t)
		require.Equal(t, []string{"l1", "l2"}, eventIDs(batch))
		b.settle(t, batch, lane, ledger.Sent, ledger.None)
		require.EqualValues(t, 2, b.balanced(t).Total(ledger.Sent))

		again, _ := b.claim(t)
		require.Nil(t, again, "nothing is left")

		v, err := b.Event(t.Context(), b.ws, done[0].ID)
		require.NoError(t, err)
		require.Equal(t, ledger.Sent, v.State())
		require.Equal(t, "T1", v.Deliveries[0].Answer.TraceID)
		require.Equal(t, 1, v.Deliveries[0].Tries)
		require.Equal(t, "em", v.Came.String())
	})
}

func TestARepeatIsCountedNotStored(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		first := b.record(t, b.event("Lead", "l1"))
		restamped := b.event("Lead", "l1")
		restamped.Time = b.now.Add(-3 * time.Hour)
		done := b.record(t, restamped, b.event("Purchase", "l1"), b.event("Lead", "l2"), b.event("Lead", "l2"))
		require.True(t, done[0].Duplicate)
		require.Equal(t, first[0].ID, done[0].ID)
		require.False(t, done[1].Duplicate, "another name is another event")
		require.False(t, done[2].Duplicate)
		require.True(t, done[3].Duplicate, "twice in one request")
		require.Equal(t, done[2].ID, done[3].ID)
		book := b.balanced(t)
		require.EqualValues(t, 3, book.Received)
		require.EqualValues(t, 2, book.Beside[ledger.Duplicate])
	})
}

// Case C200 of the public reports: a page cache serves one id to everybody.
func TestAnotherPersonUnderTheSameIDIsFlagged(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		b.record(t, b.event("Lead", "static-1"))
		other := b.event("Lead", "static-1")
		other.Person = 1 + 8
		done := b.record(t, other)
		require.True(t, done[0].Conflict)
		require.EqualValues(t, 1, b.balanced(t).Beside[ledger.DuplicateConflict])
		findings, err := b.Findings(t.Context(), b.ws)
		require.NoError(t, err)
		require.Len(t, findings, 1)
		require.Equal(t, ledger.FindingDuplicateConflict, findings[0].Kind)
	})
}

func TestAnEventForTwoDestinations(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		b.record(t, b.event("Lead", "l1"))
		both := b.event("Lead", "l1")
		second := both.Deliveries[0]
		second.ID, second.Destination = both.ID.Delivery(2), b.other
		both.Deliveries = append(both.Deliveries, second)
		done := b.record(t, both)
		require.False(t, done[0].Duplicate, "one of the two destinations did not have it")
		v, err := b.Event(t.Context(), b.ws, done[0].ID)
		require.NoError(t, err)
		require.Len(t, v.Deliveries, 1)
		require.Equal(t, "2", v.Deliveries[0].Destination)
		book := b.balanced(t)
		require.EqualValues(t, 2, book.Received)
		require.EqualValues(t, 1, book.Beside[ledger.Duplicate])
	})
}

func TestASkippedOrRefusedEventMayComeAgain(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		skipped := b.event("Lead", "l1")
		skipped.Deliveries[0].State, skipped.Deliveries[0].Reason, skipped.Deliveries[0].Payload = ledger.Skipped, ledger.NoConsent, nil
		b.record(t, skipped)
		again := b.event("Lead", "l1")
		again.Deliveries[0].State, again.Deliveries[0].Reason = ledger.Skipped, ledger.NoConsent
		require.True(t, b.record(t, again)[0].Duplicate, "skipped twice is one")
		require.False(t, b.record(t, b.event("Lead", "l1"))[0].Duplicate, "now with consent")

		batch, lane := b.claim(t)
		b.settle(t, batch, lane, ledger.Failed, ledger.Refused)
		require.False(t, b.record(t, b.event("Lead", "l1"))[0].Duplicate, "repaired and sent again")
		batch, lane = b.claim(t)
		b.settle(t, batch, lane, ledger.Sent, ledger.None)
		require.True(t, b.record(t, b.event("Lead", "l1"))[0].Duplicate)
		b.balanced(t)
	})
}

func TestMoneyAndWhatExpiresGoFirst(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		var events []*ledger.Event
		for i := range 2000 {
			events = append(events, b.event("Lead", fmt.Sprint("l", i)))
		}
		purchase := b.event("Purchase", "p1")
		purchase.Deliveries[0].Priority = ledger.Valuable
		closing := b.event("Lead", "closing")
		closing.Deliveries[0].Deadline = b.now.Add(2 * time.Hour)
		b.record(t, append(events, closing, purchase)...)
		batch, _ := b.claim(t)
		require.Len(t, batch.Rows, 1000)
		require.Equal(t, []string{"p1", "closing", "l0", "l1"}, eventIDs(batch)[:4])
	})
}

func TestABatchKeepsItsLimits(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		first := b.event("Lead", "l1")
		tested := b.event("Lead", "t1")
		tested.Deliveries[0].Envelope.TestCode = "TEST1"
		second, big := b.event("Lead", "l2"), b.event("Lead", "b1")
		big.Deliveries[0].Payload = make([]byte, 600)
		b.record(t, first, tested, second, big)
		batch, lane := b.claim(t, func(r *store.ClaimRequest) { r.MaxBytes = 100 })
		require.Len(t, batch.Rows, 2, "one test code per batch, and the size")
		require.Empty(t, batch.Envelope.TestCode)
		b.settle(t, batch, lane, ledger.Sent, ledger.None)
		batch, lane = b.claim(t, func(r *store.ClaimRequest) { r.MaxBytes = 100 })
		require.Equal(t, "TEST1", batch.Envelope.TestCode)
		b.settle(t, batch, lane, ledger.Sent, ledger.None)
		batch, _ = b.claim(t, func(r *store.ClaimRequest) { r.MaxBytes = 100 })
		require.Len(t, batch.Rows, 1, "a row larger than the limit goes alone")
	})
}

func TestTheLeaseFencesASlowNodeOut(t *testing.T) {
	t.Parallel()
	server := os.Getenv("CAPILOOP_TEST_POSTGRES")
	if server == "" {
		return // SQLite has one process only
	}
	b := newBench(t, newPostgres(t, server))
	b.record(t, b.event("Lead", "l1"))
	slow, slowLane := b.claim(t)

	other := open(t, b.url)
	request := store.ClaimRequest{Destination: b.first, Node: "node-b", Batch: b.ids.Next(), Now: b.now, Lease: time.Minute, MaxRows: 10, MaxBytes: 1000}
	_, _, err := other.Claim(t.Context(), request)
	require.ErrorIs(t, err, store.ErrLeased)

	request.Now = b.now.Add(2 * time.Minute)
	taken, lane, err := other.Claim(t.Context(), request)
	require.NoError(t, err)
	require.Len(t, taken.Rows, 1)
	require.WithinDuration(t, b.now, taken.Rows[0].UnknownSince, time.Second, "the slow node may have sent it")

	st := &ledger.Settlement{Batch: slow, Outcome: "sent", Lane: slowLane, Changes: []ledger.Change{{Row: slow.Rows[0], State: ledger.Sent}}}
	require.ErrorIs(t, b.Settle(t.Context(), st), store.ErrLeaseLost)
	require.NoError(t, other.Settle(t.Context(), &ledger.Settlement{
		Batch: taken, Outcome: "sent", Lane: lane, Changes: []ledger.Change{{Row: taken.Rows[0], State: ledger.Sent}},
	}))
	require.EqualValues(t, 1, b.balanced(t).Total(ledger.Sent))
}

func TestABatchFoundOpenAfterACrashIsInDoubt(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		b.record(t, b.event("Lead", "l1"))
		b.claim(t)
		b.now = b.now.Add(2 * time.Minute)
		batch, lane := b.claim(t, func(r *store.ClaimRequest) { r.Node = "node-b" })
		require.Len(t, batch.Rows, 1)
		require.WithinDuration(t, b.now.Add(-2*time.Minute), batch.Rows[0].UnknownSince, time.Second)
		require.EqualValues(t, 2, lane.Epoch)
	})
}

func TestTooLateIsSaid(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		late := b.event("Lead", "late")
		late.Deliveries[0].Deadline = b.now.Add(time.Hour)
		b.record(t, late, b.event("Lead", "l1"))
		n, err := b.Expire(t.Context(), b.first, b.now.Add(2*time.Hour))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.EqualValues(t, 1, b.balanced(t).By[ledger.Failed][ledger.Expired])
		require.True(t, b.record(t, b.event("Lead", "late"))[0].Duplicate, "too late stays too late")
	})
}

func TestRetryOfFailedEvents(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		done := b.record(t, b.event("Lead", "l1"), b.event("Lead", "l2"))
		batch, lane := b.claim(t)
		b.settle(t, batch, lane, ledger.Failed, ledger.Refused)
		b.record(t, b.event("Lead", "l2")) // repaired meanwhile
		n, err := b.RetryFailed(t.Context(), store.RetryQuery{Workspace: b.ws, Now: b.now})
		require.NoError(t, err)
		require.Equal(t, 1, n, "the one that came again is left alone")
		batch, _ = b.claim(t)
		require.ElementsMatch(t, []string{"l1", "l2"}, eventIDs(batch))
		n, err = b.RetryFailed(t.Context(), store.RetryQuery{Workspace: b.ws, Event: done[0].ID, Now: b.now})
		require.NoError(t, err)
		require.Zero(t, n, "it is on its way already")
		book := b.balanced(t)
		require.EqualValues(t, 2, book.Total(ledger.Waiting))
		require.EqualValues(t, 1, book.Total(ledger.Failed))
	})
}

func TestAPersonDecidesOnHeldEvents(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		b.record(t, b.event("Lead", "l1"), b.event("Lead", "l2"))
		batch, lane := b.claim(t)
		b.settle(t, batch, lane, ledger.Held, ledger.MaybeSent)
		require.EqualValues(t, 2, b.balanced(t).By[ledger.Held][ledger.MaybeSent])
		nothing, _ := b.claim(t)
		require.Nil(t, nothing)

		n, err := b.Decide(t.Context(), store.RetryQuery{Workspace: b.ws, Event: batch.Rows[0].ID, Now: b.now}, true)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		n, err = b.Decide(t.Context(), store.RetryQuery{Workspace: b.ws, Now: b.now}, false)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		released, _ := b.claim(t)
		require.Equal(t, []string{"l1"}, eventIDs(released))
		require.Zero(t, released.Rows[0].UnknownSince)
		require.EqualValues(t, 1, b.balanced(t).By[ledger.Skipped][ledger.Dropped])
	})
}

func TestEventsFromTheFutureWait(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		e := b.event("Lead", "l1")
		e.Deliveries[0].State, e.Deliveries[0].Reason, e.Deliveries[0].DueAt = ledger.Held, ledger.ClockAhead, b.now.Add(11*time.Minute)
		b.record(t, e)
		require.EqualValues(t, 1, b.balanced(t).By[ledger.Held][ledger.ClockAhead])
		findings, err := b.Findings(t.Context(), b.ws)
		require.NoError(t, err)
		require.Len(t, findings, 1, "whoever sends them is told")
		require.Equal(t, ledger.FindingClock, findings[0].Kind)
		require.True(t, findings[0].FixedAt.IsZero())
		n, err := b.Decide(t.Context(), store.RetryQuery{Workspace: b.ws, Now: b.now}, true)
		require.NoError(t, err)
		require.Zero(t, n, "nobody can release it before its time")
		n, err = b.ReleaseDue(t.Context(), b.first, b.now.Add(12*time.Minute))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.EqualValues(t, 1, b.balanced(t).Total(ledger.Waiting))
		findings, err = b.Findings(t.Context(), b.ws)
		require.NoError(t, err)
		require.False(t, findings[0].FixedAt.IsZero(), "it is fixed once the time has come")
	})
}

func TestAHeldLaneReadsAsHeld(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		b.record(t, b.event("Lead", "l1"))
		batch, lane := b.claim(t)
		lane.Held, lane.HeldSince = ledger.TokenInvalid, b.now
		require.NoError(t, b.Settle(t.Context(), &ledger.Settlement{Batch: batch, Outcome: "held", Lane: lane}))
		require.EqualValues(t, 1, b.balanced(t).By[ledger.Held][ledger.TokenInvalid])
		findings, err := b.Findings(t.Context(), b.ws)
		require.NoError(t, err)
		require.Len(t, findings, 1)
		require.Equal(t, "1", findings[0].Subject)
		require.Contains(t, findings[0].Explain().Cause, "token")

		batch, lane = b.claim(t)
		lane.Held = ledger.None
		b.settle(t, batch, lane, ledger.Sent, ledger.None)
		findings, err = b.Findings(t.Context(), b.ws)
		require.NoError(t, err)
		require.False(t, findings[0].FixedAt.IsZero(), "it is fixed by itself")
	})
}

func TestWorkspacesDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		done := b.record(t, b.event("Lead", "l1"))
		_, err := b.Event(t.Context(), b.ws+1, done[0].ID)
		require.ErrorIs(t, err, store.ErrNotFound)
		book, err := b.Book(t.Context(), store.BookQuery{Workspace: b.ws + 1})
		require.NoError(t, err)
		require.Zero(t, book.Received)
		n, err := b.Decide(t.Context(), store.RetryQuery{Workspace: b.ws + 1, Now: b.now}, false)
		require.NoError(t, err)
		require.Zero(t, n)
	})
}

func TestOldEventIDsAreForgottenAfterSevenDays(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		var events []*ledger.Event
		for i := range 1200 {
			events = append(events, b.event("Lead", fmt.Sprint("l", i)))
		}
		b.record(t, events...)
		require.NoError(t, b.Tidy(t.Context(), time.Now().Add(6*24*time.Hour)))
		require.True(t, b.record(t, b.event("Lead", "l7"))[0].Duplicate)
		require.NoError(t, b.Tidy(t.Context(), time.Now().Add(8*24*time.Hour)))
		for _, i := range []int{0, 499, 500, 1199} {
			require.False(t, b.record(t, b.event("Lead", fmt.Sprint("l", i)))[0].Duplicate, "l%d", i)
		}
	})
}

func TestOneBadRequestDoesNotFailItsGroup(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		bad := b.event("Lead", "bad")
		bad.ID = b.record(t, b.event("Lead", "first"))[0].ID // its primary key is taken
		bad.Deliveries[0].ID = bad.ID.Delivery(1)
		results := make(chan error, 40)
		for i := range 40 {
			e := b.event("Lead", fmt.Sprint("good", i))
			if i == 20 {
				e = bad
			}
			go func() {
				_, err := b.Record(context.WithoutCancel(t.Context()), &store.Recording{Workspace: b.ws, Events: []*ledger.Event{e}})
				results <- err
			}()
		}
		failed := 0
		for range 40 {
			if err := <-results; err != nil {
				failed++
			}
		}
		require.Equal(t, 1, failed)
		require.EqualValues(t, 40, b.balanced(t).Received)
	})
}

func TestOldPayloadsAreCleared(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		done := b.record(t, b.event("Lead", "l1"), b.event("Lead", "l2"))
		batch, lane := b.claim(t, func(r *store.ClaimRequest) { r.MaxRows = 1 })
		b.settle(t, batch, lane, ledger.Sent, ledger.None)
		n, err := b.PurgePayloads(t.Context(), b.ws, b.now.Add(-time.Hour))
		require.NoError(t, err)
		require.Zero(t, n, "not old enough")
		n, err = b.PurgePayloads(t.Context(), b.ws+1, b.now.Add(time.Hour))
		require.NoError(t, err)
		require.Zero(t, n, "another workspace's")
		n, err = b.PurgePayloads(t.Context(), b.ws, b.now.Add(time.Hour))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		sent, err := b.Event(t.Context(), b.ws, done[0].ID)
		require.NoError(t, err)
		require.Nil(t, sent.Deliveries[0].Payload)
		waiting, err := b.Event(t.Context(), b.ws, done[1].ID)
		require.NoError(t, err)
		require.NotNil(t, waiting.Deliveries[0].Payload, "what still has to go is kept")
		batch, lane = b.claim(t)
		b.settle(t, batch, lane, ledger.Sent, ledger.None)
		n, err = b.PurgePayloads(t.Context(), b.ws, b.now.Add(time.Hour))
		require.NoError(t, err)
		require.Equal(t, 1, n, "and cleared once it went")
		b.balanced(t)
	})
}
