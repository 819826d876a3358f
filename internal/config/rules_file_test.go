package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
)

func TestRulesToTryOut(t *testing.T) {
	t.Parallel()
	w := &config.FileWorkspace{Name: "b", Currency: "EUR", Datasets: []config.FileDataset{{ID: "1234567890"}}, Rules: []ledger.Rule{{Stage: "Old", Event: "Old"}}}
	want := []ledger.Rule{{Stage: "Won", Event: "Purchase", Value: ledger.ValueDeal, Datasets: []string{"1234567890"}}}
	const rule = `{stage: Won, event: Purchase, value: deal, datasets: ["1234567890"]}`
	const whole = `
workspaces:
  - {name: a, stages: [{stage: Lost, event: Bad}], api_keys: ["${KEY_A}"]}
  - name: b
    api_keys: ["${KEY_B}"]
    datasets: [{id: 1234567890, token: "${TOKEN}"}]
    stages: [` + rule + `]
`
	for name, text := range map[string]string{
		"list": "- " + rule + "\n", "one line": "[" + rule + "]", "key": "stages:\n  - " + rule + "\n", "whole": whole, "with a mark": "\xef\xbb\xbf- " + rule,
	} {
		rules, err := config.ParseRules("r.yaml", []byte(text), nil, w)
		require.NoError(t, err, name)
		require.Equal(t, want, rules, name)
	}
	path := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(path, []byte("- "+rule), 0o600))
	rules, err := config.LoadRules(path, os.LookupEnv, w)
	require.NoError(t, err)
	require.Equal(t, want, rules)
	require.Equal(t, "Old", w.Rules[0].Stage, "those in force stay")
	rules, err = config.ParseRules("r.yaml", []byte("stages: []"), nil, w)
	require.NoError(t, err)
	require.Empty(t, rules)
}

func TestFaultyRulesToTryOut(t *testing.T) {
	t.Parallel()
	w := &config.FileWorkspace{Name: "b"}
	for text, says := range map[string]string{
		"":                                   "the file has no rules",
		"- {stage: Won}":                     "r.yaml:1:3: stages[0]: the rule has no event",
		"stages: [{event: X}]":               "the rule has no stage",
		"rules: []":                          "unknown key",
		"words":                              "expected keys with values",
		"- {stage: [":                        "not valid YAML",
		"workspaces: []":                     "at least one workspace",
		"a: 1\n---\nb: 2":                    "a second document",
		"workspaces: [{name: a}, {name: c}]": "has no workspace b",
		"- {stage: Won, event: Purchase, datasets: [\"1\"]}": "is no dataset of the workspace",
	} {
		_, err := config.ParseRules("r.yaml", []byte(text), nil, w)
		require.ErrorContains(t, err, says, text)
	}
	_, err := config.LoadRules(filepath.Join(t.TempDir(), "none.yaml"), nil, w)
	require.ErrorContains(t, err, "read the rules")
}
