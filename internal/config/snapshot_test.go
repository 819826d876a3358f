package config_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
)

var connected = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// fleet is the settings of testdata/good/fleet.yaml, as a store would have numbered
// them.
func fleet(t *testing.T, more ...config.APIKeyOf) (*config.File, *config.Snapshot, error) {
	t.Helper()
	f, err := config.Load("testdata/good/fleet.yaml", env)
	require.NoError(t, err)
	destinations := map[string]ledger.Destination{
		"1":                    {ID: 11, Workspace: 1, Kind: config.Meta, Name: "1"},
		"18446744073709551616": {ID: 12, Workspace: 1, Kind: config.Meta, Name: "18446744073709551616", Live: true},
	}
	s, err := f.Snapshot(config.Kept{
		Workspace: func(name string) int64 { return map[string]int64{"one": 1, "two": 2}[name] },
		Dataset:   func(id string) ledger.Destination { return destinations[id] },
		Source: func(workspace, name string) config.KeptSource {
			return map[string]config.KeptSource{
				"one/forms": {ID: 21, Webhook: "made-by-the-store", CreatedAt: connected},
				"one/site":  {ID: 22, Webhook: environment["WEBHOOK"], CreatedAt: connected},
			}[workspace+"/"+name]
		},
		CRM: func(workspace, name string) config.KeptCRM {
			return map[string]config.KeptCRM{
				"one/crm":  {Destination: ledger.Destination{ID: 31, Workspace: 1, Kind: "webhook", Name: "crm", Live: true}, Webhook: "made-by-the-store-too"},
				"one/mail": {Destination: ledger.Destination{ID: 32, Workspace: 1, Kind: "email", Name: "mail", Live: true}},
			}[workspace+"/"+name]
		},
		APIKeys: more,
	})
	return f, s, err
}

func TestSnapshotFindsEverything(t *testing.T) {
	t.Parallel()
	_, s, err := fleet(t)
	require.NoError(t, err)
	one := s.Workspace("one")
	require.Same(t, one, s.WorkspaceByID(1))
	require.Equal(t, "two", s.WorkspaceByID(2).Name)
	require.Nil(t, s.Workspace("three"))
	require.Nil(t, s.WorkspaceByID(3))

	require.Len(t, s.Datasets(), 2)
	d := s.Destination(11)
	require.Same(t, d, s.Dataset(one, "1"))
	require.Same(t, d, s.Datasets()[0])
	require.Nil(t, s.Destination(13))
	require.Nil(t, s.Dataset(one, "2"))
	require.Nil(t, s.Dataset(s.Workspace("two"), "1"), "a dataset of another workspace is not to be reached")

	require.Equal(t, "v24.0", d.APIVersion)
	require.Equal(t, "https://proxy.example.com/graph", d.URL)
	require.Equal(t, environment["META_TOKEN"], d.Token.Reveal())
	other := s.Destination(12)
	require.Equal(t, "v25.0", other.APIVersion, "the file's version holds where the dataset has none")
	require.Equal(t, "http://127.0.0.1:9999", other.URL)
}

func TestSnapshotOfTheDefaults(t *testing.T) {
	t.Parallel()
	s, err := config.Default().Snapshot(config.Kept{
		Workspace: func(string) int64 { return 1 },
		Dataset: func(id string) ledger.Destination {
			return ledger.Destination{ID: 1, Workspace: 1, Kind: config.Meta, Name: id, Live: true}
		},
	})
	require.NoError(t, err)
	d := s.Destination(1)
	require.True(t, d.IsSandbox())
	require.Empty(t, d.URL, "the sandbox must never be sent to Graph")
	require.True(t, d.Token.IsZero())
}

func TestSnapshotAuthenticates(t *testing.T) {
	t.Parallel()
	kept := config.NewAPIKey("main", "a-key-that-the-database-keeps")
	_, s, err := fleet(t,
		config.APIKeyOf{Workspace: "two", APIKey: kept},
		config.APIKeyOf{Workspace: "archived", APIKey: config.NewAPIKey("old", "a-key-of-a-workspace-that-is-gone")})
	require.NoError(t, err)

	w, k, ok := s.Authenticate(environment["API_KEY"])
	require.True(t, ok)
	require.Equal(t, "one", w.Name)
	require.Equal(t, config.APIKey{Name: "api-0001", Hash: sha256.Sum256([]byte(environment["API_KEY"])), Hint: "0001"}, *k)

	w, k, ok = s.Authenticate("a-key-that-the-database-keeps")
	require.True(t, ok)
	require.Equal(t, "two", w.Name)
	require.Equal(t, kept, *k)

	for _, key := range []string{"", "x", environment["API_KEY"] + " ", "a-key-of-a-workspace-that-is-gone", string(kept.Hash[:])} {
		_, _, ok = s.Authenticate(key)
		require.False(t, ok, key)
	}
}

func TestSnapshotRefusesWhatStandsTwice(t *testing.T) {
	t.Parallel()
	dataset := func(id int64, name string) *config.Dataset {
		return &config.Dataset{Destination: ledger.Destination{ID: id, Name: name}}
	}
	key := config.NewAPIKey("k", "some-key-that-is-long-enough")
	for name, list := range map[string][]*config.Workspace{
		"workspace a (2) stands twice": {{ID: 1, Name: "a"}, {ID: 2, Name: "a"}},
		"workspace b (1) stands twice": {{ID: 1, Name: "a"}, {ID: 1, Name: "b"}},
		"dataset 7 (2) stands twice":   {{ID: 1, Name: "a", Datasets: []*config.Dataset{dataset(1, "7")}}, {ID: 2, Name: "b", Datasets: []*config.Dataset{dataset(2, "7")}}},
		"dataset 8 (1) stands twice":   {{ID: 1, Name: "a", Datasets: []*config.Dataset{dataset(1, "7"), dataset(1, "8")}}},
		"API key k of workspace b":     {{ID: 1, Name: "a", APIKeys: []config.APIKey{key}}, {ID: 2, Name: "b", APIKeys: []config.APIKey{key}}},
	} {
		_, err := config.NewSnapshot(list...)
		require.ErrorContains(t, err, name)
	}
}

func TestSnapshotNeedsTheStoresIDs(t *testing.T) {
	t.Parallel()
	f := config.Default()
	one := func(string) int64 { return 1 }
	_, err := f.Snapshot(config.Kept{Workspace: func(string) int64 { return 0 }})
	require.ErrorContains(t, err, "workspace main has no id")
	for _, d := range []ledger.Destination{{}, {ID: 1, Workspace: 2}} {
		_, err = f.Snapshot(config.Kept{Workspace: one, Dataset: func(string) ledger.Destination { return d }})
		require.ErrorContains(t, err, "dataset sandbox has no id")
	}
	f.Workspaces[0].Datasets = nil
	f.Workspaces[0].CRMs = []config.FileCRM{{Kind: "webhook", Name: "crm"}}
	for _, d := range []ledger.Destination{{}, {ID: 1, Workspace: 2}} {
		_, err = f.Snapshot(config.Kept{Workspace: one, CRM: func(_, _ string) config.KeptCRM { return config.KeptCRM{Destination: d} }})
		require.ErrorContains(t, err, "CRM crm of workspace main has no id")
	}
	f.Workspaces[0].Sources = []config.FileSource{{Kind: "website", Name: "site"}}
	_, err = f.Snapshot(config.Kept{Workspace: one, Source: func(_, _ string) config.KeptSource { return config.KeptSource{} }})
	require.ErrorContains(t, err, "source site of workspace main has no id")
}

func TestNewSnapshotFillsTheTimezone(t *testing.T) {
	t.Parallel()
	s, err := config.NewSnapshot(&config.Workspace{ID: 1, Name: "a"})
	require.NoError(t, err)
	require.Equal(t, time.UTC, s.Workspace("a").Timezone)
}

func TestLiveIsReplacedWhole(t *testing.T) {
	t.Parallel()
	first, err := config.NewSnapshot(&config.Workspace{ID: 1, Name: "a"})
	require.NoError(t, err)
	second, err := config.NewSnapshot(&config.Workspace{ID: 1, Name: "b"})
	require.NoError(t, err)
	live := config.NewLive(first)
	require.Same(t, first, live.Get())
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				s := live.Get()
				if (s.Workspace("a") == nil) == (s.Workspace("b") == nil) {
					t.Error("half of one snapshot and half of another")
				}
			}
		})
	}
	live.Set(second)
	all.Wait()
	require.Same(t, second, live.Get())
}

func TestSettingsNeverPrintASecret(t *testing.T) {
	t.Parallel()
	f, s, err := fleet(t)
	require.NoError(t, err)
	o := config.Overrides{Listen: ":1", Database: "postgres://u:pass-word@h/db"}
	ws := s.Workspaces[0]
	for _, v := range []any{f, *f, f.Workspaces[0], f.Workspaces[0].Datasets[0], s, *s, *ws.Datasets[0], ws.Datasets[0], config.NewLive(s), o, &o} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q"} {
			requireNoToken(t, fmt.Sprintf(verb, v))
		}
		var b bytes.Buffer
		slog.New(slog.NewJSONHandler(&b, nil)).Info("settings", "value", v)
		slog.New(slog.NewTextHandler(&b, nil)).Info("settings", "value", v)
		requireNoToken(t, b.String())
	}
	for _, v := range []any{f, s.Workspaces} {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		requireNoToken(t, string(text))
	}
}

// requireNoToken is requireNoSecret without an API key's hint, which is there to be
// seen, and without what chance can make of an address or a hash.
func requireNoToken(t *testing.T, text string) {
	t.Helper()
	for _, name := range []string{"API_KEY", "META_TOKEN", "APP_SECRET", "PASSWORD"} {
		require.NotContains(t, text, environment[name])
		require.NotContains(t, text, fmt.Sprintf("%x", environment[name]))
	}
	require.NotContains(t, text, "pass-word")
}
