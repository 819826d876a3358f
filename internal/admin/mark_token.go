package admin

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

// markToken is what a one-tap link says: which lead, by which connection, and when the
// message with it went out. Nothing in it tells who the lead is.
type markToken struct {
	workspace, crm int64
	lead           ledger.ID
	issued         time.Time
}

const (
	markVersion = 1
	markTag     = 16 // bytes: what the ring's keyed hash has
)

// MarkToken returns the secret part of a link by which a lead can be marked.
func MarkToken(ring *secret.Ring, workspace, crm int64, lead ledger.ID, issued time.Time) string {
	b := []byte{markVersion}
	for _, n := range []int64{workspace, crm, int64(lead), issued.Unix()} {
		b = binary.AppendVarint(b, n)
	}
	return base64.RawURLEncoding.EncodeToString(append(b, tagOf(ring, b)...))
}

func tagOf(ring *secret.Ring, said []byte) []byte { return ring.Index("mark link", string(said)) }

// readMark reads a token. It is ours only if the workspace that it names has signed it.
func readMark(s *config.Snapshot, text string) (t markToken, w *config.Workspace, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) <= 1+markTag || b[0] != markVersion {
		return t, nil, false
	}
	said, tag := b[:len(b)-markTag], b[len(b)-markTag:]
	rest := said[1:]
	var numbers [4]int64
	for i := range numbers {
		n, size := binary.Varint(rest)
		if size <= 0 {
			return t, nil, false
		}
		numbers[i], rest = n, rest[size:]
	}
	if len(rest) > 0 {
		return t, nil, false
	}
	w = s.WorkspaceByID(numbers[0])
	if w == nil || w.Ring == nil || subtle.ConstantTimeCompare(tag, tagOf(w.Ring, said)) != 1 {
		return t, nil, false
	}
	return markToken{numbers[0], numbers[1], ledger.ID(numbers[2]), time.Unix(numbers[3], 0).UTC()}, w, true
}
