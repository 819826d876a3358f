package config_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/capiloop/capiloop/internal/config"
)

// shapes hold one variable as a token, in every way that YAML can write a text.
var shapes = map[string]string{
	"plain":  "        token: ${TOKEN}\n",
	"double": "        token: \"${TOKEN}\"\n",
	"single": "        token: '${TOKEN}'\n",
	"block":  "        token: |-\n          ${TOKEN}\n",
	"folded": "        token: >-\n          ${TOKEN}\n",
	"within": "        token: ${EMPTY}${TOKEN}${EMPTY}\n",
}

func around(token string) []byte {
	return []byte("workspaces:\n  - name: one\n    datasets:\n      - id: \"1\"\n" + token + "        live: false\n  - name: two\n")
}

// What a variable holds must stay one text, whatever it holds: a token that could
// add a key to the file could also send events elsewhere.
func TestExpandingNeverChangesTheStructure(t *testing.T) {
	t.Parallel()
	want, err := config.Parse("c.yaml", around("        token: made-up\n"), env)
	require.NoError(t, err)
	shape, err := json.Marshal(want)
	require.NoError(t, err)
	nasty := rapid.OneOf(
		rapid.StringMatching(`[!-~]{1,40}`),
		rapid.String(),
		rapid.SampledFrom([]string{
			"a\"b", "a: b", "'", "{}", "[1]", "a\n  - name: three", "x\n        url: http://evil.example.com", "# no", "&a", "*a", "!t",
			"${TOKEN}", "$${X}", "true", "null", "~", "123", "-", "---", "%41", "|", ">", "`", "@", "a,b", "}", "]", "\\", "\\n",
		}),
	)
	rapid.Check(t, func(t *rapid.T) {
		token := nasty.Draw(t, "token")
		written := rapid.SampledFrom([]string{"plain", "double", "single", "block", "folded", "within"}).Draw(t, "shape")
		f, err := config.Parse("c.yaml", around(shapes[written]), func(name string) (string, bool) {
			return map[string]string{"TOKEN": token}[name], true
		})
		if strings.Trim(token, visibleASCII) != "" || token == "" {
			var all *config.Error
			require.ErrorAs(t, err, &all)
			require.Len(t, all.Problems, 1)
			require.Equal(t, "workspaces[0].datasets[0].token", all.Problems[0].Where)
			return
		}
		require.NoError(t, err)
		require.Equal(t, token, f.Workspaces[0].Datasets[0].Token.Reveal(), "nothing in it is expanded again")
		got, err := json.Marshal(f)
		require.NoError(t, err)
		require.Equal(t, string(shape), string(got))
	})
}

// visibleASCII is what a token may consist of. Trim takes it off both ends, so that
// anything left means a character that may not stand there.
var visibleASCII = func() string {
	var b strings.Builder
	for c := byte('!'); c <= '~'; c++ {
		b.WriteByte(c)
	}
	return b.String()
}()

func TestDollarsThatAreNoVariable(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		"a$b":            "a$b",
		"$HOME":          "$HOME",
		"$${PORT}":       "${PORT}",
		"$$${PORT}":      "$${PORT}",
		"$$":             "$$",
		"${PORT}$":       "9000$",
		"a${PORT}b":      "a9000b",
		"${PORT}${PORT}": "90009000",
		"$${":            "${",
	} {
		f, err := config.Parse("c.yaml", around("        token: '"+written+"'\n"), env)
		require.NoError(t, err, written)
		require.Equal(t, want, f.Workspaces[0].Datasets[0].Token.Reveal(), written)
	}
}
