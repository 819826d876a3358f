package ledger

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/capiloop/capiloop/capi"
)

// Fingerprints recognise a person without keeping anything about them: they are keyed
// hashes, and the key is the installation's. 0 stands for nobody.
type Fingerprints struct{ key []byte }

// NewFingerprints returns those of a key.
func NewFingerprints(key []byte) Fingerprints { return Fingerprints{key} }

// personKeys are the match keys by which a person is told from another, and how many bits
// of a fingerprint say which of them it is of.
var personKeys = []capi.Key{capi.KeyEmail, capi.KeyPhone, capi.KeyExternalID, capi.KeyLeadID, capi.KeyFBP, capi.KeyFBC}

const personBits = 3

// Person is the fingerprint of a person by the strongest match key of an event, as a
// platform encodes it. It tells by which key it is, too: of two copies of one event one
// may know the e-mail and the other the browser.
func (f Fingerprints) Person(key capi.Key, value []byte) int64 {
	if len(value) == 0 {
		return 0
	}
	return f.hash(value)&^(1<<personBits-1) | int64(slices.Index(personKeys, key)+1)
}

// OtherPerson tells whether two events are of different people, as far as their
// fingerprints tell.
func OtherPerson(a, b int64) bool {
	const by = 1<<personBits - 1
	return a != 0 && b != 0 && a&by == b&by && a != b
}

func (f Fingerprints) hash(value []byte) int64 {
	h := hmac.New(sha256.New, f.key)
	h.Write(value)
	return int64(binary.BigEndian.Uint64(h.Sum(nil)) >> 1)
}

// FBP is the fingerprint of a browser by its cookie _fbp, as it stands in a payload. An
// appendix of Meta's parameter builder does not count: one copy of an event may have it,
// and the other not.
func (f Fingerprints) FBP(cookie string) int64 {
	if parts := strings.SplitN(cookie, ".", 5); len(parts) == 5 {
		cookie = strings.Join(parts[:4], ".")
	}
	return f.of("fbp", cookie)
}

// External is the fingerprint of an external_id as it stands in a payload: hashed.
func (f Fingerprints) External(hash string) int64 {
	return f.of("external_id", strings.ToLower(hash[:min(len(hash), 2*sha256.Size)]))
}

// Visitor is the fingerprint of a browser by its address and agent.
func (f Fingerprints) Visitor(address, agent string) int64 {
	if address == "" {
		return 0
	}
	return f.of("visitor", address+"\x00"+agent)
}

// Content is the fingerprint of what a workspace sells.
func (f Fingerprints) Content(ws int64, event, currency, content string) int64 {
	return f.of("content", strings.Join([]string{strconv.FormatInt(ws, 10), event, currency, content}, "\x00"))
}

// Mark tells the events of a content apart.
func (f Fingerprints) Mark(eventID string) uint32 {
	return uint32(f.of("mark", eventID) >> 16) //nolint:gosec // some bits are enough
}

// of keeps the kinds of values apart.
func (f Fingerprints) of(kind, value string) int64 {
	if value == "" {
		return 0
	}
	return f.hash([]byte(kind + "\x00" + value))
}
