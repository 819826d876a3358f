package app_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/app"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/ledger"
)

const (
	kindsPage  = "../../docs/configuration.md"
	kindsBegin = "<!-- kinds: UPDATE=1 go test ./internal/app -run Kinds -->\n"
	kindsEnd   = "<!-- end of kinds -->\n"
)

// The page has every kind with every setting, as the kinds themselves tell them.
func TestPageNamesEveryKindsSettings(t *testing.T) {
	t.Parallel()
	kinds := app.NewKinds(config.Graph{}, ledger.Clock{})
	var b strings.Builder
	b.WriteString("\n")
	for _, name := range slices.Sorted(maps.Keys(kinds.Sources)) {
		var list []string
		for _, o := range kinds.Sources[name].Options() {
			list = append(list, line(o.Name, o.Required, o.Type == leadform.List, o.Type == leadform.Map, o.Help))
		}
		table(&b, "Source", name, list)
	}
	for _, name := range slices.Sorted(maps.Keys(kinds.CRMs)) {
		var list []string
		for _, o := range kinds.CRMs[name].Options() {
			list = append(list, line(o.Name, o.Required, o.Type == crm.List, o.Type == crm.Map, o.Help))
		}
		table(&b, "CRM", name, list)
	}
	doc, err := os.ReadFile(kindsPage)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(doc), kindsBegin)
	require.True(t, ok)
	got, after, ok := strings.Cut(rest, kindsEnd)
	require.True(t, ok)
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(kindsPage, []byte(before+kindsBegin+b.String()+kindsEnd+after), 0o600))
		return
	}
	require.Equal(t, b.String(), got, "UPDATE=1 go test ./internal/app -run Kinds writes it")
}

func table(b *strings.Builder, what, name string, lines []string) {
	fmt.Fprintf(b, "### %s `%s`\n\n| setting | | what |\n|---|---|---|\n%s\n", what, name, strings.Join(lines, ""))
}

func line(name string, required, list, table bool, help string) string {
	var form []string
	if required {
		form = append(form, "must be given")
	}
	switch {
	case list:
		form = append(form, "list")
	case table:
		form = append(form, "map")
	}
	return fmt.Sprintf("| `%s` | %s | %s |\n", name, strings.Join(form, ", "), strings.ReplaceAll(help, "|", "\\|"))
}

// The example has settings that its kinds take.
func TestExampleFitsItsKinds(t *testing.T) {
	t.Parallel()
	f, err := config.Load("../../examples/capiloop.yaml", func(name string) (string, bool) { return "made-up-value-of-" + name, true })
	require.NoError(t, err)
	_, err = app.New(app.Options{File: f})
	require.NoError(t, err)
}

func TestAWrongSettingOfAKindIsToldWithItsPlace(t *testing.T) {
	t.Parallel()
	f, err := config.Parse("c.yaml", bytes.TrimSpace([]byte(`
workspaces:
  - name: main
    sources: [{kind: google_leads, name: google, kye: x}]
    crms: [{kind: hubspott, name: crm}]
`)), nil)
	require.NoError(t, err)
	_, err = app.New(app.Options{File: f})
	require.ErrorContains(t, err, "c.yaml:3:50: workspaces[0].sources[0].kye: unknown key: did you mean key?")
	require.ErrorContains(t, err, "key is missing: add key: the key typed into")
	require.ErrorContains(t, err, `"hubspott" is no kind of CRM: did you mean hubspot?`)
}
