package ledger

import (
	"encoding/base32"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"time"
)

// ID names a row of ours: 63 bits, led by the time it was made, so that new rows
// land at the end of every index. From the high bit down: 41 bits of milliseconds
// since 2020, 7 bits of node, 9 bits of sequence, 6 bits of slot.
//
// The deliveries of an event have the event's id plus 1, 2, 3 …, which is why an
// event goes to at most MaxDeliveries destinations.
type ID int64

// MaxDeliveries is how many destinations one event can have.
const MaxDeliveries = 1<<slotBits - 1

const (
	slotBits = 6
	seqBits  = 9
	nodeBits = 7

	// MaxNodes is how many nodes can make ids side by side.
	MaxNodes = 1 << nodeBits
)

var epoch = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

var idText = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// String writes the id as thirteen letters and digits (Crockford's base 32, which
// has no letters that look alike); texts sort like ids.
func (id ID) String() string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(id)) //nolint:gosec // ids are never negative
	return idText.EncodeToString(b[:])
}

// ErrBadID says that a text is not an id of ours.
var ErrBadID = errors.New("not an id: want thirteen letters and digits, as an answer of this server gave it")

// ParseID reads what String wrote.
func ParseID(s string) (ID, error) {
	b, err := idText.DecodeString(strings.ToLower(s))
	if err != nil || len(b) != 8 || b[0] > 127 {
		return 0, ErrBadID
	}
	id := ID(binary.BigEndian.Uint64(b)) //nolint:gosec // the first bit was checked
	if id.String() != strings.ToLower(s) {
		return 0, ErrBadID
	}
	return id, nil
}

// Time returns when the id was made, to the millisecond.
func (id ID) Time() time.Time {
	return epoch.Add(time.Duration(id>>(nodeBits+seqBits+slotBits)) * time.Millisecond)
}

// Event returns the id of the event whose delivery this is.
func (id ID) Event() ID { return id &^ (1<<slotBits - 1) }

// Delivery returns the id of an event's n-th delivery, counted from 1.
func (id ID) Delivery(n int) ID { return id.Event() + ID(n) }

// IDAt returns the smallest id made at t or later, for ranges.
func IDAt(t time.Time) ID {
	ms := max(t.Sub(epoch).Milliseconds(), 0)
	return ID(ms) << (nodeBits + seqBits + slotBits)
}

// IDs makes ids. Two makers with different nodes never make the same one; the
// store gives each start of a process its own node.
type IDs struct {
	now  func() time.Time
	node int64

	mu   sync.Mutex
	last int64 // milliseconds and sequence of the last id
}

// NewIDs returns a maker of ids for a node from 0 to MaxNodes-1.
func NewIDs(node int, now func() time.Time) *IDs {
	return &IDs{now: now, node: int64(node) % MaxNodes}
}

// Next returns a new event's id, larger than every one before it, also when the
// clock stands still or goes back.
func (g *IDs) Next() ID {
	t := max(g.now().Sub(epoch).Milliseconds(), 1) << seqBits
	g.mu.Lock()
	if t <= g.last {
		t = g.last + 1
	}
	g.last = t
	g.mu.Unlock()
	ms, seq := t>>seqBits, t&(1<<seqBits-1)
	return ID(((ms<<nodeBits|g.node)<<seqBits | seq) << slotBits)
}
