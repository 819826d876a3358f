package config_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/config"
)

func TestApply(t *testing.T) {
	t.Parallel()
	const server = "postgres://u:p@db.example.com/capiloop"
	tests := []struct {
		name             string
		file             string
		with             config.Overrides
		listen, db, data string
		public           string
	}{
		{name: "nothing", listen: "127.0.0.1:8080", db: "data/capiloop.db", data: "data"},
		{name: "file alone", file: "listen: ':1'\ndatabase: /var/lib/c/x.db\n", listen: ":1", db: "/var/lib/c/x.db", data: "/var/lib/c"},
		{name: "listen", file: "listen: ':1'\n", with: config.Overrides{Listen: ":2"}, listen: ":2", db: "data/capiloop.db", data: "data"},
		{name: "data folder", with: config.Overrides{DataDir: "/srv/loop/"}, listen: "127.0.0.1:8080", db: "/srv/loop/capiloop.db", data: "/srv/loop"},
		{name: "data folder beats the file's path", file: "database: x/y.db\n", with: config.Overrides{DataDir: "d"}, listen: "127.0.0.1:8080", db: "d/capiloop.db", data: "d"},
		{name: "data folder leaves a server alone", file: "database: " + server + "\n", with: config.Overrides{DataDir: "d"}, listen: "127.0.0.1:8080", db: server, data: "d"},
		{name: "database", with: config.Overrides{Database: "a/b.db"}, listen: "127.0.0.1:8080", db: "a/b.db", data: "a"},
		{name: "server", with: config.Overrides{Database: server}, listen: "127.0.0.1:8080", db: server, data: "data"},
		{name: "database beats data folder", with: config.Overrides{Database: server, DataDir: "d"}, listen: "127.0.0.1:8080", db: server, data: "d"},
		{name: "SQLite instead of the file's server", file: "database: " + server + "\n", with: config.Overrides{Database: "a/b.db", DataDir: "d"}, listen: "127.0.0.1:8080", db: "a/b.db", data: "d"},
		{name: "public URL", with: config.Overrides{PublicURL: "https://a.example.com/"}, listen: "127.0.0.1:8080", db: "data/capiloop.db", data: "data", public: "https://a.example.com"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f, err := config.Parse("c.yaml", []byte(test.file), env)
			require.NoError(t, err)
			require.NoError(t, f.Apply(test.with))
			require.Equal(t, test.listen, f.Listen)
			require.Equal(t, test.db, f.Database.Reveal())
			require.Equal(t, filepath.FromSlash(test.data), f.DataDir)
			require.Equal(t, test.public, f.PublicURL)
		})
	}
}

func TestApplyNamesTheFlagsAndChangesNothing(t *testing.T) {
	t.Parallel()
	f := config.Default()
	err := f.Apply(config.Overrides{Listen: "8080", Database: "mysql://root:pass-word@localhost/x", PublicURL: "here", DataDir: "d"})
	require.EqualError(t, err, "--listen: the value is no address to listen on: write host:port, such as 127.0.0.1:8080, or :8080 for every interface\n"+
		"--public-url: the value is no absolute address: write https://host, with a port or path where needed\n"+
		"--database: the value names a database that is not supported: write the path of a file, such as data/capiloop.db, or postgres://user:password@host:5432/name")
	require.Equal(t, config.Default(), f)
}
