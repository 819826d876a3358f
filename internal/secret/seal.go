package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
)

// KeySize is how many bytes a key has: AES-256.
const KeySize = 32

var (
	// ErrSealed says that a sealed value does not open: it was sealed with another
	// key, belongs to another place, or was changed.
	ErrSealed = errors.New("the sealed value does not open: it has another key, belongs to another place, or was changed")

	// ErrFormat says that a value is none that Seal or Wrap of this version made, so
	// that trying other keys is no use: it was cut off, or a newer version wrote it.
	ErrFormat = errors.New("not a sealed value of a form this version knows")

	// ErrOtherKey is the ErrSealed of a wrapped key, which tells the key it needs.
	ErrOtherKey = fmt.Errorf("wrapped by another key: %w", ErrSealed)
)

// What a sealed value looks like: the version, then nonce, ciphertext and tag as
// package cipher lays them out. A wrapped key has the id of its parent between.
const (
	version  = 1
	overhead = 12 + 16 // nonce and tag

	wrappedSize = 1 + len(KeyID{}) + KeySize + overhead
)

// A purpose is authenticated with each value, so that a wrapped key cannot be passed
// off as data under the same key, nor data as a key.
const (
	purposeData byte = 'd'
	purposeKey  byte = 'k'
)

// Key is a key of AES-256 in memory. Like a Secret it shows as *** wherever a value
// can end up by accident, and nothing outside of this package can read its bytes.
// The zero value is no key.
//
// Keys are not overwritten after use: Go's runtime may have copied them, and the
// cipher keeps its own schedule, so a promise to do so would be hollow. Whoever can
// read the memory of the process has its keys.
type Key struct {
	// key is a pointer for the same reason as Secret's value.
	key *keyState
	_   [0]func() // no ==, which would compare the addresses
}

type keyState struct {
	bytes [KeySize]byte
	id    KeyID
	aead  cipher.AEAD // made once, for a workspace's key serves many calls; safe for concurrent use
}

// NewKey makes a key at random.
func NewKey() Key {
	var b [KeySize]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	return keyOf(b)
}

func keyOf(b [KeySize]byte) Key {
	block, err := aes.NewCipher(b[:])
	if err != nil {
		panic(err) // the size is right
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // the block is AES
	}
	sum := sha256.Sum256(b[:])
	return Key{key: &keyState{bytes: b, id: KeyID(sum[:len(KeyID{})]), aead: aead}}
}

// KeyID names a key without telling it: the first 8 bytes of its SHA-256. It is kept
// beside what the key has wrapped, so that a wrong key is named rather than guessed.
type KeyID [8]byte

// String returns the id as 16 hexadecimal digits.
func (id KeyID) String() string { return hex.EncodeToString(id[:]) }

// ID returns the key's id; that of no key is zeros.
func (k Key) ID() KeyID {
	if k.IsZero() {
		return KeyID{}
	}
	return k.key.id
}

// IsZero tells whether there is no key.
func (k Key) IsZero() bool { return k.key == nil }

// String returns *** for a key and nothing for none.
func (k Key) String() string {
	if k.IsZero() {
		return ""
	}
	return hidden
}

// GoString returns what String returns, for %#v.
func (k Key) GoString() string { return k.String() }

// Format writes what String returns, whatever the verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// LogValue returns what String returns, for slog.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText returns what String returns, for JSON and YAML.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Place says what a sealed value belongs to, as the additional data to seal it with:
// a kind ("lead", "event") and the ids that lead to the row, the workspace's first.
// A value opens only with the place it was sealed for, so that one copied into
// another row, by a mistake or by someone who can write to the database, does not.
// No two lists of kind and ids give the same place.
func Place(kind string, ids ...int64) []byte {
	b := make([]byte, 0, 2+len(kind)+8*len(ids))
	b = binary.AppendUvarint(b, uint64(len(kind)))
	b = append(b, kind...)
	for _, id := range ids {
		b = binary.BigEndian.AppendUint64(b, uint64(id)) //nolint:gosec // the bits, whatever the sign
	}
	return b
}

// Seal encrypts and authenticates a value for a place; see Place. Sealing the same
// value twice gives different bytes. One key must not seal more than 2³² values,
// which a key for each lead is far from. Sealing with no key is a mistake in the
// program and panics: the alternative would be a value that anybody can open.
func Seal(key Key, place, plain []byte) []byte {
	out := make([]byte, 1, 1+len(plain)+overhead)
	out[0] = version
	return key.seal(out, purposeData, place, plain)
}

// Open returns the value that was sealed. Its error is ErrFormat or ErrSealed, and
// never has anything of the value in it.
func Open(key Key, place, sealed []byte) ([]byte, error) {
	if len(sealed) < 1+overhead || sealed[0] != version {
		return nil, ErrFormat
	}
	return key.open(sealed[1:], purposeData, place)
}

// Wrap seals a key with the one above it, for a place; Unwrap undoes it.
func Wrap(parent, child Key, place []byte) []byte {
	if child.IsZero() {
		panic("secret: wrap no key")
	}
	out := make([]byte, 1, wrappedSize)
	out[0] = version
	id := parent.ID()
	out = append(out, id[:]...)
	return parent.seal(out, purposeKey, place, child.key.bytes[:])
}

// Unwrap returns the key that was wrapped. If it was wrapped by another one the
// error is an ErrOtherKey that names both; otherwise ErrFormat or ErrSealed.
func Unwrap(parent Key, wrapped, place []byte) (Key, error) {
	id, err := WrappedBy(wrapped)
	if err != nil {
		return Key{}, err
	}
	if have := parent.ID(); id != have {
		return Key{}, fmt.Errorf("%w (it needs %s, this is %s)", ErrOtherKey, id, have)
	}
	plain, err := parent.open(wrapped[1+len(id):], purposeKey, place)
	if err != nil {
		return Key{}, err
	}
	return keyOf([KeySize]byte(plain)), nil
}

// WrappedBy tells which key has wrapped one. It reads what is written and proves
// nothing; Unwrap does.
func WrappedBy(wrapped []byte) (KeyID, error) {
	if len(wrapped) != wrappedSize || wrapped[0] != version {
		return KeyID{}, ErrFormat
	}
	return KeyID(wrapped[1 : 1+len(KeyID{})]), nil
}

func (k Key) seal(out []byte, purpose byte, place, plain []byte) []byte {
	if k.IsZero() {
		panic("secret: seal with no key")
	}
	return k.key.aead.Seal(out, nil, plain, slices.Concat([]byte{version, purpose}, place)) //nolint:gosec // it makes the nonce itself
}

func (k Key) open(sealed []byte, purpose byte, place []byte) ([]byte, error) {
	if k.IsZero() {
		return nil, ErrSealed
	}
	plain, err := k.key.aead.Open(nil, nil, sealed, slices.Concat([]byte{version, purpose}, place))
	if err != nil {
		return nil, ErrSealed // the cipher's own error says no more
	}
	return plain, nil
}
