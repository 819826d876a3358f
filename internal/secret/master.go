package secret

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

const (
	// EnvMaster is the environment variable that gives the master key in place of
	// the file: 32 bytes as base64 or as hexadecimal digits.
	EnvMaster = "CAPILOOP_MASTER_KEY"

	// EnvMasterNext gives the master key to rotate to, where EnvMaster gives the one
	// in use: the program cannot write its own environment.
	EnvMasterNext = "CAPILOOP_MASTER_KEY_NEXT"
)

var (
	// ErrOtherMaster says that the database needs a master key that is not here. A
	// node that did not run the rotation gets it too: it loads the master key again.
	ErrOtherMaster = errors.New("this database was sealed with another master key")

	// ErrRotating says that a rotation cannot end yet, for some keys are still
	// wrapped by the old master key: run it again from the start, which is safe.
	ErrRotating = errors.New("some keys are still wrapped by the old master key; run the rotation again")

	// ErrNoNext says that there is no master key to rotate to.
	ErrNoNext = errors.New("no new master key")
)

// Master is the master key: the one thing that must be kept apart from the database
// and its backups, and without which no lead in them can be read. It wraps the keys
// of workspaces and nothing else. It is safe for concurrent use.
//
// # Rotation
//
// A rotation has three phases. Whatever ends the program between or in them, each
// key in the database can be opened at the next start, and the rotation can be run
// again from the start.
//
//  1. BeginRotation puts the new key on the disk, beside the old one, as PATH.next.
//     The database knows only the old one.
//  2. The caller, in one transaction, reads the keys of all workspaces, passes them
//     to Rewrap and writes what it returns. Before the commit the database needs the
//     old key, after it the new one, and both are on the disk.
//  3. FinishRotation copies the old key to PATH.ID and renames PATH.next to PATH. The
//     copy is for a backup of the database from before: delete it along with the
//     last of these.
//
// At start, Settle compares the key ids in the database with those on the disk. If
// the database is through phase 2 it does phase 3. If not, the old key stays in use
// and PATH.next stays where it is, for another process may be in phase 2 at this
// moment; the next rotation takes it up.
//
// A workspace's key that was wrapped by the old master key must not be stored after
// phase 2. So whoever stores one does it in a transaction that finds the stored ones
// to be wrapped by the same master key (WrappedBy), and otherwise starts over.
//
// With the key in EnvMaster the new one comes from EnvMasterNext, given to all nodes
// before the rotation; afterwards it takes the place of the old one there. The new
// key may be there also where the old one is in a file, to leave the file.
type Master struct {
	mu       sync.RWMutex
	path     string // where the file is or would be
	from     string // where the key came from: path or EnvMaster
	nextFrom string // and the next one; "" is none
	key      Key
	next     Key
	made     bool
}

// LoadMaster reads the master key from the environment, or else from the file at
// path; at first start, when there is neither, it makes the file. It refuses a file
// that others can read or that does not hold a whole key, and never replaces one.
// Follow it with Settle before anything is opened.
func LoadMaster(path string, env func(string) (string, bool)) (*Master, error) {
	m := &Master{path: path, from: path}
	if err := m.loadNext(env); err != nil {
		return nil, err
	}
	var err error
	if text, ok := env(EnvMaster); ok {
		m.from = EnvMaster
		m.key, err = parseKey(EnvMaster, text)
	} else {
		m.key, m.made, err = readOrMake(path, m.nextFrom == path+nextSuffix)
	}
	if err != nil {
		return nil, err
	}
	if m.next.ID() == m.key.ID() {
		m.next, m.nextFrom = Key{}, "" // it has taken its place
	}
	return m, nil
}

func (m *Master) loadNext(env func(string) (string, bool)) error {
	var err error
	if text, ok := env(EnvMasterNext); ok {
		if _, statErr := os.Stat(m.path + nextSuffix); statErr == nil {
			return fmt.Errorf("master key: a rotation to %s was begun: end it before one to %s", m.path+nextSuffix, EnvMasterNext)
		}
		m.nextFrom = EnvMasterNext
		m.next, err = parseKey(EnvMasterNext, text)
		return err
	}
	if _, ok := env(EnvMaster); ok {
		return nil // the file and what is beside it are out of use
	}
	key, err := readKeyFile(m.path + nextSuffix)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	m.next, m.nextFrom = key, m.path+nextSuffix
	return nil
}

// ID names the master key in use.
func (m *Master) ID() KeyID {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.key.ID()
}

// From tells where the key is: the path of its file, or the name of the variable.
func (m *Master) From() string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.from
}

// Made tells whether this start made the file. Then a person is to be told to keep a
// copy of it somewhere else, and a database that is not new belongs to another key.
func (m *Master) Made() bool { return m.made }

// Rotating tells whether a rotation was begun and has not ended, which a person
// should know: one that broke off is ended by running it again.
func (m *Master) Rotating() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return !m.next.IsZero()
}

// NewRing makes the keys of a new workspace and the rows to keep of them.
func (m *Master) NewRing(workspace int64) (*Ring, []WrappedKey) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return newRing(m.key, workspace)
}

// OpenRing reads the keys of a workspace from its rows, in any order. The error is
// ErrOtherMaster if they need a master key that is not here, and ErrSealed or
// ErrFormat if they were changed.
func (m *Master) OpenRing(workspace int64, rows []WrappedKey) (*Ring, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return openRing(workspace, rows, m.unwrap)
}

// NextRing makes a new key for the leads of a workspace and the row to add; the rows
// there are stay. New leads are wrapped by it from then on, old ones by
// Ring.RewrapLead in the background. A row of an older generation that no lead needs
// any more may be deleted.
func (m *Master) NextRing(ring *Ring) (*Ring, WrappedKey) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return ring.next(m.key)
}

// unwrap opens a row with the master key it needs, which may be the next one.
func (m *Master) unwrap(row WrappedKey) (Key, error) {
	id, err := WrappedBy(row.Wrapped)
	if err != nil {
		return Key{}, err
	}
	switch {
	case id == m.key.ID():
		return Unwrap(m.key, row.Wrapped, row.place())
	case id == m.next.ID() && !m.next.IsZero():
		return Unwrap(m.next, row.Wrapped, row.place())
	}
	return Key{}, m.otherMaster(id)
}

// otherMaster says which key is needed, which are here, and what to do.
func (m *Master) otherMaster(needs KeyID) error {
	kept := keptPath(m.path, needs)
	advice := fmt.Sprintf("put the key that this database was made with into %s, or restore the database that belongs to this key", m.from)
	if _, err := os.Stat(kept); err == nil {
		advice = fmt.Sprintf("it was rotated away and is still in %s: put it into %s, then rotate again", kept, m.from)
	}
	return fmt.Errorf("%w: it needs %s, and %s has %s; %s", ErrOtherMaster, needs, m.from, m.key.ID(), advice)
}

// Settle compares the master key with those that the keys in the database are
// wrapped by (WrappedBy of each row, each id once; none in a new database). It is
// called at start, before anything is opened. If the database went through a
// rotation that was cut off, it ends that. The error is ErrOtherMaster if a key is
// needed that is not here.
func (m *Master) Settle(used ...KeyID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	rotated := !m.next.IsZero() && len(used) > 0
	for _, id := range used {
		isNext := !m.next.IsZero() && id == m.next.ID()
		if !isNext && id != m.key.ID() {
			return m.otherMaster(id)
		}
		rotated = rotated && isNext
	}
	if !rotated {
		return nil
	}
	return m.promote()
}

// BeginRotation is phase 1: it sees to it that there is a new master key where the
// next start will find it. If a rotation was cut off it takes up the key of that
// one. The error is ErrNoNext if the key comes from the environment and EnvMasterNext
// is not set.
func (m *Master) BeginRotation() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !m.next.IsZero():
		return nil
	case m.from == EnvMaster:
		return fmt.Errorf("%w: the old one is in %s, so put a new one (openssl rand -base64 32) into %s, on every node, restart them, and rotate then",
			ErrNoNext, EnvMaster, EnvMasterNext)
	}
	next, _, err := makeKeyFile(m.path + nextSuffix)
	if err != nil {
		return err
	}
	m.next, m.nextFrom = next, m.path+nextSuffix
	return nil
}

// Rewrap is phase 2: it returns the rows, of any number of workspaces, wrapped by the
// new master key; those that are already stay as they are. It changes nothing: the
// caller writes them, all in one transaction.
func (m *Master) Rewrap(rows []WrappedKey) ([]WrappedKey, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.next.IsZero() {
		return nil, fmt.Errorf("%w: the rotation was not begun", ErrNoNext)
	}
	out := make([]WrappedKey, len(rows))
	for i, row := range rows {
		key, err := m.unwrap(row)
		if err != nil {
			return nil, fmt.Errorf("key %d of workspace %d for %s: %w", row.Generation, row.Workspace, row.Use, err)
		}
		out[i] = row
		if id, _ := WrappedBy(row.Wrapped); id != m.next.ID() {
			out[i].Wrapped = Wrap(m.next, key, row.place())
		}
	}
	return out, nil
}

// FinishRotation is phase 3: it puts the new master key in the place of the old one,
// given what Settle is given, read after the commit of phase 2. The error is
// ErrRotating if the old one is still needed.
func (m *Master) FinishRotation(used ...KeyID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range used {
		switch {
		case !m.next.IsZero() && id == m.next.ID(), m.next.IsZero() && id == m.key.ID():
		case id == m.key.ID():
			return ErrRotating
		default:
			return m.otherMaster(id)
		}
	}
	if m.next.IsZero() {
		return nil // it has ended
	}
	return m.promote()
}

// promote makes the next key the key, on the disk first.
func (m *Master) promote() error {
	if m.nextFrom == m.path+nextSuffix {
		if err := promoteKeyFile(m.path, m.key, m.next); err != nil {
			return err
		}
	} else {
		m.from = EnvMaster // where a person is to put it now
	}
	m.key, m.next, m.nextFrom = m.next, Key{}, ""
	return nil
}

// String shows nothing of the key.
func (m *Master) String() string { return hidden }

// GoString shows the same as String.
func (m *Master) GoString() string { return hidden }
