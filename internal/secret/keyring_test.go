package secret_test

import (
	"encoding/hex"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/capiloop/capiloop/internal/secret"
)

func TestRingOpensItsLeads(t *testing.T) {
	t.Parallel()
	m := newMaster(t)
	ring, rows := m.NewRing(7)
	wrapped, key := ring.WrapLead(100)

	slices.Reverse(rows) // the order of rows tells nothing
	again, err := m.OpenRing(7, rows)
	require.NoError(t, err)
	require.Equal(t, int64(7), again.Workspace())
	require.Equal(t, ring.Current(), again.Current())
	opened, err := again.OpenLead(100, wrapped)
	require.NoError(t, err)
	require.Equal(t, key.ID(), opened.ID())

	_, err = ring.OpenLead(101, wrapped)
	require.ErrorIs(t, err, secret.ErrSealed, "another lead's")
	_, err = ring.OpenLead(100, wrapped[1:])
	require.ErrorIs(t, err, secret.ErrFormat)
	other, _ := m.NewRing(7)
	_, err = other.OpenLead(100, wrapped)
	require.ErrorIs(t, err, secret.ErrUnknownKey)
	require.ErrorIs(t, err, secret.ErrSealed)

	_, second := ring.WrapLead(100)
	require.NotEqual(t, key.ID(), second.ID(), "each has its own")
}

func TestRingSealsALead(t *testing.T) {
	t.Parallel()
	ring, _ := newMaster(t).NewRing(7)
	wrapped, sealed := ring.SealLead(100, []byte("a@example.com"))
	plain, err := ring.ReadLead(100, wrapped, sealed)
	require.NoError(t, err)
	require.Equal(t, "a@example.com", string(plain))
	otherWrapped, otherSealed := ring.SealLead(101, []byte("b@example.com"))
	for _, c := range []struct {
		lead            int64
		wrapped, sealed []byte
	}{{101, wrapped, sealed}, {100, wrapped, otherSealed}, {100, otherWrapped, sealed}} {
		_, err = ring.ReadLead(c.lead, c.wrapped, c.sealed)
		require.ErrorIs(t, err, secret.ErrSealed)
	}

	copied, err := ring.SealCopy(100, 5, wrapped, []byte("sent"))
	require.NoError(t, err)
	plain, err = ring.ReadCopy(100, 5, wrapped, copied)
	require.NoError(t, err)
	require.Equal(t, "sent", string(plain))
	_, err = ring.ReadCopy(100, 6, wrapped, copied)
	require.ErrorIs(t, err, secret.ErrSealed, "moved to another value of the lead")
	_, err = ring.ReadLead(100, wrapped, copied)
	require.ErrorIs(t, err, secret.ErrSealed)
}

func TestRingRotates(t *testing.T) {
	t.Parallel()
	m := newMaster(t)
	before, rows := m.NewRing(7)
	wrapped, key := before.WrapLead(100)
	email := before.Index("email", "a@example.com")

	after, row := m.NextRing(before)
	rows = append(rows, row)
	require.Equal(t, int64(2), row.Generation)
	require.NotEqual(t, before.Current(), after.Current())
	reread, err := m.OpenRing(7, rows)
	require.NoError(t, err)
	require.Equal(t, after.Current(), reread.Current())

	for _, ring := range []*secret.Ring{after, reread} {
		opened, err := ring.OpenLead(100, wrapped)
		require.NoError(t, err)
		require.Equal(t, key.ID(), opened.ID())
		require.Equal(t, email, ring.Index("email", "a@example.com"))

		rewrapped, err := ring.RewrapLead(100, wrapped)
		require.NoError(t, err)
		by, err := secret.WrappedBy(rewrapped)
		require.NoError(t, err)
		require.Equal(t, ring.Current(), by)
		opened, err = ring.OpenLead(100, rewrapped)
		require.NoError(t, err)
		require.Equal(t, key.ID(), opened.ID(), "the lead's own key stays")
		twice, err := ring.RewrapLead(100, rewrapped)
		require.NoError(t, err)
		require.Equal(t, rewrapped, twice)
		_, err = before.OpenLead(100, rewrapped)
		require.ErrorIs(t, err, secret.ErrUnknownKey)
		_, err = ring.RewrapLead(101, wrapped)
		require.ErrorIs(t, err, secret.ErrSealed)
	}
}

func TestRingRefusesRows(t *testing.T) {
	t.Parallel()
	m := newMaster(t)
	_, rows := m.NewRing(7)
	leads, index := rows[0], rows[1]
	generation, use, workspace, cut := leads, leads, leads, leads
	generation.Generation = 2
	use.Use = secret.UseIndex
	workspace.Workspace = 8
	cut.Wrapped = cut.Wrapped[1:]
	unknown := leads
	unknown.Use = "else"
	for name, c := range map[string]struct {
		rows []secret.WrappedKey
		is   error
		says string
	}{
		"none":                 {nil, nil, "none for leads"},
		"no index":             {[]secret.WrappedKey{leads}, nil, "none for the index"},
		"no leads":             {[]secret.WrappedKey{index}, nil, "none for leads"},
		"two indexes":          {[]secret.WrappedKey{leads, index, index}, nil, "one too many"},
		"use not known":        {[]secret.WrappedKey{leads, index, unknown}, nil, "not known"},
		"of another workspace": {[]secret.WrappedKey{workspace, index}, nil, "workspace 8"},
		"moved to generation":  {[]secret.WrappedKey{generation, index}, secret.ErrSealed, "key 2 of workspace 7 for leads"},
		"moved to use":         {[]secret.WrappedKey{leads, use}, secret.ErrSealed, "for index"},
		"cut off":              {[]secret.WrappedKey{cut, index}, secret.ErrFormat, "key 1"},
	} {
		_, err := m.OpenRing(7, c.rows)
		require.ErrorContains(t, err, c.says, name)
		if c.is != nil {
			require.ErrorIs(t, err, c.is, name)
		}
	}
	moved := []secret.WrappedKey{leads, index}
	moved[0].Workspace, moved[1].Workspace = 8, 8
	_, err := m.OpenRing(8, moved)
	require.ErrorIs(t, err, secret.ErrSealed, "a whole ring moved to another workspace")
}

func TestIndex(t *testing.T) {
	t.Parallel()
	m := newMaster(t)
	ring, _ := m.NewRing(7)
	other, _ := m.NewRing(8)
	rapid.Check(t, func(t *rapid.T) {
		kind, value := rapid.String().Draw(t, "kind"), rapid.StringN(1, -1, -1).Draw(t, "value")
		hash := ring.Index(kind, value)
		require.Len(t, hash, 16)
		require.Equal(t, hash, ring.Index(kind, value))
		require.NotEqual(t, hash, ring.Index(kind+"x", value))
		require.NotEqual(t, hash, ring.Index(kind, value+"x"))
		require.NotEqual(t, hash, other.Index(kind, value))
	})
	require.NotEqual(t, ring.Index("ab", "c"), ring.Index("a", "bc"))
	require.Nil(t, ring.Index("email", ""), "no e-mail is not an e-mail that many have")
}

func TestRingServesManyAtOnce(t *testing.T) {
	t.Parallel()
	m := newMaster(t)
	ring, _ := m.NewRing(7)
	wrapped, key := ring.WrapLead(1)
	want := hex.EncodeToString(ring.Index("email", "a@example.com"))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				next, _ := m.NextRing(ring)
				opened, err := next.OpenLead(1, wrapped)
				if err != nil || opened.ID() != key.ID() {
					t.Errorf("open: %v", err)
				}
				if got := hex.EncodeToString(next.Index("email", "a@example.com")); got != want {
					t.Errorf("index: %s", got)
				}
			}
		})
	}
	wg.Wait()
}
