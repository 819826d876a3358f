package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/secret"
)

func TestParseReadsSourcesAndCRMs(t *testing.T) {
	t.Parallel()
	f, err := config.Load("testdata/good/fleet.yaml", env)
	require.NoError(t, err)
	one := f.Workspaces[0]
	require.Len(t, one.Sources, 2)
	forms, site := one.Sources[0], one.Sources[1]
	require.Equal(t, []string{"meta_leads", "forms"}, []string{forms.Kind, forms.Name})
	require.True(t, forms.Webhook.IsZero())
	require.Equal(t, []string{"app_secret", "note", "page_id", "sweep"}, forms.Options.Names())
	require.Equal(t, "00555", forms.Options.Text("page_id"), "a number is taken as it is written")
	require.Equal(t, environment["APP_SECRET"], forms.Options.Text("app_secret"))
	require.True(t, forms.Options.Is("sweep"))
	require.True(t, forms.Options.Has("note"))
	require.Empty(t, forms.Options.Text("note"))
	require.Equal(t, environment["WEBHOOK"], site.Webhook.Reveal())
	require.Equal(t, []string{"https://example.com", "1.50", "no"}, site.Options.List("origins"))
	require.Equal(t, map[string]string{"Wann": "false", "e-mail": "-"}, site.Options.Map("fields"))

	require.Len(t, one.CRMs, 2)
	crm, mail := one.CRMs[0], one.CRMs[1]
	require.Equal(t, []string{"webhook", "crm"}, []string{crm.Kind, crm.Name})
	require.True(t, crm.TestLeads)
	require.Equal(t, environment["WEBHOOK"]+"2", crm.Webhook.Reveal())
	require.True(t, mail.Webhook.IsZero())
	require.Equal(t, "https://crm.example.com/"+environment["PASSWORD"], crm.Options.Text("url"))
	require.Equal(t, map[string]string{"Authorization": "Bearer " + environment["META_TOKEN"]}, crm.Options.Map("headers"))
	require.False(t, mail.TestLeads)
	require.NotNil(t, mail.Options.List("to"))
	require.Empty(t, mail.Options.List("to"))
}

func TestSnapshotHasSourcesAndCRMs(t *testing.T) {
	t.Parallel()
	_, s, err := fleet(t)
	require.NoError(t, err)
	one := s.Workspace("one")
	require.Len(t, one.Sources, 2)
	require.Equal(t, &config.Source{
		ID: 21, Workspace: 1, Kind: "meta_leads", Name: "forms", Webhook: "made-by-the-store", Options: one.Sources[0].Options, CreatedAt: connected,
	}, one.Sources[0])
	require.Equal(t, "00555", one.Sources[0].Options.Text("page_id"))
	require.Len(t, one.CRMs, 2)
	require.EqualValues(t, 31, one.CRMs[0].ID)
	require.True(t, one.CRMs[0].TestLeads)
	require.Equal(t, "made-by-the-store-too", one.CRMs[0].Webhook)
	require.Nil(t, one.Ring)
}

// kinds are made up, to check files against.
var (
	sources = config.Kinds{
		"meta_leads": {
			{Name: "page_id", Required: true, Help: "id of the Page"}, {Name: "app_secret", Required: true, Help: "secret of the app"}, {Name: "note"},
		},
		"website": {{Name: "origins", Form: config.List}, {Name: "fields", Form: config.Map}, {Name: "redirect"}},
	}
	crms = config.Kinds{
		"webhook": {{Name: "url", Required: true, Help: "where leads go"}, {Name: "headers", Form: config.Map}},
		"email":   {{Name: "to", Form: config.List, Required: true, Help: "who gets each lead"}},
	}
)

func TestCheckOptionsTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	const path = "testdata/options.yaml"
	f, err := config.Load(path, env)
	require.NoError(t, err, "only its kinds know that it is wrong")
	err = f.CheckOptions(sources, crms)
	var all *config.Error
	require.ErrorAs(t, err, &all)
	requireNoSecret(t, err.Error())
	golden(t, "testdata/options.golden", strings.ReplaceAll(err.Error(), path, "options.yaml")+"\n")
}

func TestCheckOptionsTakesWhatIsRight(t *testing.T) {
	t.Parallel()
	require.NoError(t, config.Default().CheckOptions(nil, nil))
	f, err := config.Parse("c.yaml", []byte(`workspaces: [{name: a, sources: [{kind: website, name: s}, {kind: meta_leads, name: m, page_id: 5, app_secret: x}],
  crms: [{kind: email, name: e, to: [a@example.com], test_leads: true, poll: 1m}]}]`), nil)
	require.NoError(t, err)
	require.NoError(t, f.CheckOptions(sources, crms))

	// Settings that no file was read from have no places, and are checked all the same.
	f = config.Default()
	f.Workspaces[0].CRMs = []config.FileCRM{{Kind: "email", Name: "mail", Options: secret.NewOptions(map[string]string{"to": "x"}, nil, nil)}}
	require.ErrorContains(t, f.CheckOptions(sources, crms), "expected a list, found text")
}

// Whatever a connection's settings are, nothing of them shows in what is printed of a
// file or its snapshot, nor in what is wrong with them.
func TestConnectionsNeverPrint(t *testing.T) {
	t.Parallel()
	word := rapid.StringMatching(`zq[a-z]{10}qz`)
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfNDistinct(word, 6, 6, rapid.ID).Draw(t, "values")
		lookup := func(name string) (string, bool) { return values[name[0]-'A'], true }
		f, err := config.Parse("c.yaml", []byte(`workspaces: [{name: a, sources: [{kind: website, name: s, webhook: "${A}${B}", token: "${C}", to: ["${D}"], fields: {k: "${E}"}}],
  crms: [{kind: "${F}", name: c, token: "${C}", to: ["${D}"], headers: {k: "x ${E}"}}]}]`), lookup)
		require.NoError(t, err)
		var b bytes.Buffer
		for _, v := range []any{f, *f, f.Workspaces, f.Workspaces[0].Sources[0], f.Workspaces[0].CRMs, &f.Workspaces[0].CRMs[0]} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
				fmt.Fprintf(&b, verb, v)
			}
			slog.New(slog.NewJSONHandler(&b, nil)).Info("settings", "value", v)
			text, err := json.Marshal(v)
			require.NoError(t, err)
			_, _ = b.Write(text)
		}
		values, kind := values[:5], values[5]
		require.NotContains(t, f.CheckOptions(nil, nil).Error(), kind, "it came from a variable")
		b.WriteString(f.CheckOptions(config.Kinds{"website": {{Name: "token", Form: config.List}}}, nil).Error())
		b.WriteString(f.CheckOptions(nil, config.Kinds{kind: {{Name: "to"}}}).Error())
		for _, value := range values {
			require.NotContains(t, b.String(), value)
			require.NotContains(t, b.String(), fmt.Sprintf("%x", value))
		}
	})
}

// The keys that all sources and CRMs have stand on the page and in the example; those
// of each kind are checked where the kinds are known.
func TestPageAndExampleNameTheKeysOfConnections(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(page)
	require.NoError(t, err)
	text, err := os.ReadFile(example)
	require.NoError(t, err)
	for _, key := range []string{"kind", "name", "webhook", "test_leads", "poll"} {
		require.Contains(t, string(doc), "| `"+key+"` |")
		require.Contains(t, string(text), key+": ")
	}
	f, err := config.Load(example, anyEnv)
	require.NoError(t, err)
	var all *config.Error
	require.ErrorAs(t, f.CheckOptions(nil, nil), &all, "the example has connections")
}
