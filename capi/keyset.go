package capi

import (
	"fmt"
	"strings"
)

// keyOrder lists the match keys; a key's place is its bit in a KeySet. The bits may
// be stored, so new keys go to the end and none is ever moved.
var keyOrder = [...]Key{
	KeyEmail, KeyPhone, KeyFirstName, KeyLastName, KeyGender, KeyBirthDate,
	KeyCity, KeyState, KeyZip, KeyCountry, KeyExternalID,
	KeyFirst5Name, KeyFirst5Last, KeyFirstInitial, KeyBirthDay, KeyBirthMonth, KeyBirthYear,
	KeyClientIPAddress, KeyClientUserAgent, KeyFBC, KeyFBP, KeySubscriptionID,
	KeyFBLoginID, KeyLeadID, KeyAnonID, KeyMADID, KeyPageID, KeyPageScopedUserID,
	KeyCTWAClid, KeyIGAccountID, KeyIGSID, KeyIGBusinessID, KeyWABusinessID, KeyAppUserID,
}

// hashedKeys is how many of keyOrder, from the start, are lists of hashes; the
// keys after them are single values that Meta's page says not to hash.
const hashedKeys = 17

// KeySet is a set of match keys, small enough to be kept with every event. It says
// which keys there are, never what they hold.
type KeySet uint64

const (
	// AllKeys holds every match key.
	AllKeys KeySet = 1<<34 - 1
	// NameKeys holds what is made of a person's name: fn, ln, f5first, f5last, fi.
	NameKeys KeySet = 1<<2 | 1<<3 | 1<<11 | 1<<12 | 1<<13
)

// Has tells whether k is in the set.
func (s KeySet) Has(k Key) bool { return s&bitOf(k) != 0 }

// Add returns the set with k; a name that is no match key changes nothing.
func (s KeySet) Add(k Key) KeySet { return s | bitOf(k) }

// String lists the keys as Meta names them, "em,ph,fbc", in a fixed order.
func (s KeySet) String() string {
	var b strings.Builder
	for i, k := range keyOrder {
		if s&(1<<i) == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(string(k))
	}
	return b.String()
}

// ParseKeySet reads what String writes; blanks around the names do not matter.
func ParseKeySet(text string) (KeySet, error) {
	var s KeySet
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if name == "" {
			continue
		}
		bit := bitOf(Key(name))
		if bit == 0 {
			return 0, fmt.Errorf("%q is no match key of Meta's", name)
		}
		s |= bit
	}
	return s, nil
}

func bitOf(k Key) KeySet {
	for i, key := range keyOrder {
		if key == k {
			return 1 << i
		}
	}
	return 0
}

// Keys tells which keys carry a value.
func (u *UserData) Keys() KeySet {
	var s KeySet
	for i, k := range keyOrder {
		if i < hashedKeys && len(*u.list(k)) > 0 || i >= hashedKeys && *u.plain(k) != "" {
			s |= 1 << i
		}
	}
	return s
}

// Keep empties every key that is not in allowed, so that a workspace can promise
// which keys leave it.
func (u *UserData) Keep(allowed KeySet) {
	for i, k := range keyOrder {
		switch {
		case allowed&(1<<i) != 0:
		case i < hashedKeys:
			*u.list(k) = nil
		default:
			*u.plain(k) = ""
		}
	}
}
