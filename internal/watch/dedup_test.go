package watch_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// saw records what the tag saw in a visitor's browser.
func (p *post) saw(t *testing.T, id, page string) {
	t.Helper()
	g := ledger.Sighting{ID: p.ids.Next(), Workspace: p.ws.ID, Source: "site", Dataset: "1", Name: "CompleteRegistration", EventID: id, At: time.Now(), Page: page}
	copy(g.UID[:], g.ID.String())
	_, err := p.AddSightings(t.Context(), []ledger.Sighting{g})
	require.NoError(t, err)
}

// heard records a server's copy.
func (p *post) heard(t *testing.T, id string) {
	t.Helper()
	n := p.ids.Next()
	_, err := p.Record(t.Context(), &store.Recording{Workspace: p.ws.ID, Events: []*ledger.Event{{
		ID: n, Workspace: p.ws.ID, Source: "app", Name: "CompleteRegistration", EventID: id, Time: time.Now(), ActionSource: "website",
		Deliveries: []ledger.Delivery{{ID: n.Delivery(1), Destination: p.ws.Datasets[0].ID, State: ledger.Waiting, Payload: []byte("{}"), Deadline: time.Now().Add(7 * day)}},
	}}})
	require.NoError(t, err)
}

func TestCopiesThatDoNotPairAreFound(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, p *post) {
		ids, old := "Browser and server report the same sign-ups to 1, and Meta counts them twice", "browser sign-ups had no server event: form /signup-old"
		require.Empty(t, p.findings(t, time.Hour))
		for n := range 8 {
			p.saw(t, strconv.FormatInt(time.Now().UnixMilli(), 10), "/signup")
			p.heard(t, strconv.Itoa(4711+n))
			time.Sleep(10 * time.Minute)
		}
		for range 4 {
			p.saw(t, strconv.FormatInt(time.Now().UnixMilli(), 10), "/signup-old")
			time.Sleep(10 * time.Minute)
		}
		require.Equal(t, []string{ids}, p.findings(t, time.Hour), "four of a page are too few to tell")
		p.saw(t, "x", "/signup-old")
		require.ElementsMatch(t, []string{ids, "5 " + old}, p.findings(t, time.Hour))
		list, err := p.Findings(t.Context(), p.ws.ID)
		require.NoError(t, err)
		for _, f := range list {
			if f.Kind == ledger.FindingDedupIDs {
				require.Contains(t, f.Explain().Cause, "0 of the 8 that both sides know pair. 8 by different id scheme: 13-digit time vs integer")
				require.Contains(t, f.Explain().Cause, "Meta will show 21 instead of 13.")
			}
		}

		// After the repair they close by themselves, long before the week is over.
		for n := range 20 {
			page := "/signup"
			if n%4 == 0 {
				page = "/signup-old"
			}
			p.saw(t, "one-"+strconv.Itoa(n), page)
			p.heard(t, "one-"+strconv.Itoa(n))
			time.Sleep(10 * time.Minute)
		}
		require.Empty(t, p.findings(t, time.Hour))
	})
}
