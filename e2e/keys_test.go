package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The addresses of sources and the rotation of the master key, without a server and
// beside one.
func TestSourcesAndTheMasterKey(t *testing.T) {
	t.Parallel()
	home := folder(t)
	file := filepath.Join(home, "shop.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
listen: 127.0.0.1:0
public_url: https://leads.example.com
workspaces: [{name: shop, datasets: [{id: sandbox}], sources: [{kind: website, name: site}]}]
`), 0o600))
	flags := []string{"--config", file, "--data", filepath.Join(home, "data")}
	run := func(args ...string) result { return command(t, home, nil, append(args, flags...)...) }
	var sources []struct{ URL string }
	r := run("sources", "--json")
	require.Zero(t, r.code, r.errOut)
	require.NoError(t, json.Unmarshal([]byte(r.out), &sources))
	require.Regexp(t, `\Ahttps://leads\.example\.com/webhooks/[A-Za-z0-9_-]{43}\z`, sources[0].URL)
	key := filepath.Join(home, "data", "master.key")
	first, err := os.ReadFile(key)
	require.NoError(t, err)
	rotate := func() {
		before, err := os.ReadFile(key)
		require.NoError(t, err)
		r := run("rotate-key")
		require.Zero(t, r.code, r.errOut)
		require.Contains(t, r.out, "wraps 2 keys; it is in "+key)
		after, err := os.ReadFile(key)
		require.NoError(t, err)
		require.NotEqual(t, before, after)
		require.NotContains(t, r.out+r.errOut, string(after[:43]))
	}
	rotate()

	p := launch(t, home, nil, append([]string{"serve"}, flags...)...)
	p.addr = p.said(t, p.errOut, `capiloop is running.* listen=(\S+)`)
	rotate()
	r = run("sources")
	require.Zero(t, r.code, r.errOut)
	require.Contains(t, r.out, "shop / site   website, nothing came yet\n  "+sources[0].URL+"\n")
	p.stop(t)
	require.Zero(t, run("sources").code, "what the server wrapped is opened by the file it left")

	require.NoError(t, os.WriteFile(key, first, 0o600))
	r = run("sources")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "this database was sealed with another master key")
	require.NoError(t, os.WriteFile(file, []byte(`workspaces: [{name: shop, sources: [{kind: websit, name: site}]}]`), 0o600))
	r = run("sources")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, `shop.yaml:1:44: workspaces[0].sources[0].kind: "websit" is no kind of source: did you mean website?`)
}
