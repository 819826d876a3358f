package tag_test

import (
	"bytes"
	"compress/gzip"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/tag"
)

var update = flag.Bool("update", false, "build dist anew from src")

// most is what the tag may weigh on the wire, beside some 150 bytes of settings: it is in
// the way of every page.
const most = 8<<10 - 150

// build bundles one script for browsers as old as Safari 10: what they know is ES2015.
func build(t *testing.T, from string) []byte {
	t.Helper()
	// Words of ours alone, which nothing of a browser is called, may become letters.
	const ours = "^(flying|sighting|watching|doubtful|told|says|person|written)$"
	r := api.Build(api.BuildOptions{
		MangleProps: ours,
		EntryPoints: []string{filepath.Join("src", from)}, Bundle: true, Format: api.FormatIIFE, Target: api.ES2015,
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true, Charset: api.CharsetASCII, LogLevel: api.LogLevelSilent,
	})
	for _, m := range r.Errors {
		t.Errorf("%s: %s", from, m.Text)
	}
	require.Empty(t, r.Errors)
	return r.OutputFiles[0].Contents
}

func TestWhatIsServedIsBuiltFromTheSource(t *testing.T) {
	t.Parallel()
	for from, served := range map[string]struct {
		file string
		is   []byte
	}{"main.ts": {"t.js", tag.Script}, "tcf.ts": {"tcf.js", tag.TCF}} {
		built := build(t, from)
		if *update {
			require.NoError(t, os.WriteFile(filepath.Join("dist", served.file), built, 0o644))
			continue
		}
		require.True(t, bytes.Equal(built, served.is), "dist/%s is not what src gives: go test ./tag -update", served.file)
	}
}

func TestTheTagIsSmall(t *testing.T) {
	t.Parallel()
	for name, script := range map[string][]byte{"t.js": tag.Script, "tcf.js": tag.TCF} {
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression) // as the server does
		require.NoError(t, err)
		_, err = w.Write(script)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		t.Logf("%s: %d bytes, %d with gzip", name, len(script), packed.Len())
		require.Less(t, packed.Len(), most, name)
	}
}

// What a Content-Security-Policy without unsafe-eval and unsafe-inline refuses.
func TestTheTagRunsUnderAStrictPolicy(t *testing.T) {
	t.Parallel()
	for _, script := range [][]byte{tag.Script, tag.TCF} {
		for _, bad := range []string{"eval(", "Function(", "document.write", "innerHTML", "outerHTML", "insertAdjacentHTML", "javascript:", "setAttribute(\"on", "import("} {
			require.NotContains(t, string(script), bad)
		}
	}
}
