package config_test

import (
	"encoding/json"
	"flag"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
)

var update = flag.Bool("update", false, "write the golden files anew")

// environment is what the files under testdata take their ${NAMES} from.
var environment = map[string]string{
	"API_KEY":    "made-up-api-key-for-tests-0001",
	"META_TOKEN": "EAAmadeUpTokenForTestsOnly0002",
	"APP_SECRET": "made-up-app-secret-0003",
	"PASSWORD":   "made-up-pass-word-0004",
	"MULTILINE":  "made-up-token-0005\nlive: false\n",
	"EMPTY":      "",
	"PORT":       "9000",
	"LIVE":       "false",
	"TEST_LEADS": "true",
	"WEBHOOK":    "made-up-webhook-key-0006-xx",
}

// secrets are what must never show.
var secrets = []string{"0001", "0002", "0003", "0004", "0005", "0006", "pass-word", "EAA"}

func env(name string) (string, bool) {
	v, ok := environment[name]
	return v, ok
}

func TestParseBadFiles(t *testing.T) {
	t.Parallel()
	for _, path := range glob(t, "testdata/bad/*.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			f, err := config.Load(path, env)
			require.Nil(t, f)
			var all *config.Error
			require.ErrorAs(t, err, &all)
			requireNoSecret(t, err.Error())
			golden(t, strings.TrimSuffix(path, ".yaml")+".golden", strings.ReplaceAll(err.Error(), path, filepath.Base(path))+"\n")
		})
	}
}

func TestParseGoodFiles(t *testing.T) {
	t.Parallel()
	for _, path := range glob(t, "testdata/good/*.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			f, err := config.Load(path, env)
			require.NoError(t, err)
			text, err := json.MarshalIndent(f, "", "  ")
			require.NoError(t, err)
			requireNoSecret(t, string(text))
			golden(t, strings.TrimSuffix(path, ".yaml")+".golden", string(text)+"\n")
		})
	}
}

func TestParseReadsEveryValue(t *testing.T) {
	t.Parallel()
	f, err := config.Load("testdata/good/fleet.yaml", env)
	require.NoError(t, err)
	require.Equal(t, "[::1]:9000", f.Listen)
	require.Equal(t, "http://signals.internal/loop", f.PublicURL)
	require.Equal(t, "postgres://capiloop:made-up-pass-word-0004@db.example.com/capiloop?sslmode=require", f.Database.Reveal())
	require.Equal(t, config.Graph{URL: "http://127.0.0.1:9999", Version: "v25.0"}, f.Graph)
	require.Equal(t, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.7/32"), netip.MustParsePrefix("2001:db8::/32")}, f.TrustedProxies)
	require.Equal(t, config.Log{Format: "json", Level: slog.LevelWarn}, f.Log)
	require.Len(t, f.Workspaces, 2)

	one := f.Workspaces[0]
	require.True(t, one.ConsentRequired)
	require.Equal(t, 720*24*time.Hour, one.Retention.Payload)
	require.Len(t, one.APIKeys, 2)
	require.Equal(t, environment["API_KEY"], one.APIKeys[0].Reveal())
	require.Equal(t, "literal-${NOT_EXPANDED}-key", one.APIKeys[1].Reveal())
	require.Len(t, one.Datasets, 2)
	d := one.Datasets[0]
	require.Equal(t, "1", d.ID)
	require.Equal(t, environment["META_TOKEN"], d.Token.Reveal())
	require.Equal(t, environment["APP_SECRET"], d.AppSecret.Reveal())
	require.Equal(t, "TEST123", d.TestEventCode)
	require.False(t, d.Live)
	require.Equal(t, "v24.0", d.APIVersion)
	require.Equal(t, "https://proxy.example.com/graph", d.URL)
	require.Equal(t, "18446744073709551616", one.Datasets[1].ID, "an id is text: more digits than a number holds")
	require.True(t, one.Datasets[1].Live)

	require.Equal(t, 90*time.Minute, one.MergeWindow)
	require.Equal(t, 90*24*time.Hour, one.Retention.Contact)

	require.Len(t, one.Rules, 4)
	require.Equal(t, ledger.Rule{
		Stage: "142", Pipeline: "Verkauf", CRM: "crm", Event: "Qualified Lead", Value: ledger.ValueFixed, Amount: "99.90", Currency: "EUR", After: "Lead", Datasets: []string{"1"},
	}, one.Rules[1])
	require.Equal(t, ledger.Rule{Stage: "Won", Event: "Purchase", Value: ledger.ValueDeal, Again: true, RouteAll: true, IfField: "is_new", IfIs: "true"}, one.Rules[2])
	require.Equal(t, ledger.Guard{Burst: 3, Floor: 50, Without: []string{"crm", "shop-key"}}, one.Guard)

	two := f.Workspaces[1]
	require.Empty(t, two.Rules)
	require.Equal(t, ledger.DefaultGuard(), two.Guard)
	require.Equal(t, config.DefaultMerge, two.MergeWindow)
	require.Equal(t, config.DefaultContact, two.Retention.Contact)
	require.Empty(t, two.Datasets)
	require.Equal(t, time.UTC, two.Timezone)
	require.Equal(t, config.DefaultPayload, two.Retention.Payload)
	require.False(t, two.ConsentRequired)
	require.Zero(t, two.Keys)
}

func TestParseNorwayIsACountry(t *testing.T) {
	t.Parallel()
	f, err := config.Load("testdata/good/norway.yaml", env)
	require.NoError(t, err)
	w := f.Workspaces[0]
	require.Equal(t, "47", w.Name)
	require.Equal(t, "NO", w.Country)
	require.Equal(t, "NOK", w.Currency)
	require.Equal(t, "Europe/Oslo", w.Timezone.String())
	require.Equal(t, capi.KeySet(0).Add(capi.KeyEmail).Add(capi.KeyPhone), w.Keys)
}

func TestEmptyFileIsTheDefaults(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# nothing\n", "---\n", "null\n"} {
		f, err := config.Parse("c.yaml", []byte(text), nil)
		require.NoError(t, err, "%q", text)
		require.Equal(t, config.Default(), f, "%q", text)
	}
}

func TestDefault(t *testing.T) {
	t.Parallel()
	f := config.Default()
	require.Equal(t, "127.0.0.1:8080", f.Listen)
	require.Equal(t, "data/capiloop.db", f.Database.Reveal())
	require.Equal(t, "data", f.DataDir)
	require.Equal(t, capi.DefaultBaseURL, f.Graph.URL)
	require.Equal(t, capi.DefaultVersion, f.Graph.Version)
	require.Len(t, f.Workspaces, 1)
	require.Equal(t, "main", f.Workspaces[0].Name)
	require.Empty(t, f.Workspaces[0].APIKeys)
	require.Equal(t, []config.FileDataset{{ID: config.Sandbox, Live: true}}, f.Workspaces[0].Datasets)
}

func TestLoadMissingFile(t *testing.T) {
	t.Parallel()
	_, err := config.Load(filepath.Join(t.TempDir(), "none.yaml"), env)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "read the configuration")
	_, err = config.Load(t.TempDir(), env)
	require.Error(t, err)
}

func TestLoadRefusesAFileThatCannotBeOne(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "large.yaml")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("# filler\n", 1<<17)), 0o600))
	_, err := config.Load(path, env)
	require.ErrorContains(t, err, "larger than 1 MiB")
}

// A mistake in each of two places must not hide the other: a person mends a file once.
func TestProblemsComeInTheOrderOfTheFile(t *testing.T) {
	t.Parallel()
	for _, path := range glob(t, "testdata/bad/*.yaml") {
		_, err := config.Load(path, env)
		var all *config.Error
		require.ErrorAs(t, err, &all)
		last := 0
		for _, p := range all.Problems {
			require.GreaterOrEqual(t, p.Line, last, path)
			last = p.Line
			require.NotEmpty(t, p.What)
			require.Equal(t, p.Line > 0, p.Column > 0)
		}
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	return paths
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "go test ./internal/config -update writes it")
	require.Equal(t, string(want), got)
}

func requireNoSecret(t *testing.T, text string) {
	t.Helper()
	for _, s := range secrets {
		require.NotContains(t, text, s)
	}
}
