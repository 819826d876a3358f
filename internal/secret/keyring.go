package secret

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
)

// ErrUnknownKey says that a key was wrapped by one of the workspace's that this ring
// does not have. Another node may have made it since the ring was read: read it
// again, once, before believing that something is wrong.
var ErrUnknownKey = fmt.Errorf("the ring lacks the key: %w", ErrOtherKey)

// Use says what a key of a workspace is for.
type Use string

// The uses of a workspace's keys.
const (
	UseLeads Use = "leads" // wraps the keys of leads and of whatever else has one
	UseIndex Use = "index" // hashes what leads are looked up by; there is one, for ever
)

// WrappedKey is a key of a workspace as the database keeps it: a row with the primary
// key (Workspace, Use, Generation), so that two nodes cannot both make the next one.
type WrappedKey struct {
	Workspace  int64
	Use        Use
	Generation int64 // 1, 2, 3 …; the highest is the one in use
	Wrapped    []byte
}

// place binds a row to all that its primary key says.
func (w WrappedKey) place() []byte { return Place("key/"+string(w.Use), w.Workspace, w.Generation) }

// Ring has the keys of one workspace: the one that wraps now, those before it, and
// the one of the index. It does not change and is safe for concurrent use.
//
// Every lead has a key of its own, which exists only as the ring has wrapped it: who
// deletes that forgets the lead, in every table at once and in all that is sealed
// with the key. A background job that wraps the keys of leads anew must therefore
// replace a wrapped key only where it still stands as it was read (UPDATE … WHERE
// wrapped = the old one), lest it bring back a lead that was erased meanwhile.
type Ring struct {
	workspace  int64
	generation int64
	current    Key
	keys       map[KeyID]Key // the current one too
	index      Key           // as it was stored, to carry it into the next ring
	hash       []byte        // what Index hashes with
}

// newRing makes the keys of a workspace, wrapped by a master key.
func newRing(master Key, workspace int64) (*Ring, []WrappedKey) {
	leads := WrappedKey{Workspace: workspace, Use: UseLeads, Generation: 1}
	index := WrappedKey{Workspace: workspace, Use: UseIndex, Generation: 1}
	key, indexKey := NewKey(), NewKey()
	leads.Wrapped = Wrap(master, key, leads.place())
	index.Wrapped = Wrap(master, indexKey, index.place())
	ring := &Ring{workspace: workspace, keys: map[KeyID]Key{}}
	ring.take(leads, key)
	ring.take(index, indexKey)
	return ring, []WrappedKey{leads, index}
}

// openRing reads a ring; unwrap knows the master keys.
func openRing(workspace int64, rows []WrappedKey, unwrap func(WrappedKey) (Key, error)) (*Ring, error) {
	ring := &Ring{workspace: workspace, keys: map[KeyID]Key{}}
	for _, row := range rows {
		if row.Workspace != workspace {
			return nil, fmt.Errorf("keys of workspace %d: a row of workspace %d is among them", workspace, row.Workspace)
		}
		if row.Use != UseLeads && (row.Use != UseIndex || !ring.index.IsZero()) {
			return nil, fmt.Errorf("keys of workspace %d: %q has one too many, or is not known", workspace, row.Use)
		}
		key, err := unwrap(row)
		if err != nil {
			return nil, fmt.Errorf("key %d of workspace %d for %s: %w", row.Generation, workspace, row.Use, err)
		}
		ring.take(row, key)
	}
	if ring.current.IsZero() || ring.index.IsZero() {
		return nil, fmt.Errorf("keys of workspace %d: %w", workspace, errKeysMissing)
	}
	return ring, nil
}

var errKeysMissing = errors.New("there is none for leads or none for the index")

// take adds a key to a ring that is being made.
func (r *Ring) take(row WrappedKey, key Key) {
	if row.Use == UseIndex {
		r.index, r.hash = key, hashKey(key)
		return
	}
	r.keys[key.ID()] = key
	if row.Generation > r.generation {
		r.generation, r.current = row.Generation, key
	}
}

// next returns a ring with one more key, which is then the one that wraps.
func (r *Ring) next(master Key) (*Ring, WrappedKey) {
	row := WrappedKey{Workspace: r.workspace, Use: UseLeads, Generation: r.generation + 1}
	key := NewKey()
	row.Wrapped = Wrap(master, key, row.place())
	ring := &Ring{
		workspace: r.workspace, generation: r.generation,
		keys: map[KeyID]Key{key.ID(): key}, index: r.index, hash: r.hash,
	}
	maps.Copy(ring.keys, r.keys)
	ring.take(row, key)
	return ring, row
}

// Workspace returns whose ring it is.
func (r *Ring) Workspace() int64 { return r.workspace }

// Current names the key that wraps now. Whatever is wrapped by another one is what
// the background job of a rotation has yet to rewrap.
func (r *Ring) Current() KeyID { return r.current.ID() }

// WrapLead makes the key of a new lead. Wrapped is what the database keeps, and all
// there is: the key itself lives as long as the request.
func (r *Ring) WrapLead(lead int64) (wrapped []byte, key Key) { return r.Wrap(r.lead(lead)) }

// OpenLead returns the key of a lead. Its error is ErrUnknownKey, ErrSealed or
// ErrFormat.
func (r *Ring) OpenLead(lead int64, wrapped []byte) (Key, error) {
	return r.Unwrap(r.lead(lead), wrapped)
}

// RewrapLead returns the key of a lead wrapped by the current key of the workspace,
// or the same bytes if it is already. What the lead's key has sealed stays as it is.
func (r *Ring) RewrapLead(lead int64, wrapped []byte) ([]byte, error) {
	return r.Rewrap(r.lead(lead), wrapped)
}

// SealLead makes the key of a new lead and seals the lead itself with it, at the same
// place; both results are for the database. Whatever else is sealed with the key of a
// lead has a Place of its own kind.
func (r *Ring) SealLead(lead int64, plain []byte) (wrapped, sealed []byte) {
	wrapped, key := r.WrapLead(lead)
	return wrapped, Seal(key, r.lead(lead), plain)
}

// ReSealLead seals the lead anew with the key that it has.
func (r *Ring) ReSealLead(lead int64, key Key, plain []byte) []byte {
	return Seal(key, r.lead(lead), plain)
}

// ReadLead returns what SealLead has sealed, also when it was sealed anew with the
// same key. Its error is that of OpenLead or of Open.
func (r *Ring) ReadLead(lead int64, wrapped, sealed []byte) ([]byte, error) {
	key, err := r.OpenLead(lead, wrapped)
	if err != nil {
		return nil, err
	}
	return Open(key, r.lead(lead), sealed)
}

func (r *Ring) lead(id int64) []byte { return Place("lead", r.workspace, id) }

// Wrap makes a key for something that is no lead but is kept like one, such as a
// notice whose lead is not known yet or a token typed into a page. The place names
// the workspace, as Place says.
func (r *Ring) Wrap(place []byte) (wrapped []byte, key Key) {
	key = NewKey()
	return Wrap(r.current, key, place), key
}

// Unwrap is OpenLead for what Wrap made.
func (r *Ring) Unwrap(place, wrapped []byte) (Key, error) {
	id, err := WrappedBy(wrapped)
	if err != nil {
		return Key{}, err
	}
	parent, ok := r.keys[id]
	if !ok {
		return Key{}, fmt.Errorf("%w (it needs %s)", ErrUnknownKey, id)
	}
	return Unwrap(parent, wrapped, place)
}

// Rewrap is RewrapLead for what Wrap made.
func (r *Ring) Rewrap(place, wrapped []byte) ([]byte, error) {
	key, err := r.Unwrap(place, wrapped)
	if err != nil {
		return nil, err
	}
	if id, _ := WrappedBy(wrapped); id == r.current.ID() {
		return wrapped, nil
	}
	return Wrap(r.current, key, place), nil
}

// indexSize is how many bytes of the hash are kept: two of ten million values share
// one with a probability under 2⁻⁸¹.
const indexSize = 16

// Index returns what stands in the database for a value that leads are found by: an
// e-mail, a phone number, a platform's id, each already normalised. It is a keyed
// hash, for without the key the hash of a phone number is undone by hashing all of
// them. The same value has another hash for another kind and in another workspace.
// An empty value has none (nil): otherwise all leads without an e-mail would be one.
//
// Its key does not change when the workspace's key does. A hash cannot be made anew
// without the value, and the values of erased or merged leads, and of people of whom
// only the hash was ever kept, are not there any more: after a change their
// withdrawals and duplicates would no longer be recognised. So rotation renews how
// the index's key is wrapped, never the key.
func (r *Ring) Index(kind, value string) []byte {
	if value == "" {
		return nil
	}
	mac := hmac.New(sha256.New, r.hash)
	_, _ = mac.Write(binary.AppendUvarint(nil, uint64(len(kind)))) // kind and value cannot run into each other
	_, _ = mac.Write([]byte(kind))
	_, _ = mac.Write([]byte(value))
	return mac.Sum(nil)[:indexSize]
}

// hashKey derives what Index hashes with, so that the stored key can serve another
// purpose one day without the two meeting.
func hashKey(index Key) []byte {
	key, err := hkdf.Key(sha256.New, index.key.bytes[:], nil, "capiloop index 1", KeySize)
	if err != nil {
		panic(err) // the length is right
	}
	return key
}

// String shows nothing of the keys.
func (r *Ring) String() string { return hidden }

// GoString shows the same as String.
func (r *Ring) GoString() string { return hidden }
