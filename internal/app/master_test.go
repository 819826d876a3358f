package app_test

import (
	"bytes"
	"encoding/base64"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/app"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
)

func noEnv(string) (string, bool) { return "", false }

// sealed is a data folder whose server is opened as a command does it.
type sealed struct {
	dir string
	env map[string]string
	log bytes.Buffer
}

func (s *sealed) open(t *testing.T) (*app.App, error) {
	t.Helper()
	f, err := config.Parse("c.yaml", []byte(`{public_url: "https://leads.example.com/", workspaces: [
  {name: shop, sources: [{kind: website, name: site, webhook: made-up-key-of-an-address}, {kind: google_leads, name: google, key: x}]}, {name: other}]}`), nil)
	require.NoError(t, err)
	require.NoError(t, f.Apply(config.Overrides{DataDir: s.dir}))
	a, err := app.New(app.Options{
		File: f, Log: slog.New(slog.NewTextHandler(&s.log, nil)),
		Env: func(name string) (string, bool) { v, ok := s.env[name]; return v, ok },
	})
	require.NoError(t, err)
	return a, a.Open(t.Context())
}

// run opens the folder, which must work, does something and closes it.
func (s *sealed) run(t *testing.T, do func(a *app.App)) {
	t.Helper()
	a, err := s.open(t)
	require.NoError(t, err)
	if do != nil {
		do(a)
	}
	require.NoError(t, a.Stop(t.Context()))
}

func (s *sealed) master(t *testing.T) *secret.Master {
	t.Helper()
	m, err := secret.LoadMaster(app.MasterPath(s.dir), noEnv)
	require.NoError(t, err)
	return m
}

// keys are the workspace's keys as the database has them.
func (s *sealed) keys(t *testing.T, change func(st *store.Store)) []secret.WrappedKey {
	t.Helper()
	st, err := store.Open(t.Context(), store.Config{Database: filepath.Join(s.dir, "capiloop.db")})
	require.NoError(t, err)
	if change != nil {
		change(st)
	}
	keys, err := st.AllWorkspaceKeys(t.Context())
	require.NoError(t, err)
	require.NoError(t, st.Close())
	return keys
}

// index is a hash that only the first workspace's own key makes.
func (s *sealed) index(t *testing.T) []byte {
	t.Helper()
	m := s.master(t)
	var rows []secret.WrappedKey
	for _, k := range s.keys(t, nil) {
		if k.Workspace == 1 {
			rows = append(rows, k)
		}
	}
	ring, err := m.OpenRing(1, rows)
	require.NoError(t, err)
	return ring.Index("email", "jane@example.com")
}

func TestTheMasterKeyIsMadeOnceAndKept(t *testing.T) {
	t.Parallel()
	s := &sealed{dir: t.TempDir()}
	s.run(t, nil)
	require.Contains(t, s.log.String(), "keep a copy of it")
	first := s.index(t)
	require.Len(t, s.keys(t, nil), 4, "two for each workspace")
	s.log.Reset()
	s.run(t, nil)
	require.NotContains(t, s.log.String(), "master key")
	require.Equal(t, first, s.index(t))
	info, err := os.Stat(app.MasterPath(s.dir))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestADatabaseOfAnotherMasterKeyIsRefused(t *testing.T) {
	t.Parallel()
	s := &sealed{dir: t.TempDir()}
	s.run(t, nil)
	id := s.master(t).ID().String()
	path := app.MasterPath(s.dir)
	right, err := os.ReadFile(path)
	require.NoError(t, err)

	require.NoError(t, os.Remove(path))
	_, err = s.open(t)
	require.ErrorIs(t, err, secret.ErrOtherMaster)
	require.ErrorContains(t, err, "it needs "+id+", and there is no "+path)
	require.NoFileExists(t, path, "a new one would hide that the right one is missing")

	other := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("made-up "), 4))
	require.NoError(t, os.WriteFile(path, []byte(other), 0o600))
	_, err = s.open(t)
	require.ErrorIs(t, err, secret.ErrOtherMaster)
	require.ErrorContains(t, err, "it needs "+id)
	require.NotContains(t, err.Error(), other)

	s.env = map[string]string{secret.EnvMaster: strings.TrimSpace(string(right))}
	s.run(t, nil)
	s.env = nil
	require.NoError(t, os.WriteFile(path, right, 0o600))
	s.run(t, nil)
}

func TestTheMasterKeyIsRotated(t *testing.T) {
	t.Parallel()
	s := &sealed{dir: t.TempDir()}
	s.run(t, nil)
	index, old := s.index(t), s.master(t).ID().String()
	s.run(t, func(a *app.App) {
		_, err := a.Actions().RotateMasterKey(t.Context(), admin.Actor{Name: "reader", Right: admin.Operate})
		require.ErrorContains(t, err, "You may not rotate the master key")
		r, err := a.Actions().RotateMasterKey(t.Context(), owner)
		require.NoError(t, err)
		path := app.MasterPath(s.dir)
		require.Equal(t, &admin.Rotation{OldKey: old, NewKey: s.master(t).ID().String(), In: path, OldIn: path + "." + old, Keys: 4}, r)
		require.NotEqual(t, r.OldKey, r.NewKey)
		require.FileExists(t, r.OldIn)
		_, err = a.Actions().RotateMasterKey(t.Context(), owner)
		require.NoError(t, err, "and once more")
	})
	require.Equal(t, index, s.index(t), "the workspaces' own keys are as they were")
	s.run(t, nil)
}

// Whatever ends a rotation, the next start has the key that the database needs, and
// the rotation can be run again.
func TestARotationThatBrokeOff(t *testing.T) {
	t.Parallel()
	for name, crash := range map[string]func(t *testing.T, s *sealed){
		"after the new key was made": func(t *testing.T, s *sealed) {
			t.Helper()
			require.NoError(t, s.master(t).BeginRotation())
		},
		"before the database was written": func(t *testing.T, s *sealed) {
			t.Helper()
			m := s.master(t)
			require.NoError(t, m.BeginRotation())
			s.keys(t, func(st *store.Store) {
				_, err := st.RewrapKeys(t.Context(), func(rows []secret.WrappedKey) ([]secret.WrappedKey, error) {
					_, err := m.Rewrap(rows)
					require.NoError(t, err)
					return nil, os.ErrClosed
				})
				require.ErrorIs(t, err, os.ErrClosed)
			})
		},
		"after the database was written": func(t *testing.T, s *sealed) {
			t.Helper()
			m := s.master(t)
			require.NoError(t, m.BeginRotation())
			s.keys(t, func(st *store.Store) {
				_, err := st.RewrapKeys(t.Context(), m.Rewrap)
				require.NoError(t, err)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &sealed{dir: t.TempDir()}
			s.run(t, nil)
			index := s.index(t)
			crash(t, s)
			s.run(t, nil)
			require.Equal(t, index, s.index(t))
			s.run(t, func(a *app.App) {
				_, err := a.Actions().RotateMasterKey(t.Context(), owner)
				require.NoError(t, err)
			})
			require.NoFileExists(t, app.MasterPath(s.dir)+".next")
			require.Equal(t, index, s.index(t))
			s.log.Reset()
			s.run(t, nil)
			require.NotContains(t, s.log.String(), "rotation")
		})
	}
}

func TestAMasterKeyOfTheEnvironmentIsRotated(t *testing.T) {
	t.Parallel()
	key := func(text string) string {
		return base64.StdEncoding.EncodeToString([]byte((text + strings.Repeat("-made-up", 4))[:32]))
	}
	s := &sealed{dir: t.TempDir(), env: map[string]string{secret.EnvMaster: key("old")}}
	s.run(t, func(a *app.App) {
		_, err := a.Actions().RotateMasterKey(t.Context(), owner)
		require.ErrorContains(t, err, secret.EnvMasterNext)
		var e *admin.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, admin.Conflict, e.Code)
	})
	require.NoFileExists(t, app.MasterPath(s.dir))
	s.env[secret.EnvMasterNext] = key("new")
	s.run(t, func(a *app.App) {
		r, err := a.Actions().RotateMasterKey(t.Context(), owner)
		require.NoError(t, err)
		require.Equal(t, secret.EnvMaster, r.In)
		require.Empty(t, r.OldIn)
	})
	s.run(t, nil) // the variables are not changed over yet
	s.env = map[string]string{secret.EnvMaster: key("new")}
	s.run(t, nil)
	s.env = map[string]string{secret.EnvMaster: key("old")}
	_, err := s.open(t)
	require.ErrorIs(t, err, secret.ErrOtherMaster)
}

// A server is asked through its socket, as the command does it, and goes on.
func TestARunningServerRotatesItsMasterKey(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "capiloop") //nolint:usetesting // t.TempDir can be too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	f, err := config.Parse("c.yaml", []byte(`{listen: "127.0.0.1:0", workspaces: [{name: shop, sources: [{kind: website, name: site}]}]}`), nil)
	require.NoError(t, err)
	a := start(t, f, dir)
	c := admin.NewClient(app.SocketPath(dir))
	t.Cleanup(c.Close)
	r, err := c.RotateMasterKey(t.Context(), owner)
	require.NoError(t, err)
	require.Equal(t, 2, r.Keys)
	require.NotEqual(t, r.OldKey, r.NewKey)

	list, err := c.Sources(t.Context(), owner, "")
	require.NoError(t, err)
	require.Contains(t, list[0].URL, "http://"+a.Addr()+"/webhooks/")
	require.Nil(t, list[0].LastSeenAt)
	f.Workspaces = append(f.Workspaces, config.Default().Workspaces...)
	require.NoError(t, a.Reload(t.Context(), f), "a new workspace's keys are wrapped by the new one")
}

func TestSourcesTellTheirAddresses(t *testing.T) {
	t.Parallel()
	s := &sealed{dir: t.TempDir()}
	s.run(t, func(a *app.App) {
		list, err := a.Actions().Sources(t.Context(), owner, "")
		require.NoError(t, err)
		require.Len(t, list, 2)
		require.Equal(t, admin.Source{
			Workspace: "shop", Kind: "website", Name: "site", URL: "https://leads.example.com/webhooks/made-up-key-of-an-address", ConnectedAt: list[0].ConnectedAt,
		}, list[0])
		require.Regexp(t, `\Ahttps://leads\.example\.com/webhooks/[A-Za-z0-9_-]{43}\z`, list[1].URL)
		list, err = a.Actions().Sources(t.Context(), admin.Actor{Name: "reader", Right: admin.Read}, "shop")
		require.NoError(t, err)
		require.Empty(t, list[0].URL, "an address is a secret")
		list, err = a.Actions().Sources(t.Context(), owner, "other")
		require.NoError(t, err)
		require.NotNil(t, list)
		require.Empty(t, list)
		_, err = a.Actions().Sources(t.Context(), owner, "nobody")
		require.ErrorContains(t, err, "There is no workspace")
	})
}
