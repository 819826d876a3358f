package capi

import (
	"strings"

	"golang.org/x/text/unicode/norm"
)

// city is the rule of ct: lower case, no punctuation, digits or spaces, letters of
// every script kept (page "Customer information parameters"). Meta's libraries
// disagree on accents, and ct takes a list, so the form in a to z and that of the
// parameter builder (são paulo: sopaulo) go along.
func city(raw string) (Normalised, string) {
	raw = unescape(raw)
	if isPlaceholder(raw) {
		return Normalised{}, ProblemPlaceholder
	}
	name := raw
	if before, _, ok := strings.Cut(raw, ","); ok && squeeze(before, letterRune) != "" {
		name = before // what follows is the state
	}
	s := squeeze(withoutDistrict(name), letterRune)
	if s == "" {
		return Normalised{}, ProblemInvalidPlace
	}
	n := one(s)
	if s != raw || !isASCII(s) {
		n.also(fold(s), builderText(raw))
	}
	return n, ""
}

// withoutDistrict drops a numbered district after the name: Paris 16e.
func withoutDistrict(name string) string {
	name = strings.TrimSpace(name)
	i := strings.LastIndexByte(name, ' ')
	if i > 0 && i+1 < len(name) && name[i+1] >= '0' && name[i+1] <= '9' && squeeze(name[:i], letterRune) != "" {
		return name[:i]
	}
	return name
}

// zipPrefixes are the country marks that people write before a postcode and that are
// not part of it, with the country they stand for.
var zipPrefixes = map[string]string{
	"a": "AT", "at": "AT", "b": "BE", "be": "BE", "ch": "CH", "d": "DE", "de": "DE", "dk": "DK", "e": "ES", "es": "ES",
	"f": "FR", "fr": "FR", "fi": "FI", "fin": "FI", "i": "IT", "it": "IT", "l": "LU", "n": "NO", "no": "NO", "nl": "NL",
	"p": "PT", "pt": "PT", "pl": "PL", "s": "SE", "se": "SE",
}

// zip is the rule of zp: lower case, no spaces, no dash, five digits in the U.S. (page
// "Customer information parameters"). Meta's libraries cut every code at the dash
// (00-950: 00); that is an alternate.
func (f *facts) zip(raw string) (Normalised, string) {
	if isPlaceholder(raw) {
		return Normalised{}, ProblemPlaceholder
	}
	if !isPrintASCII(raw) {
		raw = strings.TrimSpace(norm.NFKC.String(strings.ToValidUTF8(raw, "")))
	}
	text := strings.ToLower(plainText(raw))
	if f.country == "" || f.country == "US" || f.country == "PR" {
		code, ok := usZip(text, f.country != "")
		if !ok && f.country != "" { // 94 035
			code, ok = usZip(squeeze(text, nameRune), true)
		}
		if ok && code == "" {
			return Normalised{}, ProblemPlaceholder
		}
		if ok {
			n := one(code)
			n.also(builderZip(raw))
			return n, ""
		}
	}
	prefix, rest, dashed := strings.Cut(text, "-")
	if of := zipPrefixes[prefix]; dashed && of != "" && (f.country == "" || f.country == of) && strings.ContainsAny(rest, "0123456789") {
		if s := squeeze(rest, nameRune); len(s) >= 4 {
			return one(s), ""
		}
	}
	s := squeeze(text, nameRune)
	if f.country == "AU" && len(s) == 3 && isDigits(s) { // 0800 that went through a spreadsheet
		s = "0" + s
	}
	if len(s) < 2 {
		return Normalised{}, ProblemInvalidZip
	}
	n := one(s)
	if f.country == "LV" {
		n.also(strings.TrimPrefix(s, "lv"))
	}
	if cut := squeeze(prefix, nameRune); dashed && len(cut) > 1 {
		n.also(cut)
	}
	n.also(builderZip(raw))
	return n, ""
}

// usZip finds the five digits of a U.S. code; ok tells whether it is one. Without
// certain knowledge of the country only ZIP+4 says so itself.
func usZip(s string, certain bool) (code string, ok bool) {
	if !certain {
		if len(s) == 10 && s[5] == '-' && isDigits(s[:5]) && isDigits(s[6:]) {
			return s[:5], true
		}
		return "", false
	}
	if len(s) == 5 && s != "00000" && isDigits(s) { // as nearly all are
		return s, true
	}
	groups := strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if len(groups) == 0 {
		return "", false
	}
	first := groups[0]
	switch {
	case len(first) == 5 && len(groups) <= 2, len(first) == 9 && len(groups) == 1:
		first = first[:5]
	case (len(first) == 3 || len(first) == 4) && len(groups) == 1 && len(s) == len(first): // a zero was lost
		first = "00000"[len(first):] + first
	default:
		return "", false
	}
	if first == "00000" {
		return "", true
	}
	return first, true
}

// builderZip is what Meta's parameter builder makes of a postcode.
func builderZip(raw string) string {
	before, _, _ := strings.Cut(raw, "-")
	before = lower(strings.TrimSpace(before))
	if len(before) < 2 {
		return ""
	}
	return before
}
