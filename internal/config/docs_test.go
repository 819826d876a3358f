package config_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/config"
)

const (
	example = "../../examples/capiloop.yaml"
	page    = "../../docs/configuration.md"
)

// anyEnv sets every variable to a text of its own, as a reader would.
func anyEnv(name string) (string, bool) { return "made-up-value-of-" + name, true }

// nonsense is a key that nothing knows and nothing resembles.
const nonsense = "qqqqqqqqqqqqqqqq"

func TestExampleNamesEveryKey(t *testing.T) {
	t.Parallel()
	_, err := config.Load(example, anyEnv)
	require.NoError(t, err)
	text, err := os.ReadFile(example)
	require.NoError(t, err)
	var tree any
	require.NoError(t, yaml.Unmarshal(text, &tree))
	named := map[string]bool{}
	spoil(tree, "", named)
	for _, key := range knownKeys(t, tree) {
		require.True(t, named[key], "the example does not name %s", key)
	}
}

func TestPageNamesEveryKey(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(example)
	require.NoError(t, err)
	var tree any
	require.NoError(t, yaml.Unmarshal(text, &tree))
	spoil(tree, "", map[string]bool{})
	doc, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, key := range knownKeys(t, tree) {
		short := strings.TrimPrefix(strings.TrimPrefix(key, "workspaces."), "datasets.")
		if rule, ok := strings.CutPrefix(short, "stages."); ok { // its table names some keys that others have, too
			_, table, _ := strings.Cut(string(doc), "## Keys of a rule")
			table, _, _ = strings.Cut(table, "\n## ")
			require.Contains(t, table, "| `"+rule+"` |", "the page has no line for %s", key)
			continue
		}
		if strings.Contains(string(doc), "| `"+short+".") { // graph, log: their keys have the lines
			continue
		}
		require.Contains(t, string(doc), "| `"+short+"` |", "the page has no line for %s", key)
	}
}

// spoil puts a key that is unknown into every mapping of ours, and notes which keys stood
// there.
func spoil(node any, path string, named map[string]bool) {
	switch n := node.(type) {
	case map[string]any:
		for key, v := range n {
			named[strings.TrimPrefix(path+"."+key, ".")] = true
			if key != "if" { // its keys are the CRM's
				spoil(v, path+"."+key, named)
			}
		}
		n[nonsense] = 1
	case []any:
		for _, v := range n {
			spoil(v, path, named)
		}
	}
}

var index = regexp.MustCompile(`\[\d+\]`)

// knownKeys takes every key that the reader knows out of its answer to a spoilt file.
func knownKeys(t *testing.T, spoilt any) []string {
	t.Helper()
	text, err := yaml.Marshal(spoilt)
	require.NoError(t, err)
	_, err = config.Parse("c.yaml", text, anyEnv)
	var all *config.Error
	require.ErrorAs(t, err, &all)
	keys := map[string]bool{}
	for _, p := range all.Problems {
		list, ok := strings.CutPrefix(p.Fix, "known here are ")
		require.True(t, ok, p.String())
		path := strings.TrimSuffix(index.ReplaceAllString(p.Where, ""), nonsense)
		for key := range strings.SplitSeq(list, ", ") {
			keys[path+key] = true
		}
	}
	require.Greater(t, len(keys), 20)
	return slices.Sorted(maps.Keys(keys))
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

func TestPageBlocksParse(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(page)
	require.NoError(t, err)
	blocks := yamlBlock.FindAllStringSubmatch(string(doc), -1)
	require.GreaterOrEqual(t, len(blocks), 4)
	for i, b := range blocks {
		_, err := config.Parse(fmt.Sprintf("block %d", i+1), []byte(b[1]), anyEnv)
		require.NoError(t, err)
	}
}

// The page's column of defaults is what a file without the key gets.
func TestPageTellsTheDefaults(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(page)
	require.NoError(t, err)
	f := config.Default()
	for key, value := range map[string]string{
		"listen": f.Listen, "database": f.Database.Reveal(), "graph.url": f.Graph.URL, "graph.version": f.Graph.Version,
		"log.format": f.Log.Format, "log.level": strings.ToLower(f.Log.Level.String()),
		"timezone": f.Workspaces[0].Timezone.String(), "retention.payload": fmt.Sprintf("%dd", int(config.DefaultPayload.Hours())/24),
		"live": "true", "consent": "caller",
	} {
		require.Contains(t, string(doc), fmt.Sprintf("| `%s` | `%s` |", key, value))
	}
	require.Empty(t, f.PublicURL)
	require.Empty(t, f.TrustedProxies)
	require.False(t, f.Workspaces[0].ConsentRequired)
}
