package store_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// ofLead returns a lead with one id, one person and, if there is a CRM, a delivery.
func (b *bench) ofLead(ids, people []string) *store.LeadRecording {
	id := b.ids.Next()
	r := &store.LeadRecording{
		Lead: ledger.Lead{ID: id, Workspace: b.ws, Source: "forms", Kind: "api", CreatedAt: b.now}, Wrapped: []byte{1}, Sealed: []byte{2}, At: b.now,
		Deliveries: []ledger.Delivery{{ID: id.Delivery(1), Destination: b.other, State: ledger.Waiting, Priority: ledger.Ordinary, Deadline: b.now.AddDate(0, 0, 90)}},
	}
	for _, x := range ids {
		r.IDs = append(r.IDs, []byte(x))
	}
	for _, x := range people {
		r.People = append(r.People, []byte(x))
	}
	return r
}

func (b *bench) recordLead(t *testing.T, r *store.LeadRecording) store.LeadRecorded {
	t.Helper()
	done, err := b.RecordLead(t.Context(), r)
	require.NoError(t, err)
	return done
}

func (b *bench) consentOf(t *testing.T, id ledger.ID) ledger.Consent {
	t.Helper()
	row, err := b.LeadFor(t.Context(), b.other, id)
	require.NoError(t, err)
	return row.Lead.Consent
}

func carry(word string) func([]byte) bool {
	return func(payload []byte) bool { return bytes.Contains(payload, []byte(word)) }
}

func TestAWithdrawalSkipsWhatWaits(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		ana := b.recordLead(t, b.ofLead([]string{"lead ana"}, []string{"ana@"}))
		bo := b.recordLead(t, b.ofLead(nil, []string{"bo@"}))
		var events []*ledger.Event
		for i := range 1200 { // more than one page
			who := "bo"
			if i%3 == 0 {
				who = "ana"
			}
			events = append(events, b.event("Lead", fmt.Sprint(who, "-", i)))
		}
		events[3].Deliveries[0].State, events[3].Deliveries[0].Reason = ledger.Held, ledger.ClockAhead
		for _, e := range events {
			b.record(t, e)
		}
		c := &store.Consent{Workspace: b.ws, Hashes: [][]byte{[]byte("h1"), []byte("h2")}, People: [][]byte{[]byte("ana@")}, IDs: [][]byte{[]byte("lead ana")}, At: b.now}
		leads, skipped, err := b.SetConsent(t.Context(), c, carry("ana-"))
		require.NoError(t, err)
		require.Equal(t, 1, leads, "found by two hashes, counted once")
		require.Equal(t, 400, skipped)
		require.Equal(t, ledger.ConsentDenied, b.consentOf(t, ana.ID))
		require.Equal(t, ledger.ConsentAbsent, b.consentOf(t, bo.ID))
		v, err := b.Event(t.Context(), b.ws, events[3].ID)
		require.NoError(t, err)
		require.Equal(t, ledger.Skipped, v.Deliveries[0].State, "what was held by itself, too")
		require.Equal(t, ledger.NoConsent, v.Deliveries[0].Reason)
		require.Nil(t, v.Deliveries[0].Payload)
		book, err := b.Book(t.Context(), store.BookQuery{Workspace: b.ws})
		require.NoError(t, err)
		require.Zero(t, book.Unexplained())
		life, err := b.LeadLife(t.Context(), ana.ID)
		require.NoError(t, err)
		require.Equal(t, ledger.Waiting, life.Deliveries[0].State, "a CRM is no advertising")

		_, skipped, err = b.SetConsent(t.Context(), c, carry("ana-"))
		require.NoError(t, err)
		require.Zero(t, skipped, "again changes nothing")
	})
}

func TestWithdrawnIsSeenAtOnceAndByOthers(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		set, err := b.Withdrawn(t.Context(), b.ws)
		require.NoError(t, err)
		require.Nil(t, set)
		decide := func(granted bool) {
			_, _, err := b.SetConsent(t.Context(), &store.Consent{Workspace: b.ws, Hashes: [][]byte{[]byte("h1")}, Granted: granted, At: b.now}, nil)
			require.NoError(t, err)
		}
		decide(false)
		set, err = b.Withdrawn(t.Context(), b.ws)
		require.NoError(t, err)
		require.True(t, set.Has([]byte("h1")))
		require.False(t, set.Has([]byte("h2")))
		set, err = b.Withdrawn(t.Context(), b.ws+1)
		require.NoError(t, err)
		require.Nil(t, set, "a workspace's own")
		if !b.IsSQLite() {
			node := open(t, b.url)
			set, err = node.Withdrawn(t.Context(), b.ws)
			require.NoError(t, err)
			require.True(t, set.Has([]byte("h1")))
			decide(true)
			require.Eventually(t, func() bool {
				set, err := node.Withdrawn(t.Context(), b.ws)
				return err == nil && !set.Has([]byte("h1"))
			}, 10*time.Second, 100*time.Millisecond, "another node notices within seconds")
		}
		decide(true)
		set, err = b.Withdrawn(t.Context(), b.ws)
		require.NoError(t, err)
		require.Nil(t, set)
	})
}

func TestNoIDStaysWithALeadThatIsNotKept(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		first := b.recordLead(t, b.ofLead([]string{"submission"}, nil))
		require.Equal(t, store.LeadRecorded{ID: first.ID, Duplicate: true}, b.recordLead(t, b.ofLead([]string{"lead 1", "submission", "lead 2"}, nil)))
		for _, id := range []string{"lead 1", "lead 2"} {
			found, err := b.FindLead(t.Context(), b.ws, []byte(id))
			require.NoError(t, err)
			require.Equal(t, first.ID, found, "%s names the lead that is kept", id)
		}
		keyed := b.ofLead([]string{"lead 3"}, nil)
		keyed.Key, keyed.Body = []byte("key"), []byte("key and body")
		b.recordLead(t, keyed)
		other := b.ofLead([]string{"lead 4"}, nil)
		other.Key, other.Body = []byte("key"), []byte("key and another body")
		require.True(t, b.recordLead(t, other).Reused)
		_, err := b.FindLead(t.Context(), b.ws, []byte("lead 4"))
		require.ErrorIs(t, err, store.ErrNotFound)
	})
}
