package ledger_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/ledger"
)

func TestIDsAreNewOrderedAndReadable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))) // the bubble's clock then stands still
		now := time.Now()
		g := ledger.NewIDs(5, func() time.Time { return now })
		last := ledger.ID(0)
		for i := range 5000 {
			if i == 2500 {
				now = now.Add(-11 * time.Minute) // someone set the clock back
			}
			id := g.Next()
			require.Greater(t, id, last)
			require.WithinDuration(t, time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), id.Time(), time.Second)
			last = id
		}
		require.Len(t, last.String(), 13)
		back, err := ledger.ParseID(last.String())
		require.NoError(t, err)
		require.Equal(t, last, back)
		require.Equal(t, last, last.Delivery(63).Event())
		require.Greater(t, g.Next(), last.Delivery(ledger.MaxDeliveries), "deliveries fit between two events")
	})
}

func TestTwoNodesNeverMakeTheSameID(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var mu sync.Mutex
	seen := make(map[ledger.ID]bool)
	var wg sync.WaitGroup
	for node := range 4 {
		g := ledger.NewIDs(node, func() time.Time { return now })
		wg.Go(func() {
			for range 2000 {
				id := g.Next()
				mu.Lock()
				require.False(t, seen[id])
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestParseIDRefusesWhatStringDoesNotWrite(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		if id, err := ledger.ParseID(s); err == nil {
			require.NotEmpty(t, id.String())
			require.GreaterOrEqual(t, int64(id), int64(0))
		}
	})
	for _, s := range []string{"", "0", "zzzzzzzzzzzzz", "0000000000001", "000000000000o"} {
		_, err := ledger.ParseID(s)
		require.Error(t, err, s)
	}
}

func TestBackoffGrowsToAnHour(t *testing.T) {
	t.Parallel()
	want := []time.Duration{5 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour, time.Hour}
	for i, d := range want {
		require.Equal(t, d, ledger.Backoff(i+1, 0), "try %d", i+1)
	}
	rapid.Check(t, func(t *rapid.T) {
		n, jitter := rapid.IntRange(-5, 1<<40).Draw(t, "n"), rapid.Float64Range(0, 1).Draw(t, "jitter")
		d := ledger.Backoff(n, jitter)
		require.LessOrEqual(t, d, time.Hour)
		require.GreaterOrEqual(t, d, ledger.Backoff(n, 0)*4/5)
	})
}

func TestProbesGrowToAQuarterOfAnHour(t *testing.T) {
	t.Parallel()
	want := []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 15 * time.Minute, 15 * time.Minute}
	for i, d := range want {
		require.Equal(t, d, ledger.ProbeAfter(i+1), "probe %d", i+1)
	}
}

func TestEachReasonHasItsSentence(t *testing.T) {
	t.Parallel()
	for r, s := range ledger.Reasons() {
		require.NotEmpty(t, s, "reason %q", r)
		require.Equal(t, s, r.Sentence())
		require.Equal(t, byte('.'), s[len(s)-1], "a sentence ends with a full stop: %s", s)
	}
	require.Contains(t, ledger.Reason("no such reason").Sentence(), "no such reason")
}

func TestDeadlineIsBeforeMetasOwn(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	require.Equal(t, at.Add(7*24*time.Hour-time.Hour), ledger.Deadline(at, capi.ActionSourceWebsite))
	require.Equal(t, at.Add(62*24*time.Hour-time.Hour), ledger.Deadline(at, capi.ActionSourcePhysicalStore))
}

func TestConsent(t *testing.T) {
	t.Parallel()
	require.True(t, ledger.ConsentAbsent.Allows(false), "the caller vouches")
	require.False(t, ledger.ConsentAbsent.Allows(true))
	require.True(t, ledger.ConsentGranted.Allows(true))
	require.False(t, ledger.ConsentDenied.Allows(false))
}

func TestATestClockRunsAheadAndFaster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := ledger.TestClock(time.Hour, 60)
		require.NoError(t, c.Sleep(t.Context(), 10*time.Minute))
		require.Equal(t, 10*time.Second, time.Since(start))
		require.Equal(t, start.Add(time.Hour+10*time.Minute), c.Now())
		require.Equal(t, time.Hour, c.Scale(time.Minute))
		require.Equal(t, time.Minute, ledger.Clock{}.Scale(time.Minute))
	})
}

func TestAClockCanBeSetByHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var hand ledger.Hand
		c := hand.Clock()
		copied := c
		require.True(t, c.IsTest(), "what is replayed must not reach Meta")
		require.Equal(t, time.Now(), c.Now())
		past := time.Now().Add(-7 * 24 * time.Hour)
		hand.Set(past)
		require.NoError(t, c.Sleep(t.Context(), time.Minute))
		require.Equal(t, past.Add(time.Minute), copied.Now(), "it goes on from there as the real one does")
		hand.Release()
		require.Equal(t, time.Now(), copied.Now())
	})
}

func TestTheBookAddsUp(t *testing.T) {
	t.Parallel()
	b := ledger.NewBook()
	b.Received = 10
	b.Add(ledger.Sent, ledger.None, 6)
	b.Count("skipped", ledger.NoConsent, 2)
	b.Count("skipped", ledger.NotLive, 1)
	b.Count("duplicates", ledger.None, 4)
	require.EqualValues(t, 1, b.Unexplained(), "what does not add up is said")
	require.EqualValues(t, 3, b.Total(ledger.Skipped))
	require.EqualValues(t, 4, b.Beside[ledger.Duplicate])
	require.Equal(t, []ledger.Line{{ledger.Sent, ledger.None, 6}, {ledger.Skipped, ledger.NoConsent, 2}, {ledger.Skipped, ledger.NotLive, 1}}, b.Lines())
}

func TestEveryFindingSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for _, kind := range []ledger.FindingKind{
		ledger.FindingAccess, ledger.FindingDuplicateConflict, ledger.FindingShortCount, ledger.FindingClock, ledger.FindingMaybeSent,
	} {
		for _, reason := range []ledger.Reason{ledger.TokenInvalid, ledger.DatasetOutOfReach, ledger.PermissionMissing, ledger.Blocked} {
			e := ledger.Finding{Kind: kind, Subject: "1234", Evidence: string(reason)}.Explain()
			require.NotEmpty(t, e.Title)
			require.NotEmpty(t, e.Cause)
			require.NotEmpty(t, e.NextStep)
			require.NotEmpty(t, e.Owner)
			require.Contains(t, []string{"error", "warning"}, e.Severity)
		}
	}
}
