package capitest

import (
	"encoding/binary"
	"hash/maphash"
	"time"
)

// Page "Deduplicate Pixel and server events", "Offline events", "App events".
const (
	window        = int64(48 * time.Hour)
	windowOffline = int64(7 * 24 * time.Hour)
	windowInstall = int64(90 * 24 * time.Hour)
	browserFavour = int64(5 * time.Minute)
)

// key is 128 bits of hash: for a few million keys a collision is out of the question.
type key [2]uint64

// seen is what is known about one key.
type seen struct {
	at      int64  // first receipt, nanoseconds; a window begins here
	seq     uint64 // the event that counts
	times   uint32 // how often the key arrived, whatever became of it
	browser bool   // the event that counts came from the Pixel
}

// dedup recognises repeats. It is guarded by Graph.mu.
type dedup struct {
	seed1, seed2 maphash.Seed
	buf          []byte
	ids          map[key]seen // dataset, event_name, event_id
	people       map[key]seen // dataset, event_name, fbp or external_id; from the Pixel only
	other        map[key]seen // offline events, installs
	keepRepeats  bool
}

func newDedup(keepRepeats bool) dedup {
	return dedup{
		seed1: maphash.MakeSeed(), seed2: maphash.MakeSeed(), keepRepeats: keepRepeats,
		ids: map[key]seen{}, people: map[key]seen{}, other: map[key]seen{},
	}
}

// hash makes a key of its parts. The lengths go in too: "ab","c" is not "a","bc".
func (d *dedup) hash(kind byte, parts ...string) key {
	d.buf = append(d.buf[:0], kind)
	for _, p := range parts {
		d.buf = binary.AppendVarint(d.buf, int64(len(p)))
		d.buf = append(d.buf, p...)
	}
	return key{maphash.Bytes(d.seed1, d.buf), maphash.Bytes(d.seed2, d.buf)}
}

// arrival is what deduplication looks at.
type arrival struct {
	dataset, name, id  string
	source             string
	fbp, externalID    string
	time               string // event_time as text
	order, item        string
	user               string // user_data as it came
	device             string
	at                 int64
	seq                uint64
	browser, discarded bool
}

// verdict is what becomes of an arrival. If loser is not 0, that earlier event is
// dropped in favour of this one.
type verdict struct {
	reason reason
	dup    uint64
	loser  uint64
}

func (d *dedup) judge(a *arrival) verdict {
	// The ledger counts every arrival, also those that are not deduplicated by it.
	var entry seen
	var k key
	if a.id != "" {
		k = d.hash('a', a.dataset, a.name, a.id)
		entry = d.ids[k]
		entry.times++
	}
	v := verdict{reason: reasonKept}
	switch {
	case a.discarded:
		v.reason = reasonBeforeLead
	case a.source == "business_messaging":
		v.reason = reasonMessaging
	case a.source == "physical_store":
		v = d.once(d.offlineKey(a), a, windowOffline, reasonOffline)
	case a.source == "app" && a.name == "MobileAppInstall" && a.device != "":
		v = d.once(d.hash('m', a.dataset, a.device), a, windowInstall, reasonInstall)
	default:
		v = d.online(a, &entry)
	}
	if a.id != "" {
		d.ids[k] = entry
	}
	return v
}

// online applies the two keys of web events: the event id, and, where there is
// none on one side, the person.
func (d *dedup) online(a *arrival, e *seen) verdict {
	fresh := e.seq == 0 || a.at-e.at >= window
	if a.id != "" && !fresh {
		switch {
		case a.browser && !e.browser && a.at-e.at <= browserFavour:
			loser := e.seq
			e.seq, e.browser = a.seq, true
			d.remember(a)
			return verdict{reason: reasonKept, loser: loser}
		case e.browser && !a.browser:
			return verdict{reason: reasonBrowserFirst, dup: e.seq}
		case !e.browser && !a.browser && d.keepRepeats:
			return verdict{reason: reasonKept}
		}
		return verdict{reason: reasonRepeat, dup: e.seq}
	}
	if !a.browser {
		for _, k := range d.personKeys(a) {
			if p, ok := d.people[k]; ok && a.at-p.at < window && (a.id == "" || p.times == 0) {
				return verdict{reason: reasonUserKeys, dup: p.seq}
			}
		}
	}
	if a.id != "" {
		e.at, e.seq, e.browser = a.at, a.seq, a.browser
	}
	d.remember(a)
	return verdict{reason: reasonKept}
}

func (d *dedup) personKeys(a *arrival) []key {
	var keys []key
	if a.fbp != "" {
		keys = append(keys, d.hash('p', a.dataset, a.name, a.fbp))
	}
	if a.externalID != "" {
		keys = append(keys, d.hash('x', a.dataset, a.name, a.externalID))
	}
	return keys
}

// remember notes whom the Pixel reported. times says whether it gave an event_id:
// two events with ids that differ are two events, whoever the person is.
func (d *dedup) remember(a *arrival) {
	if !a.browser {
		return
	}
	p := seen{at: a.at, seq: a.seq, browser: true}
	if a.id != "" {
		p.times = 1
	}
	for _, k := range d.personKeys(a) {
		d.people[k] = p
	}
}

func (d *dedup) once(k key, a *arrival, w int64, why reason) verdict {
	if e, ok := d.other[k]; ok && a.at-e.at < w {
		return verdict{reason: why, dup: e.seq}
	}
	d.other[k] = seen{at: a.at, seq: a.seq}
	return verdict{reason: reasonKept}
}

func (d *dedup) offlineKey(a *arrival) key {
	if a.order == "" && a.item == "" {
		return d.hash('u', a.dataset, a.time, a.name, a.user)
	}
	return d.hash('o', a.dataset, a.time, a.name, a.item, a.order)
}
