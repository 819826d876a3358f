package capi

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"
)

// lower makes lower case as JavaScript and Python do, so that the hash equals the
// browser's: İ becomes i with a dot above (two code points), Σ at the end of a word
// becomes ς. For all other letters strings.ToLower does the same and is faster.
func lower(s string) string {
	if strings.Contains(s, "İ") || strings.Contains(s, "Σ") {
		return cases.Lower(language.Und).String(s) // made per call: a Caser must not be shared
	}
	return strings.ToLower(s)
}

// squeeze makes s lower case, keeps the characters that keep wants, and composes
// them (NFKC), so that one word written in two ways gives one hash. It goes on until
// nothing changes, because composing can bring forth characters that must go.
func squeeze(s string, keep func(rune) bool) string {
	if isASCII(s) {
		return squeezeASCII(s, keep)
	}
	s = strings.ToValidUTF8(s, "")
	for range 4 {
		next := norm.NFKC.String(filter(lower(s), keep))
		if next == s {
			break
		}
		s = next
	}
	return s
}

func squeezeASCII(s string, keep func(rune) bool) string {
	clean := true
	for i := 0; i < len(s) && clean; i++ {
		clean = (s[i] < 'A' || s[i] > 'Z') && keep(rune(s[i]))
	}
	if clean {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if keep(rune(c)) {
			out = append(out, c)
		}
	}
	return string(out)
}

// filter drops what keep does not want, accents that have lost their letter, and
// joiners, except between letters of the scripts that spell with them (Persian,
// Indic).
func filter(s string, keep func(rune) bool) string {
	var b strings.Builder
	b.Grow(len(s))
	last, joiner := rune(0), rune(0)
	for _, r := range s {
		switch {
		case r == '\u200c' || r == '\u200d':
			if last >= '\u0590' {
				joiner = r
			}
			continue
		case !keep(r), last == 0 && unicode.IsMark(r):
			joiner = 0
			continue
		}
		if joiner != 0 && r >= '\u0590' {
			b.WriteRune(joiner)
		}
		joiner, last = 0, r
		b.WriteRune(r)
	}
	return b.String()
}

// nameRune wants letters, their accents and digits. The apostrophes among the
// modifier letters (ʼ and its like) are punctuation in names.
func nameRune(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z'
	}
	if r >= '\u02b9' && r <= '\u02cf' || isVariationSelector(r) {
		return false
	}
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r)
}

// letterRune is nameRune without the digits.
func letterRune(r rune) bool { return nameRune(r) && !unicode.IsNumber(r) }

func isVariationSelector(r rune) bool {
	return r >= '\ufe00' && r <= '\ufe0f' || r >= 0xe0100 && r <= 0xe01ef || r == '\u20e3'
}

// fold writes lower-case Latin letters in a to z: é as e, ß as ss. It returns "" when
// anything else remains, such as another script.
func fold(s string) string {
	if isASCII(s) {
		return s
	}
	s = foldAny(s)
	if !isASCII(s) {
		return ""
	}
	return s
}

// foldAny is fold, keeping what has no Roman form.
func foldAny(s string) string {
	if isASCII(s) {
		return s
	}
	var b strings.Builder
	for _, r := range norm.NFD.String(s) {
		if unicode.Is(unicode.Mn, r) {
			continue
		}
		if roman, ok := romanLetters[r]; ok {
			b.WriteString(roman)
			continue
		}
		b.WriteRune(r)
	}
	return norm.NFC.String(b.String())
}

// romanLetters are the Latin letters that have no decomposition in Unicode.
var romanLetters = map[rune]string{
	'ß': "ss", 'æ': "ae", 'œ': "oe", 'ø': "o", 'ł': "l", 'đ': "d", 'ð': "d", 'þ': "th",
	'ı': "i", 'ħ': "h", 'ŧ': "t", 'ŋ': "n", 'ə': "e",
}

// builderText is what Meta's parameter builder makes of a city or state: every byte
// but a to z and 0 to 9 deleted, nothing when it does not start with a letter.
func builderText(s string) string {
	var out []byte
	for i := range len(s) {
		if c := s[i]; isASCIIAlnum(c) {
			if c >= 'A' && c <= 'Z' {
				c += 'a' - 'A'
			}
			out = append(out, c)
		}
	}
	if len(out) < 2 || out[0] <= '9' {
		return ""
	}
	return string(out)
}

// plainText composes s (NFKC), turns digits of every script into 0 to 9 and drops
// invisible characters: what comes before reading an address, a number or a code.
func plainText(s string) string {
	if isPrintASCII(s) {
		return strings.Trim(s, " ")
	}
	s = norm.NFKC.String(strings.ToValidUTF8(s, ""))
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= utf8.RuneSelf && unicode.IsDigit(r):
			return '0' + digitValue(r)
		case unicode.IsSpace(r):
			return ' '
		case unicode.Is(unicode.Cf, r), unicode.IsControl(r), isVariationSelector(r):
			return -1
		case unicode.Is(unicode.Pd, r), r == '\u2212':
			return '-'
		}
		return r
	}, s)
	return strings.Trim(s, " ")
}

// digitValue is the worth of a decimal digit: Unicode has them in unbroken rows of
// ten that begin with the zero.
func digitValue(r rune) rune {
	zero := r
	for r-zero < 9 && unicode.IsDigit(zero-1) {
		zero--
	}
	return (r - zero) % 10
}

// unescape undoes HTML escapes, which shop systems leave in names.
func unescape(s string) string {
	if strings.Contains(s, "&") && strings.Contains(s, ";") {
		return html.UnescapeString(s)
	}
	return s
}

// isPlaceholder knows the words that programs and people write for "no value".
func isPlaceholder(s string) bool {
	if s == "" || len(s) > 40 || strings.IndexByte("nNuU(<#-[{$", s[0]) < 0 {
		return false
	}
	if strings.HasPrefix(s, "{{") && strings.HasSuffix(s, "}}") || strings.HasPrefix(s, "${") {
		return true // a template that was not filled in
	}
	switch strings.ToLower(s) {
	case "null", "(null)", "<null>", "undefined", "none", "(none)", "n/a", "#n/a", "nil", "nan",
		"unknown", "(unknown)", "not set", "(not set)", "not provided", "(not provided)",
		"not available", "[object object]", "-", "--", "---":
		return true
	}
	return false
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func isPrintASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func isASCIIAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

func isAlnumRune(r rune) bool {
	return r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z'
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
