package capitest

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// event is one element of data, as slices of the request's body. Nothing in it may
// outlive the request.
type event struct {
	raw                       []byte
	name, id, source, channel []byte
	url, timeRaw              []byte
	time                      int64

	user       []byte // user_data, raw
	keys       keySet // the match keys that hold something
	unhashed   string // the first key whose value is no hash, and of what sort
	md5        string
	upper      bool
	leadRaw    []byte
	lead       int64
	fbp        []byte
	externalID []byte
	device     []byte // anon_id, else madid

	value, currency         []byte
	order, item             []byte
	eventSource, leadSource []byte
	extinfo                 []byte
	hasTracking             bool
	warnings                warningSet
	kindBroken              string // a field whose JSON type is wrong
}

// keySet is a set of match keys, one bit for each of matchKeys.
type keySet uint64

// matchKeys are the keys of user_data; page "Customer information parameters", the
// messaging keys from "Business messaging", the last from Meta's SDKs. The first
// hashed ones must be SHA-256.
var matchKeys = []string{
	"em", "ph", "fn", "ln", "ge", "db", "ct", "st", "zp", "country",
	"f5first", "f5last", "fi", "dobd", "dobm", "doby",
	"external_id", "client_ip_address", "client_user_agent", "fbc", "fbp", "subscription_id", "fb_login_id", "lead_id",
	"anon_id", "madid", "page_id", "page_scoped_user_id", "ctwa_clid", "ig_account_id", "ig_sid",
	"instagram_business_account_id", "whatsapp_business_account_id", "app_user_id",
}

const hashedKeys = 16 // the number of keys at the head of matchKeys that must be hashed

var keyIndex = func() map[string]int {
	m := make(map[string]int, len(matchKeys))
	for i, k := range matchKeys {
		m[k] = i
	}
	return m
}()

func keysOf(names ...string) keySet {
	var s keySet
	for _, n := range names {
		s |= 1 << keyIndex[n]
	}
	return s
}

func (s keySet) has(name string) bool { return s&(1<<keyIndex[name]) != 0 }

// names lists the keys in the order of matchKeys.
func (s keySet) names() []string {
	names := []string{}
	for i, k := range matchKeys {
		if s&(1<<i) != 0 {
			names = append(names, k)
		}
	}
	return names
}

// readEvent takes an element of data apart. An element may be JSON text once more,
// as Meta's Python and Ruby SDKs send it.
func readEvent(raw []byte) (event, bool) {
	if isString(raw) {
		raw = bytes.TrimSpace(text(raw))
		if !json.Valid(raw) {
			return event{}, false
		}
	}
	if !isObject(raw) {
		return event{}, false
	}
	e := event{raw: raw}
	eachMember(raw, func(name, v []byte) {
		switch string(name) {
		case "event_name":
			e.name = e.str("event_name", v)
		case "event_time":
			e.timeRaw = v
		case "event_id":
			e.id = text(v)
		case "action_source":
			e.source = e.str("action_source", v)
		case "event_source_url":
			e.url = e.str("event_source_url", v)
		case "messaging_channel":
			e.channel = e.str("messaging_channel", v)
		case "user_data":
			e.user = v
		case "custom_data":
			e.readCustom(v)
		case "app_data":
			eachMember(v, func(name, v []byte) {
				switch string(name) {
				case "extinfo":
					e.extinfo = v
				case "advertiser_tracking_enabled":
					e.hasTracking = !isNull(v)
				}
			})
		}
	})
	eachMember(e.user, e.readKey)
	return e, true
}

// str returns the text of a member that has to be a string.
func (e *event) str(name string, v []byte) []byte {
	if !isString(v) && !isNull(v) {
		e.kindBroken = name
	}
	return text(v)
}

func (e *event) readCustom(v []byte) {
	if !isObject(v) && !isNull(v) && (!isArray(v) || len(v) != 2) { // PHP writes an empty object as []
		e.kindBroken = "custom_data"
	}
	eachMember(v, func(name, v []byte) {
		switch string(name) {
		case "value":
			e.value = text(v)
		case "currency":
			e.currency = text(v)
		case "order_id":
			e.order = text(v)
		case "item_number":
			e.item = text(v)
		case "event_source":
			e.eventSource = text(v)
		case "lead_event_source":
			e.leadSource = text(v)
		}
	})
}

// readKey notes one match key and judges whether its values are hashes.
func (e *event) readKey(name, v []byte) {
	i, ok := keyIndex[string(name)]
	if !ok {
		e.warnings |= warnUnknownKey
		return
	}
	if isNull(v) || isArray(v) && skipSpace(v, 1) == len(v)-1 {
		return
	}
	first := text(v)
	if isArray(v) {
		eachElement(v, func(el []byte) bool {
			if first == nil {
				first = text(el)
			}
			e.judgeHash(i, el)
			return true
		})
	} else {
		e.judgeHash(i, v)
	}
	if len(bytes.TrimSpace(first)) == 0 && i >= hashedKeys {
		return // an empty text identifies nobody
	}
	e.keys |= 1 << i
	switch string(name) {
	case "lead_id":
		e.leadRaw = first
	case "fbp":
		e.fbp = first
	case "external_id":
		e.externalID = first
	case "anon_id":
		e.device = first
	case "madid":
		if e.device == nil {
			e.device = first
		}
	}
}

func (e *event) judgeHash(key int, v []byte) {
	if key >= hashedKeys {
		return
	}
	switch hashKind(text(v)) {
	case hashSHA256:
	case hashUpper:
		e.upper = true
	case hashMD5:
		if e.md5 == "" {
			e.md5 = matchKeys[key]
		}
	case hashNothing:
		e.warnings |= warnEmptyHash
	default:
		if e.unhashed == "" {
			e.unhashed = matchKeys[key]
		}
	}
}

const (
	hashNone = iota
	hashSHA256
	hashUpper
	hashMD5
	hashNothing // SHA-256 of nothing
)

var emptyHash = []byte("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")

// hashKind tells what sort of hash b is. Meta's Parameter Builder appends a dot and
// 2 or 8 characters that name its version.
func hashKind(b []byte) int {
	n, upper := 0, false
	for n < len(b) {
		c := b[n]
		if c >= 'A' && c <= 'F' {
			upper = true
		} else if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			break
		}
		n++
	}
	tail := b[n:]
	if len(tail) > 0 && (tail[0] != '.' || len(tail) != 3 && len(tail) != 9) {
		return hashNone
	}
	for _, c := range tail[min(1, len(tail)):] {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return hashNone
		}
	}
	switch {
	case n == 32:
		return hashMD5
	case n != 64:
		return hashNone
	case upper:
		return hashUpper
	case bytes.Equal(b[:n], emptyHash):
		return hashNothing
	}
	return hashSHA256
}

// amount reads custom_data.value: a number, or a number as text, which Meta's own
// samples send.
func amount(b []byte) (float64, bool) {
	if len(b) == 0 || (b[0] != '-' && (b[0] < '0' || b[0] > '9')) || bytes.ContainsAny(b, "xXpP_") {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(b), 64)
	return f, err == nil
}
