package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
)

func (b *bench) apply(t *testing.T, file ...store.FileWorkspace) *store.Applied {
	t.Helper()
	applied, err := b.ApplyFile(t.Context(), file)
	require.NoError(t, err)
	return applied
}

func TestASourceKeepsItsAddress(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		t.Helper()
		forms := store.FileSource{Kind: "meta_leads", Name: "forms"}
		first := b.apply(t, store.FileWorkspace{Name: "shop", Sources: []store.FileSource{forms}}).Sources["shop/forms"]
		require.NotZero(t, first.ID)
		require.Len(t, first.Webhook, 43, "32 random bytes")
		require.WithinDuration(t, time.Now(), first.CreatedAt, time.Minute)

		again := b.apply(t, store.FileWorkspace{Name: "shop", Sources: []store.FileSource{{Kind: "website", Name: "site"}, forms}}, store.FileWorkspace{Name: "neighbour", Sources: []store.FileSource{forms}})
		require.Equal(t, first, again.Sources["shop/forms"])
		require.NotEqual(t, first.ID, again.Sources["neighbour/forms"].ID, "names are each workspace's own")
		require.NotEqual(t, first.Webhook, again.Sources["neighbour/forms"].Webhook)

		require.Empty(t, b.apply(t, store.FileWorkspace{Name: "shop"}).Sources)
		require.Equal(t, first, b.apply(t, store.FileWorkspace{Name: "shop", Sources: []store.FileSource{forms}}).Sources["shop/forms"], "taken out and put back")

		_, err := b.ApplyFile(t.Context(), []store.FileWorkspace{{Name: "shop", Sources: []store.FileSource{{Kind: "website", Name: "forms"}}}})
		require.ErrorContains(t, err, "source forms was of kind meta_leads before")
	})
}

func TestASourceTakesTheAddressOfTheFile(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		t.Helper()
		src := func(name, webhook string) store.FileSource {
			return store.FileSource{Kind: "website", Name: name, Webhook: webhook}
		}
		shop := func(list ...store.FileSource) map[string]store.Source {
			return b.apply(t, store.FileWorkspace{Name: "shop", Sources: list}).Sources
		}
		made := shop(src("a", ""))["shop/a"]
		given := shop(src("a", "key-of-the-file-1"))["shop/a"]
		require.Equal(t, made.ID, given.ID)
		require.Equal(t, "key-of-the-file-1", given.Webhook)
		require.Equal(t, "key-of-the-file-1", shop(src("a", ""))["shop/a"].Webhook, "it stays when the file does not say it any more")

		// Two change theirs over.
		shop(src("a", "key-of-the-file-1"), src("b", "key-of-the-file-2"))
		list := shop(src("a", "key-of-the-file-2"), src("b", "key-of-the-file-1"))
		require.Equal(t, "key-of-the-file-2", list["shop/a"].Webhook)
		require.Equal(t, "key-of-the-file-1", list["shop/b"].Webhook)

		// One is renamed and keeps its key; the old row is archived and loses it.
		list = shop(src("c", "key-of-the-file-2"))
		require.Equal(t, "key-of-the-file-2", list["shop/c"].Webhook)
		require.NotEqual(t, "key-of-the-file-2", shop(src("a", ""), src("c", "key-of-the-file-2"))["shop/a"].Webhook)
	})
}

func TestACRMKeepsItsAddress(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		t.Helper()
		shop := func(crms []store.FileCRM, sources ...store.FileSource) *store.Applied {
			return b.apply(t, store.FileWorkspace{Name: "shop", CRMs: crms, Sources: sources})
		}
		one := func(kind, name, webhook string) []store.FileCRM {
			return []store.FileCRM{{Kind: kind, Name: name, Webhook: webhook}}
		}
		made := shop(one("hubspot", "crm", "")).CRMs["shop/crm"]
		require.Len(t, made.Webhook, 43, "32 random bytes")
		require.Equal(t, made, shop(one("hubspot", "crm", "")).CRMs["shop/crm"])
		shop(nil)
		require.Equal(t, made, shop(one("hubspot", "crm", "")).CRMs["shop/crm"], "taken out and put back")

		given := shop(one("hubspot", "crm", "key-of-the-file-1")).CRMs["shop/crm"]
		require.Equal(t, made.ID, given.ID)
		require.Equal(t, "key-of-the-file-1", given.Webhook)
		require.Equal(t, given, shop(one("hubspot", "crm", "")).CRMs["shop/crm"], "it stays when the file does not say it any more")

		moved := shop(one("kommo", "crm", "key-of-the-file-1")).CRMs["shop/crm"]
		require.NotEqual(t, given.ID, moved.ID, "another kind is another connection")
		require.Equal(t, "key-of-the-file-1", moved.Webhook)

		// A source takes the key over, and gives it back.
		applied := shop(one("kommo", "crm", ""), store.FileSource{Kind: "website", Name: "site", Webhook: "key-of-the-file-1"})
		require.Equal(t, "key-of-the-file-1", applied.Sources["shop/site"].Webhook)
		require.Len(t, applied.CRMs["shop/crm"].Webhook, 43)
		applied = shop(one("kommo", "crm", "key-of-the-file-1"), store.FileSource{Kind: "website", Name: "site"})
		require.Equal(t, "key-of-the-file-1", applied.CRMs["shop/crm"].Webhook)
		require.Len(t, applied.Sources["shop/site"].Webhook, 43)

		// Two change theirs over.
		pair := func(a, b string) []store.FileCRM {
			return []store.FileCRM{{Kind: "kommo", Name: "crm", Webhook: a}, {Kind: "hubspot", Name: "hub", Webhook: b}}
		}
		shop(pair("key-of-the-file-1", "key-of-the-file-2"))
		applied = shop(pair("key-of-the-file-2", "key-of-the-file-1"))
		require.Equal(t, "key-of-the-file-2", applied.CRMs["shop/crm"].Webhook)
		require.Equal(t, "key-of-the-file-1", applied.CRMs["shop/hub"].Webhook)
	})
}

func TestCRMsAreDestinationsOfTheirWorkspace(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		t.Helper()
		crm := []store.FileCRM{{Kind: "hubspot", Name: "crm"}}
		dataset := []store.FileDestination{{Kind: "meta", Name: "1", Live: true}}
		applied := b.apply(t, store.FileWorkspace{Name: "shop", CRMs: crm, Destinations: dataset}, store.FileWorkspace{Name: "neighbour", CRMs: crm})
		shop, neighbour := applied.CRMs["shop/crm"], applied.CRMs["neighbour/crm"]
		require.Equal(t, ledger.Destination{ID: shop.ID, Workspace: b.ws, Kind: "hubspot", Name: "crm", Live: true, CreatedAt: shop.CreatedAt}, shop.Destination)
		require.NotEqual(t, shop.ID, neighbour.ID, "two workspaces may both call theirs crm")
		require.NotEqual(t, shop.Workspace, neighbour.Workspace)
		_, err := b.Lane(t.Context(), shop.ID)
		require.NoError(t, err)
		require.Equal(t, shop.ID, b.apply(t, store.FileWorkspace{Name: "shop", CRMs: crm}).CRMs["shop/crm"].ID)

		b.apply(t, store.FileWorkspace{Name: "shop"})
		list, err := b.Destinations(t.Context(), b.ws)
		require.NoError(t, err)
		names := map[string]bool{}
		for _, d := range list {
			names[d.Name] = d.Removed
		}
		require.Equal(t, map[string]bool{"crm": true, "1": true, "2": true}, names, "without the workspace's name, archived")
	})
}

func TestWhenASourceWasSeen(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		t.Helper()
		src := b.apply(t, store.FileWorkspace{Name: "shop", Sources: []store.FileSource{{Kind: "website", Name: "site"}}}).Sources["shop/site"]
		seen, err := b.SourceSeen(t.Context(), b.ws, src.ID, "site")
		require.NoError(t, err)
		require.True(t, seen.IsZero())
		_, err = b.RecordLead(t.Context(), &store.LeadRecording{
			Lead: ledger.Lead{ID: b.ids.Next(), Workspace: b.ws, Source: "site", Kind: "website", CreatedAt: b.now}, At: b.now,
		})
		require.NoError(t, err)
		seen, err = b.SourceSeen(t.Context(), b.ws, src.ID, "site")
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), seen, time.Minute)
		seen, err = b.SourceSeen(t.Context(), b.ws+1, src.ID+1, "site")
		require.NoError(t, err)
		require.True(t, seen.IsZero(), "another workspace's")
	})
}

// A workspace's keys are made once, and never under a master key that is rotated away.
func TestKeysOfWorkspaces(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		t.Helper()
		none := func(string) (string, bool) { return "", false }
		master, err := secret.LoadMaster(t.TempDir()+"/master.key", none)
		require.NoError(t, err)
		stale, err := secret.LoadMaster(master.From(), none)
		require.NoError(t, err)
		_, first := master.NewRing(b.ws)
		_, second := master.NewRing(b.ws)
		require.NoError(t, b.AddWorkspaceKeys(t.Context(), first))
		require.NoError(t, b.AddWorkspaceKeys(t.Context(), second), "another node was faster")
		kept, err := b.WorkspaceKeys(t.Context(), b.ws)
		require.NoError(t, err)
		require.ElementsMatch(t, first, kept)

		require.NoError(t, master.BeginRotation())
		n, err := b.RewrapKeys(t.Context(), master.Rewrap)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		_, late := stale.NewRing(b.ws + 1)
		require.ErrorIs(t, b.AddWorkspaceKeys(t.Context(), late), store.ErrRotated)
		all, err := b.AllWorkspaceKeys(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 2)
	})
}
