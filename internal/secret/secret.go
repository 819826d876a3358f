// Package secret keeps tokens, keys and passwords from being printed. A Secret
// shows as *** wherever a value can end up by accident: in a formatted text, in
// JSON, in YAML, in a log line, also deep inside another value. Only Reveal gives
// it, so that a search for Reveal finds every place that handles one.
//
// It also seals: contact data is kept under a key for each lead (Key, Seal, Open),
// that key wrapped by the workspace's (Ring), that one by the master key (Master),
// which is in a file of its own or in the environment. Deleting the wrapped key of a
// lead forgets the lead. The package reads and writes the master key's files and no
// other; whoever calls it keeps what it has wrapped and sealed. Its errors name keys
// by their ids and places, never by what is in them.
package secret

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"unicode/utf8"
)

// hidden stands where a secret would stand.
const hidden = "***"

// ErrHidden says that a text to be read as a secret is what stands for one in a
// printed text: taking it would put three stars in the place of a token.
var ErrHidden = errors.New("*** stands for a secret, it is not one: put in the secret itself")

// Secret is a text that is not to be printed. The zero value is no secret at all.
type Secret struct {
	// value is a pointer because package fmt cannot call methods on what stands in
	// an unexported field: there it prints what it finds, which is an address.
	value *string
	_     [0]func() // no ==, which would compare the addresses
}

// New returns the secret of a text; an empty one is the zero Secret.
func New(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{value: &value}
}

// Reveal returns the text itself. It belongs into a request's header and nowhere
// else.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero tells whether there is no secret.
func (s Secret) IsZero() bool { return s.value == nil }

// Last4 returns the last four characters, by which a person knows which one it is.
// A secret under twelve characters gives none: too much of it would be told.
func (s Secret) Last4() string {
	text := s.Reveal()
	n := utf8.RuneCountInString(text)
	if n < 12 {
		return ""
	}
	for range n - 4 {
		_, size := utf8.DecodeRuneInString(text)
		text = text[size:]
	}
	return text
}

// Equal tells whether both hold the same text, in a time that tells nothing about
// where they differ or how long they are.
func (s Secret) Equal(other Secret) bool {
	a, b := sha256.Sum256([]byte(s.Reveal())), sha256.Sum256([]byte(other.Reveal()))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// String returns *** for a secret and nothing for none.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return hidden
}

// GoString returns what String returns, for %#v.
func (s Secret) GoString() string { return s.String() }

// Format writes what String returns, whatever the verb: %x would give the bytes.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue returns what String returns, for slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns what String returns, for YAML, XML and the keys of JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON returns what String returns, quoted.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }

// UnmarshalText takes a text as the secret; JSON and YAML use it for theirs.
func (s *Secret) UnmarshalText(text []byte) error {
	if string(text) == hidden {
		return ErrHidden
	}
	*s = New(string(text))
	return nil
}
