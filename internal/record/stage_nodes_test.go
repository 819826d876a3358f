package record_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/platform"
	"github.com/capiloop/capiloop/internal/platform/meta"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/store"
)

// Two nodes are told of the same moves of unknown people at once: by the hook, and by the
// look at the CRM.
func TestTwoNodesMakeOneLeadAndOneEvent(t *testing.T) {
	t.Parallel()
	onPostgres(t, func(t *testing.T, database func() string) {
		t.Helper()
		where := database()
		one := newCRMDesk(t, func() string { return where }, onQualified)
		one.ws.Guard.Off = true
		other, err := store.Open(t.Context(), store.Config{Database: where})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, other.Close()) })
		two := record.New(record.Config{
			Store: other, Platforms: map[string]platform.Platform{"meta": meta.New(meta.Config{})}, IDs: ledger.NewIDs(other.Node(), time.Now), Fingerprint: []byte("k"),
		})
		at := ago(time.Hour)
		const people = 40
		var wg sync.WaitGroup
		failed := make(chan error, 4*people)
		for i := range people {
			for n, r := range []*record.Recorder{one.Recorder, two, one.Recorder, two} {
				wg.Go(func() {
					_, err := r.Stages(t.Context(), one.ws, "crm", "pipedrive", one.crm, []ledger.StageChange{{
						Key: fmt.Sprintf("%d-%d", i, n/2), Stage: "Qualified", At: at, Records: []string{fmt.Sprintf("deal:%d", i)},
						Contact: ledger.Contact{Email: fmt.Sprintf("p%d@example.com", i)},
					}})
					failed <- err
				})
			}
		}
		wg.Wait()
		close(failed)
		for err := range failed {
			require.NoError(t, err)
		}
		leads, err := one.store.Leads(t.Context(), one.ws.ID, 0, 1000)
		require.NoError(t, err)
		require.Len(t, leads, people)
		book, err := one.store.Book(t.Context(), store.BookQuery{Workspace: one.ws.ID})
		require.NoError(t, err)
		require.EqualValues(t, people, book.Received)
		for i := range leads {
			moves, err := one.store.Moves(t.Context(), leads[i].Lead.ID)
			require.NoError(t, err)
			require.Len(t, moves, 1)
		}
	})
}
