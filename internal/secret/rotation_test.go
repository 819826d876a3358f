package secret_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/secret"
)

// installation is a database and a disk: what is left when the program is killed.
type installation struct {
	path  string
	rows  []secret.WrappedKey
	leads map[int64][]byte // wrapped keys, by workspace
	ids   map[int64]secret.KeyID
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	in := &installation{
		path:  filepath.Join(t.TempDir(), "master.key"),
		leads: map[int64][]byte{}, ids: map[int64]secret.KeyID{},
	}
	m := in.start(t)
	for workspace := range int64(3) {
		ring, rows := m.NewRing(workspace)
		next, row := m.NextRing(ring)
		in.rows = append(append(in.rows, rows...), row)
		for _, r := range []*secret.Ring{ring, next} {
			wrapped, key := r.WrapLead(5)
			in.leads[workspace], in.ids[workspace] = wrapped, key.ID()
		}
	}
	return in
}

// start is what a start of the program does.
func (in *installation) start(t *testing.T) *secret.Master {
	t.Helper()
	m, err := secret.LoadMaster(in.path, env())
	require.NoError(t, err)
	require.NoError(t, m.Settle(in.used(t)...))
	in.requireOpens(t, m)
	return m
}

func (in *installation) used(t *testing.T) []secret.KeyID {
	t.Helper()
	ids := map[secret.KeyID]bool{}
	for _, row := range in.rows {
		id, err := secret.WrappedBy(row.Wrapped)
		require.NoError(t, err)
		ids[id] = true
	}
	return slices.Collect(maps.Keys(ids))
}

func (in *installation) requireOpens(t *testing.T, m *secret.Master) {
	t.Helper()
	for workspace, wrapped := range in.leads {
		rows := slices.DeleteFunc(slices.Clone(in.rows), func(r secret.WrappedKey) bool { return r.Workspace != workspace })
		ring, err := m.OpenRing(workspace, rows)
		require.NoError(t, err)
		key, err := ring.OpenLead(5, wrapped)
		require.NoError(t, err)
		require.Equal(t, in.ids[workspace], key.ID())
	}
}

// rotate runs the phases and is killed after so many steps; true if it came to the end.
func (in *installation) rotate(t *testing.T, m *secret.Master, steps int) bool {
	t.Helper()
	for i, step := range []func(){
		func() { require.NoError(t, m.BeginRotation()) },
		func() {
			_, err := m.Rewrap(in.rows) // rolled back
			require.NoError(t, err)
		},
		func() {
			rows, err := m.Rewrap(in.rows)
			require.NoError(t, err)
			in.rows = rows // committed
		},
		func() { // the first half of phase 3
			old, err := os.ReadFile(in.path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(in.path+"."+m.ID().String(), old, 0o600))
		},
		func() { require.NoError(t, m.FinishRotation(in.used(t)...)) },
	} {
		if i == steps {
			return false
		}
		step()
		in.requireOpens(t, m)
	}
	return true
}

func TestRotationKilledAnywhere(t *testing.T) {
	t.Parallel()
	for steps := 0; ; steps++ {
		in := newInstallation(t)
		m := in.start(t)
		before := m.ID()
		ended := in.rotate(t, m, steps)

		after := in.start(t) // killed; the next start opens all
		committed := steps >= 3
		require.Equal(t, committed, after.ID() != before, "after %d steps", steps)
		require.Equal(t, steps == 1 || steps == 2, after.Rotating(), "after %d steps", steps)
		in.start(t) // and so does the one after it

		require.True(t, in.rotate(t, after, 9), "it can be run again")
		last := in.start(t)
		require.NotEqual(t, before, last.ID())
		require.False(t, last.Rotating())
		require.Equal(t, []secret.KeyID{last.ID()}, in.used(t), "nothing is wrapped by the old key")
		require.NoFileExists(t, in.path+".next")
		require.FileExists(t, in.path+"."+before.String(), "for a backup from before")
		for _, name := range files(t, in.path) {
			info, err := os.Stat(filepath.Join(filepath.Dir(in.path), name))
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
		}
		if ended {
			return
		}
	}
}

// The key that a cut-off rotation made is the one that the next takes up: another
// process may have committed it to the database meanwhile.
func TestRotationTakesUpTheNextKey(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	first, second := in.start(t), in.start(t)
	require.NoError(t, first.BeginRotation())
	third := in.start(t) // while the first is in phase 2
	require.True(t, third.Rotating())
	require.NoError(t, second.BeginRotation())
	rows, err := first.Rewrap(in.rows)
	require.NoError(t, err)
	in.rows = rows
	in.requireOpens(t, second)
	in.requireOpens(t, third)
	for _, m := range []*secret.Master{first, second, third, first} {
		require.NoError(t, m.FinishRotation(in.used(t)...))
		in.requireOpens(t, m)
	}
	require.Equal(t, first.ID(), in.start(t).ID())
}

func TestRotationDoesNotEndWhileTheOldKeyIsNeeded(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	m := in.start(t)
	before := m.ID()
	require.NoError(t, m.BeginRotation())
	require.ErrorIs(t, m.FinishRotation(in.used(t)...), secret.ErrRotating)
	rows, err := m.Rewrap(in.rows[:4])
	require.NoError(t, err)
	in.rows = append(rows, in.rows[4:]...) // a row came in behind its back
	require.ErrorIs(t, m.FinishRotation(in.used(t)...), secret.ErrRotating)
	m = in.start(t)
	require.True(t, m.Rotating())
	require.Equal(t, before, m.ID())
	require.True(t, in.rotate(t, m, 9))
	require.NotEqual(t, before, in.start(t).ID())
}

func TestRotationNotBegun(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	m := in.start(t)
	_, err := m.Rewrap(in.rows)
	require.ErrorIs(t, err, secret.ErrNoNext)
	require.NoError(t, m.FinishRotation(in.used(t)...))
	require.Equal(t, []string{"master.key"}, files(t, in.path))
}

func TestRotationOfAnotherIsNotEnded(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	stale := in.start(t)
	require.NoError(t, stale.BeginRotation())
	other := in.start(t)
	require.True(t, in.rotate(t, other, 9))
	require.NoError(t, other.BeginRotation()) // a second one
	next, err := os.ReadFile(in.path + ".next")
	require.NoError(t, err)
	require.NoError(t, stale.FinishRotation(in.used(t)...))
	still, err := os.ReadFile(in.path + ".next")
	require.NoError(t, err)
	require.Equal(t, next, still)
	in.start(t)
}

func TestBackupFromBeforeRotation(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	backup := slices.Clone(in.rows)
	m := in.start(t)
	before := m.ID()
	require.True(t, in.rotate(t, m, 9))
	in.rows = backup
	err := m.Settle(in.used(t)...)
	require.ErrorIs(t, err, secret.ErrOtherMaster)
	require.ErrorContains(t, err, "is still in "+in.path+"."+before.String())
	require.NoError(t, os.Rename(in.path+"."+before.String(), in.path))
	require.Equal(t, before, in.start(t).ID())
}

func TestRotationInTheEnvironment(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	onlyFile := in.start(t)

	// Out of the file.
	load := func(pairs ...string) *secret.Master {
		m, err := secret.LoadMaster(in.path, env(pairs...))
		require.NoError(t, err)
		require.NoError(t, m.Settle(in.used(t)...))
		in.requireOpens(t, m)
		return m
	}
	m := load(secret.EnvMasterNext, hexKey)
	require.Equal(t, onlyFile.ID(), m.ID())
	rotate := func(m *secret.Master) {
		require.NoError(t, m.BeginRotation())
		rows, err := m.Rewrap(in.rows)
		require.NoError(t, err)
		in.rows = rows
		require.NoError(t, m.FinishRotation(in.used(t)...))
		in.requireOpens(t, m)
	}
	rotate(m)
	require.Equal(t, secret.EnvMaster, m.From())
	load(secret.EnvMasterNext, hexKey)
	require.ErrorIs(t, onlyFile.Settle(in.used(t)...), secret.ErrOtherMaster)

	// From one variable to the other.
	m = load(secret.EnvMaster, hexKey)
	require.ErrorIs(t, m.BeginRotation(), secret.ErrNoNext)
	require.ErrorContains(t, m.BeginRotation(), secret.EnvMasterNext)
	m = load(secret.EnvMaster, hexKey, secret.EnvMasterNext, otherHex)
	require.True(t, m.Rotating())
	rotate(m)
	require.False(t, m.Rotating())
	load(secret.EnvMaster, hexKey, secret.EnvMasterNext, otherHex)
	require.False(t, load(secret.EnvMaster, otherHex, secret.EnvMasterNext, otherHex).Rotating())
	require.Equal(t, []string{"master.key"}, files(t, in.path), "files are left alone")

	// Not two at once.
	require.NoError(t, onlyFile.BeginRotation())
	_, err := secret.LoadMaster(in.path, env(secret.EnvMasterNext, otherHex))
	require.ErrorContains(t, err, "a rotation to "+in.path+".next was begun")
}
