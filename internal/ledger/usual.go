package ledger

import (
	"encoding/binary"
	"math"
	"slices"
)

// OutlierTimes is how many times the usual amount the guard holds.
const OutlierTimes = 20

// Price is what a purchase on a website cost, and what was bought. Nothing personal is in
// it, and what was bought is a keyed hash.
type Price struct {
	Content int64 // what was bought, by which event and in which currency
	Paid    Paid
}

// Paid is one amount that was paid for a content.
type Paid struct {
	Value float64
	Mark  uint32 // of the event_id, so that one purchase counts once
}

// Usual is what was paid for a content lately, the oldest first.
type Usual []Paid

const (
	usualKnown = 5  // purchases from which on an amount is known to be usual
	usualKept  = 15 // that are kept of each content
	paidSize   = 12 // bytes of each
)

// UsualKnownSize is how many bytes a Usual has at least that says what is usual.
const UsualKnownSize = usualKnown * paidSize

// With adds what was paid and tells whether it changed anything. What was for nothing
// teaches nothing: else a few of these would make everything usual.
func (u Usual) With(p Paid) (Usual, bool) {
	if !(p.Value > 0) || slices.ContainsFunc(u, func(q Paid) bool { return q.Mark == p.Mark }) {
		return u, false
	}
	u = append(u, p)
	return u[max(0, len(u)-usualKept):], true
}

// Outlier tells whether an amount is so far above the usual one that a person must look.
func (u Usual) Outlier(value float64) bool {
	if len(u) < usualKnown {
		return false
	}
	values := make([]float64, len(u))
	for i, p := range u {
		values[i] = p.Value
	}
	slices.Sort(values)
	return value > OutlierTimes*values[len(values)/2]
}

// Pack writes a Usual as it is kept.
func (u Usual) Pack() []byte {
	b := make([]byte, 0, len(u)*paidSize)
	for _, p := range u {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(p.Value))
		b = binary.BigEndian.AppendUint32(b, p.Mark)
	}
	return b
}

// UnpackUsual is the reverse of Pack.
func UnpackUsual(b []byte) Usual {
	u := make(Usual, 0, usualKept+1)
	for ; len(b) >= paidSize; b = b[paidSize:] {
		u = append(u, Paid{math.Float64frombits(binary.BigEndian.Uint64(b)), binary.BigEndian.Uint32(b[8:])})
	}
	return u
}
