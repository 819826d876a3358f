package ledger

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"
)

// Fingerprints recognise a person without keeping anything about them: they are keyed
// hashes, and the key is the installation's. 0 stands for nobody.
type Fingerprints struct{ key []byte }

// NewFingerprints returns those of a key.
func NewFingerprints(key []byte) Fingerprints { return Fingerprints{key} }

// Person is the fingerprint of the strongest match key of an event, as a platform
// encodes it.
func (f Fingerprints) Person(key []byte) int64 {
	if len(key) == 0 {
		return 0
	}
	h := hmac.New(sha256.New, f.key)
	h.Write(key)
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
	return f.Person([]byte(kind + "\x00" + value))
}
