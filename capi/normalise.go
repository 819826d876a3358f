package capi

import (
	"slices"
	"strings"
	"time"
	"unicode"
)

// Normalised is what NormaliseValue made of one value.
type Normalised struct {
	// Texts are the normalised forms: one, or several when the value held several
	// (two e-mail addresses in one string). For the keys that Meta says not to hash
	// it is the text to send.
	Texts []string
	// Alternates are further forms that deserve a place in the same list, after
	// Texts: an accented name in a to z, what Meta's own library makes of a city.
	Alternates []string
	// Hash is set instead when the value came hashed: lower-case digits, an appendix
	// of Meta's parameter builder untouched.
	Hash string

	// text stands for Texts while there is only one, which spares nearly every value
	// of an event a list of its own. NormaliseValue gives none away.
	text string
}

// Empty tells whether nothing is left to send.
func (n Normalised) Empty() bool { return len(n.Texts) == 0 && n.Hash == "" }

// Hashes returns what user_data gets for a hashed key: the hash that came, or the
// hashes of Texts and Alternates.
func (n Normalised) Hashes() []string {
	if n.Hash != "" {
		return []string{n.Hash}
	}
	hashes := make([]string, 0, len(n.Texts)+len(n.Alternates))
	for _, text := range n.Texts {
		hashes = appendHash(hashes, HashText(text))
	}
	for _, text := range n.Alternates {
		hashes = appendHash(hashes, HashText(text))
	}
	return hashes
}

// also adds alternates, leaving out what is there already and what is empty.
func (n *Normalised) also(texts ...string) {
	for _, t := range texts {
		if t != "" && t != n.text && !slices.Contains(n.Texts, t) && !slices.Contains(n.Alternates, t) {
			n.Alternates = append(n.Alternates, t)
		}
	}
}

func one(text string) Normalised { return Normalised{text: text} }

// facts is what a rule may know besides the value.
type facts struct {
	country string    // ISO 3166-1 alpha-2 in capitals, "" when not known
	order   string    // of ambiguous dates: mdy, dmy, ymd
	now     time.Time // zero for the present
	when    time.Time // of the event, zero for now
}

func factsOf(l Locale) facts {
	return facts{country: countryCapitals(l.Country), order: strings.ToLower(l.DateOrder), now: l.Now}
}

func (f *facts) today() time.Time {
	if f.now.IsZero() {
		return time.Now()
	}
	return f.now
}

// NormaliseValue brings one value of a match key into the form that Meta's page
// "Customer information parameters" asks for. Nothing and no problem mean that raw is
// empty. A problem can come with a result: then the value is of use, but less than it
// could be.
//
// A phone number without country code needs l.Country. Where the page is silent the
// rule is that of Meta's parameter builder; where the builder contradicts the page,
// the page wins, and the builder's form is an alternate.
func NormaliseValue(key Key, raw string, l Locale) (Normalised, *Problem) {
	f := factsOf(l)
	var n Normalised
	var code string
	if key.Hashed() {
		n, code = f.hashedValue(key, raw)
	} else {
		n.text, code = f.plainValue(key, raw)
	}
	if n.text != "" {
		n.Texts, n.text = []string{n.text}, ""
	}
	if code == "" {
		return n, nil
	}
	p := warning("user_data."+string(key), code)
	return n, &p
}

// trimmed removes white space and control characters; a value of zero-width spaces
// alone is empty too.
func trimmed(raw string) string {
	if raw != "" && isVisibleASCII(raw[0]) && isVisibleASCII(raw[len(raw)-1]) {
		return raw
	}
	s := strings.TrimFunc(raw, func(r rune) bool { return r <= ' ' || r == '\ufeff' || unicode.IsSpace(r) || unicode.IsControl(r) })
	if strings.HasPrefix(s, "\u200b") && strings.Trim(s, "\u200b") == "" {
		return ""
	}
	return s
}

func isVisibleASCII(c byte) bool { return c > ' ' && c <= '~' }

func (f *facts) hashedValue(key Key, raw string) (Normalised, string) {
	if raw = trimmed(raw); raw == "" {
		return Normalised{}, ""
	}
	if hash, code := arrivedHashed(key, raw); hash != "" || code != "" {
		return Normalised{Hash: hash}, code
	}
	switch key {
	case KeyEmail:
		return emails(raw)
	case KeyPhone:
		return f.phones(raw)
	case KeyFirstName, KeyLastName:
		return personName(key, raw)
	case KeyFirst5Name, KeyFirst5Last:
		return nameStart(raw, 5)
	case KeyFirstInitial:
		return nameStart(raw, 1)
	case KeyGender:
		return gender(raw)
	case KeyBirthDate:
		return f.birthDate(raw)
	case KeyBirthDay:
		return datePart(raw, 31)
	case KeyBirthMonth:
		return datePart(raw, 12)
	case KeyBirthYear:
		return f.birthYear(raw)
	case KeyCity:
		return city(raw)
	case KeyState:
		return f.state(raw)
	case KeyZip:
		return f.zip(raw)
	case KeyCountry:
		return country(raw)
	default:
		return externalID(raw)
	}
}

// externalID is the form of Meta's parameter builder, which the browser uses too: a
// different one would never join the two (page "External ID").
func externalID(raw string) (Normalised, string) {
	if isPlaceholder(raw) || raw == "0" { // 0 is the guest of many shops
		return Normalised{}, ProblemPlaceholder
	}
	s := lower(strings.Map(func(r rune) rune {
		if isJavaScriptSpace(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(raw, "")))
	if s == "" {
		return Normalised{}, ProblemPlaceholder
	}
	return one(s), ""
}

func isJavaScriptSpace(r rune) bool {
	switch r {
	case ' ', '\t', '\n', '\v', '\f', '\r', '\u00a0', '\u1680', '\u2028', '\u2029', '\u202f', '\u205f', '\u3000', '\ufeff':
		return true
	}
	return r >= '\u2000' && r <= '\u200a'
}

// appendHash appends a hash that is not there yet. Two that differ in the appendix
// only are the same.
func appendHash(hashes []string, hash string) []string {
	if hash == "" {
		return hashes
	}
	digits, _, _ := strings.Cut(hash, ".")
	for _, h := range hashes {
		if strings.HasPrefix(h, digits) {
			return hashes
		}
	}
	return append(hashes, hash)
}
