package record_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/platform"
	"github.com/capiloop/capiloop/internal/platform/meta"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
)

// board is one process on a database: what a restart makes anew.
type board struct {
	store    *store.Store
	recorder *record.Recorder
	ws       *config.Workspace
}

func openBoard(t *testing.T, database string, master *secret.Master, ring *secret.Ring) (*board, *secret.Ring) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Database: database})
	require.NoError(t, err)
	applied, err := s.ApplyFile(t.Context(), []store.FileWorkspace{{
		Name: "shop", Destinations: []store.FileDestination{{Kind: "meta", Name: "1", Live: true}}, CRMs: []store.FileCRM{{Kind: "pipedrive", Name: "crm"}},
	}})
	require.NoError(t, err)
	if ring == nil {
		ring, _ = master.NewRing(applied.Workspaces["shop"])
	}
	ws := &config.Workspace{
		ID: applied.Workspaces["shop"], Name: "shop", Ring: ring, Guard: ledger.Guard{Off: true}, Datasets: []*config.Dataset{{Destination: applied.Destinations["meta/1"]}},
		Rules: []ledger.Rule{onReceipt, {Stage: "B", Event: "QualifiedLead"}, {Stage: "C", Event: "QualifiedLead"}, {Stage: "D", Event: "Purchase", Value: ledger.ValueDeal}},
	}
	return &board{s, record.New(record.Config{
		Store: s, Platforms: map[string]platform.Platform{"meta": meta.New(meta.Config{})}, IDs: ledger.NewIDs(s.Node(), time.Now), Fingerprint: []byte("k"),
	}), ws}, ring
}

// Any sequence of moves, repeats, other orders and restarts gives each mapped event at
// most once, and the funnel the same counts.
func TestEachEventAtMostOnceWhateverTheOrder(t *testing.T) {
	t.Parallel()
	master, err := secret.LoadMaster(filepath.Join(t.TempDir(), "master.key"), os.LookupEnv)
	require.NoError(t, err)
	dir := t.TempDir()
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		leads := rapid.IntRange(1, 4).Draw(rt, "leads")
		created := time.Now().Add(-48 * time.Hour).Truncate(time.Second)
		moves := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) ledger.StageChange {
			return ledger.StageChange{
				LeadID: strconv.Itoa(1234567890123400 + rapid.IntRange(1, leads).Draw(rt, "lead")), Stage: rapid.SampledFrom([]string{"A", "B", "C", "D"}).Draw(rt, "stage"),
				At: created.Add(time.Duration(rapid.IntRange(1, 600).Draw(rt, "minute")) * time.Minute), Amount: "5", Currency: "EUR",
			}
		}), 1, 12).Draw(rt, "moves")
		want := map[string]bool{}
		for _, m := range moves {
			if event := map[string]string{"B": "QualifiedLead", "C": "QualifiedLead", "D": "Purchase"}[m.Stage]; event != "" {
				want[m.LeadID+" "+event] = true
			}
		}
		var funnels [2][]store.FunnelCell
		for run := range 2 {
			order := rapid.Permutation(append(slices.Clone(moves), moves[:rapid.IntRange(0, len(moves)).Draw(rt, "again")]...)).Draw(rt, "order")
			restart := rapid.IntRange(0, len(order)).Draw(rt, "restart")
			database := filepath.Join(dir, fmt.Sprintf("%d-%d.db", runs, run))
			b, ring := openBoard(t, database, master, nil)
			for i := range leads {
				_, err := b.recorder.Lead(t.Context(), b.ws, &ledger.Lead{
					Source: "forms", Kind: "meta_leads", Platform: "meta", LeadID: strconv.Itoa(1234567890123401 + i), CreatedAt: created,
				})
				require.NoError(rt, err)
			}
			for i, m := range order {
				if i == restart {
					require.NoError(rt, b.store.Close())
					b, _ = openBoard(t, database, master, ring)
				}
				_, err := b.recorder.Stages(t.Context(), b.ws, "crm", "pipedrive", 0, []ledger.StageChange{m})
				require.NoError(rt, err)
			}
			book, err := b.store.Book(t.Context(), store.BookQuery{Workspace: b.ws.ID})
			require.NoError(rt, err)
			require.EqualValues(rt, len(want)+leads, book.Received)
			require.Zero(rt, book.Unexplained())
			funnels[run], err = b.store.Funnel(t.Context(), store.FunnelQuery{Workspace: b.ws.ID, From: created.Add(-time.Hour), To: time.Now()})
			require.NoError(rt, err)
			require.NoError(rt, b.store.Close())
			require.NoError(rt, os.Remove(database))
		}
		require.ElementsMatch(rt, funnels[0], funnels[1])
	})
}
