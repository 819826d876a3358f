package secret_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/capiloop/capiloop/internal/secret"
)

func TestSealedOpens(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key, place, plain := secret.NewKey(), drawPlace(t), rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
		sealed := secret.Seal(key, place, plain)
		opened, err := secret.Open(key, place, sealed)
		require.NoError(t, err)
		require.True(t, bytes.Equal(plain, opened))
		require.NotEqual(t, sealed, secret.Seal(key, place, plain), "a nonce was used twice")
		if len(plain) > 8 {
			require.False(t, bytes.Contains(sealed, plain))
		}
	})
}

func TestChangedDoesNotOpen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key, place := secret.NewKey(), drawPlace(t)
		sealed := secret.Seal(key, place, rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "plain"))
		bit := rapid.IntRange(0, 8*len(sealed)-1).Draw(t, "bit")
		sealed[bit/8] ^= 1 << (bit % 8)
		_, err := secret.Open(key, place, sealed)
		if bit < 8 {
			require.ErrorIs(t, err, secret.ErrFormat, "another version is another form")
			return
		}
		require.ErrorIs(t, err, secret.ErrSealed)
		require.NotErrorIs(t, err, secret.ErrFormat)
	})
}

func TestMovedDoesNotOpen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key, place, other := secret.NewKey(), drawPlace(t), drawPlace(t)
		if bytes.Equal(place, other) {
			t.Skip()
		}
		sealed := secret.Seal(key, place, []byte("a@example.com"))
		_, err := secret.Open(key, other, sealed)
		require.ErrorIs(t, err, secret.ErrSealed)
		_, err = secret.Open(secret.NewKey(), place, sealed)
		require.ErrorIs(t, err, secret.ErrSealed)
		_, err = secret.Open(secret.Key{}, place, sealed)
		require.ErrorIs(t, err, secret.ErrSealed)
	})
}

func TestCutOffDoesNotOpen(t *testing.T) {
	t.Parallel()
	key := secret.NewKey()
	sealed := secret.Seal(key, nil, []byte("a@example.com"))
	for n := range sealed {
		_, err := secret.Open(key, nil, sealed[:n])
		if n < 29 {
			require.ErrorIs(t, err, secret.ErrFormat)
			continue
		}
		require.ErrorIs(t, err, secret.ErrSealed)
	}
	_, err := secret.Open(key, nil, append(sealed, 0))
	require.ErrorIs(t, err, secret.ErrSealed)
}

func TestPlacesDiffer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		kindA, kindB := rapid.String().Draw(t, "kind"), rapid.String().Draw(t, "other kind")
		idsA, idsB := rapid.SliceOf(rapid.Int64()).Draw(t, "ids"), rapid.SliceOf(rapid.Int64()).Draw(t, "other ids")
		same := kindA == kindB && fmt.Sprint(idsA) == fmt.Sprint(idsB)
		require.Equal(t, same, bytes.Equal(secret.Place(kindA, idsA...), secret.Place(kindB, idsB...)))
	})
	require.NotEqual(t, secret.Place("a", 1), secret.Place("a\x00\x00\x00\x00\x00\x00\x00\x01"))
}

func TestWrapped(t *testing.T) {
	t.Parallel()
	parent, child, place := secret.NewKey(), secret.NewKey(), secret.Place("lead", 1, 2)
	wrapped := secret.Wrap(parent, child, place)
	by, err := secret.WrappedBy(wrapped)
	require.NoError(t, err)
	require.Equal(t, parent.ID(), by)
	key, err := secret.Unwrap(parent, wrapped, place)
	require.NoError(t, err)
	require.Equal(t, child.ID(), key.ID())
	opened, err := secret.Open(key, place, secret.Seal(child, place, []byte("x")))
	require.NoError(t, err)
	require.Equal(t, "x", string(opened))

	other := secret.NewKey()
	_, err = secret.Unwrap(other, wrapped, place)
	require.ErrorIs(t, err, secret.ErrOtherKey)
	require.ErrorIs(t, err, secret.ErrSealed)
	require.ErrorContains(t, err, parent.ID().String())
	require.ErrorContains(t, err, other.ID().String())
	_, err = secret.Unwrap(parent, wrapped, secret.Place("lead", 1, 3))
	require.ErrorIs(t, err, secret.ErrSealed)
	require.NotErrorIs(t, err, secret.ErrOtherKey)

	for i := range wrapped {
		changed := bytes.Clone(wrapped)
		changed[i] ^= 0x10
		want := secret.ErrSealed
		if i == 0 {
			want = secret.ErrFormat
		}
		_, err = secret.Unwrap(parent, changed, place)
		require.ErrorIs(t, err, want)
		_, err = secret.Unwrap(parent, wrapped[:i], place)
		require.ErrorIs(t, err, secret.ErrFormat)
	}
}

// A key is not to be had by opening it as a value, nor data to be passed off as a key.
func TestKeysAndDataDoNotMix(t *testing.T) {
	t.Parallel()
	parent, place := secret.NewKey(), secret.Place("lead", 1, 2)
	id := parent.ID()
	wrapped := secret.Wrap(parent, secret.NewKey(), place)
	_, err := secret.Open(parent, place, append([]byte{wrapped[0]}, wrapped[1+len(id):]...))
	require.ErrorIs(t, err, secret.ErrSealed)
	sealed := secret.Seal(parent, place, make([]byte, secret.KeySize))
	_, err = secret.Unwrap(parent, append(append([]byte{sealed[0]}, id[:]...), sealed[1:]...), place)
	require.ErrorIs(t, err, secret.ErrSealed)
}

func TestNoKeySealsNothing(t *testing.T) {
	t.Parallel()
	require.Panics(t, func() { secret.Seal(secret.Key{}, nil, []byte("x")) })
	require.Panics(t, func() { secret.Wrap(secret.Key{}, secret.NewKey(), nil) })
	require.Panics(t, func() { secret.Wrap(secret.NewKey(), secret.Key{}, nil) })
}

func TestKeyIsNeverPrinted(t *testing.T) {
	t.Parallel()
	text := "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	m, err := secret.LoadMaster("", env(secret.EnvMaster, text))
	require.NoError(t, err)
	ring, _ := m.NewRing(1)
	type holder struct {
		Key, key secret.Key
		m        *secret.Master
		M        *secret.Master
		Ring     *secret.Ring
		List     []any
	}
	key := secret.NewKey()
	h := holder{Key: key, key: key, m: m, M: m, Ring: ring, List: []any{key, &key, m, ring}}
	var printed []string
	for _, v := range []any{h, &h, key, &key, m, ring} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "% x"} {
			printed = append(printed, fmt.Sprintf(verb, v))
		}
		j, err := json.Marshal(v)
		require.NoError(t, err)
		y, err := yaml.Marshal(v)
		require.NoError(t, err)
		var b bytes.Buffer
		slog.New(slog.NewTextHandler(&b, nil)).Info("sent", "value", v)
		slog.New(slog.NewJSONHandler(&b, nil)).Info("sent", "value", v)
		printed = append(printed, string(j), string(y), b.String())
	}
	for _, p := range printed {
		require.NotContains(t, p, "08090a0b")
		require.NotContains(t, p, "08090A0B")
		require.NotContains(t, p, "8 9 10 11")
		require.NotContains(t, p, "08 09 0a 0b")
	}
	require.Equal(t, "***", key.String())
	require.Equal(t, "***", fmt.Sprintf("%x", key))
	require.Empty(t, secret.Key{}.String())
	require.Equal(t, secret.KeyID{}, secret.Key{}.ID())
	require.Equal(t, "630dcd2966c43366", m.ID().String(), "the first 8 bytes of the key's SHA-256")
}

func TestKeyServesManyAtOnce(t *testing.T) {
	t.Parallel()
	key := secret.NewKey()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 200 {
				place, plain := secret.Place("lead", int64(i), int64(n)), fmt.Append(nil, i, n)
				opened, err := secret.Open(key, place, secret.Seal(key, place, plain))
				if err != nil || !bytes.Equal(opened, plain) {
					t.Errorf("%d/%d: %v", i, n, err)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzOpen(f *testing.F) {
	key, place := secret.NewKey(), secret.Place("lead", 1, 2)
	f.Add([]byte{})
	f.Add([]byte{1})
	f.Add(secret.Seal(key, place, []byte("a@example.com")))
	f.Add(secret.Wrap(key, secret.NewKey(), place))
	f.Fuzz(func(t *testing.T, sealed []byte) {
		if _, err := secret.Open(secret.NewKey(), place, sealed); err == nil {
			t.Fatal("opened by a key that did not seal it")
		}
		if _, err := secret.Unwrap(secret.NewKey(), sealed, place); err == nil {
			t.Fatal("unwrapped by a key that did not wrap it")
		}
		_, _ = secret.Open(key, place, sealed)
		_, _ = secret.Unwrap(key, sealed, place)
		_, _ = secret.WrappedBy(sealed)
	})
}

func BenchmarkSeal(b *testing.B) {
	key, place, plain := secret.NewKey(), secret.Place("lead", 1, 2), make([]byte, 1<<10)
	b.SetBytes(int64(len(plain)))
	b.ReportAllocs()
	for b.Loop() {
		secret.Seal(key, place, plain)
	}
}

// BenchmarkNewLead is what a new lead of 1 KB costs: its key, wrapped, and the lead
// sealed, with e-mail and phone hashed.
func BenchmarkNewLead(b *testing.B) {
	m, err := secret.LoadMaster("", env(secret.EnvMaster, hexKey))
	require.NoError(b, err)
	ring, _ := m.NewRing(1)
	plain := make([]byte, 1<<10)
	b.ReportAllocs()
	for b.Loop() {
		_, key := ring.WrapLead(2)
		secret.Seal(key, secret.Place("lead", 1, 2), plain)
		ring.Index("email", "a@example.com")
		ring.Index("phone", "12025550100")
	}
}

func drawPlace(t *rapid.T) []byte {
	return secret.Place(rapid.SampledFrom([]string{"lead", "event", ""}).Draw(t, "kind"),
		rapid.SliceOfN(rapid.Int64Range(0, 3), 0, 3).Draw(t, "ids")...)
}
