package secret_test

import (
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/secret"
)

const (
	hexKey   = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	otherHex = "f00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
)

// env is an environment of names and values.
func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func newMaster(t *testing.T) *secret.Master {
	t.Helper()
	m, err := secret.LoadMaster(filepath.Join(t.TempDir(), "master.key"), env())
	require.NoError(t, err)
	return m
}

func TestMasterIsMadeOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "master.key")
	m, err := secret.LoadMaster(path, env())
	require.NoError(t, err)
	require.True(t, m.Made())
	require.Equal(t, path, m.From())
	info, err := os.Stat(path)
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	again, err := secret.LoadMaster(path, env())
	require.NoError(t, err)
	require.False(t, again.Made())
	require.Equal(t, m.ID(), again.ID())
	require.Equal(t, []string{"master.key"}, files(t, path), "nothing is left over")
}

func TestMasterMadeByManyIsOne(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "master.key")
	ids := make([]secret.KeyID, 16)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			m, err := secret.LoadMaster(path, env())
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = m.ID()
		})
	}
	wg.Wait()
	require.Len(t, slices.Compact(ids), 1)
}

func TestMasterFromEnvironment(t *testing.T) {
	t.Parallel()
	raw, err := hex.DecodeString(hexKey)
	require.NoError(t, err)
	folder := t.TempDir()
	for _, text := range []string{
		hexKey, strings.ToUpper(hexKey), " " + hexKey + "\n",
		base64.StdEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw),
	} {
		m, err := secret.LoadMaster(filepath.Join(folder, "master.key"), env(secret.EnvMaster, text))
		require.NoError(t, err)
		require.Equal(t, "630dcd2966c43366", m.ID().String())
		require.Equal(t, secret.EnvMaster, m.From())
		require.False(t, m.Made())
	}
	require.Empty(t, files(t, filepath.Join(folder, "master.key")), "no file is made")
}

func TestMasterRefusesTexts(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty": "", "blank": " \n", "short": hexKey[:62], "long": hexKey + "00", "words": "correct horse battery staple",
		"zeros": strings.Repeat("0", 64), "cut base64": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh",
	} {
		for _, variable := range []string{secret.EnvMaster, secret.EnvMasterNext} {
			_, err := secret.LoadMaster(filepath.Join(t.TempDir(), "master.key"), env(variable, text))
			require.ErrorContains(t, err, "openssl rand -base64 32", name)
			require.ErrorContains(t, err, variable)
			requireNotTold(t, err, text)
		}
		path := filepath.Join(t.TempDir(), "master.key")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := secret.LoadMaster(path, env())
		require.ErrorContains(t, err, "openssl rand -base64 32", name)
		require.ErrorContains(t, err, path)
		requireNotTold(t, err, text)
		kept, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(kept), "never overwritten")
	}
}

func requireNotTold(t *testing.T, err error, text string) {
	t.Helper()
	if len(strings.TrimSpace(text)) > 0 {
		require.NotContains(t, err.Error(), text[:8])
	}
}

func TestMasterFileOfOthersIsRefused(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	for _, mode := range []os.FileMode{0o644, 0o640, 0o604, 0o620, 0o666} {
		path := filepath.Join(t.TempDir(), "master.key")
		require.NoError(t, os.WriteFile(path, []byte(hexKey), 0o600))
		require.NoError(t, os.Chmod(path, mode))
		_, err := secret.LoadMaster(path, env())
		require.ErrorContains(t, err, "chmod 600 "+path)
		require.NotContains(t, err.Error(), hexKey[:8])
		require.NoError(t, os.Chmod(path, 0o400))
		_, err = secret.LoadMaster(path, env())
		require.NoError(t, err)
	}
}

func TestMasterFileThatIsNone(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	_, err := secret.LoadMaster(folder, env())
	require.Error(t, err)
	_, err = secret.LoadMaster(filepath.Join(folder, "none", "master.key"), env())
	require.ErrorIs(t, err, os.ErrNotExist)

	path := filepath.Join(folder, "dangling")
	require.NoError(t, os.Symlink(filepath.Join(folder, "nowhere"), path))
	_, err = secret.LoadMaster(path, env())
	require.Error(t, err)

	path = filepath.Join(folder, "gone")
	require.NoError(t, os.WriteFile(path+".next", []byte(hexKey), 0o600))
	_, err = secret.LoadMaster(path, env())
	require.ErrorContains(t, err, "is gone")
	require.NoFileExists(t, path)
}

func TestWrongMasterIsNamed(t *testing.T) {
	t.Parallel()
	first, second := newMaster(t), newMaster(t)
	_, rows := first.NewRing(7)
	_, opening := second.OpenRing(7, rows)
	for _, err := range []error{opening, second.Settle(first.ID()), second.FinishRotation(first.ID())} {
		require.ErrorIs(t, err, secret.ErrOtherMaster)
		require.ErrorContains(t, err, "this database was sealed with another master key: it needs "+first.ID().String())
		require.ErrorContains(t, err, second.ID().String())
		require.ErrorContains(t, err, second.From())
	}
	require.NoError(t, second.Settle(), "a new database")
	require.NoError(t, first.Settle(first.ID()))
}

func files(t *testing.T, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
