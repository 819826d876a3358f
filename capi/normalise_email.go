package capi

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// emails is the rule of em: trim and lower case (page "Customer information
// parameters"). What is wrapped round an address comes off, two in one string are
// two, dots and +tags stay: Meta does not ask to remove them.
func emails(raw string) (Normalised, string) {
	if isPlainEmail(raw) {
		return one(lower(raw)), ""
	}
	s := plainText(strings.ReplaceAll(unescape(raw), "%40", "@"))
	parts := []string{s}
	if strings.Count(s, "@") > 1 {
		parts = strings.FieldsFunc(s, func(r rune) bool { return r == ';' || r == ',' || r == ' ' })
	}
	var n Normalised
	for _, part := range parts {
		address := oneEmail(part)
		if address == "" {
			continue
		}
		n.Texts = appendOnce(n.Texts, address)
		if at := strings.LastIndexByte(address, '@'); strings.Contains(address[at:], "xn--") {
			if domain := unicodeDomain(address[at+1:]); domain != "" {
				n.also(address[:at+1] + domain)
			}
		}
	}
	switch {
	case len(n.Texts) > 0:
		return n, ""
	case isPlaceholder(s):
		return n, ProblemPlaceholder
	}
	return n, ProblemInvalidEmail
}

// isPlainEmail is the short way for what nearly every address looks like.
func isPlainEmail(s string) bool {
	local, domain, ok := strings.Cut(s, "@")
	if !ok || local == "" || strings.Contains(domain, "xn--") || strings.Contains(domain, "XN--") {
		return false
	}
	for i := range len(local) {
		if c := local[i]; !isASCIIAlnum(c) && c != '.' && c != '_' && c != '-' && c != '+' {
			return false
		}
	}
	return isASCII(domain) && isMailDomain(domain)
}

func oneEmail(s string) string {
	if open := strings.LastIndexByte(s, '<'); open >= 0 { // Jane Doe <jane@example.com>
		if inner, _, closed := strings.Cut(s[open+1:], ">"); closed && strings.Contains(inner, "@") {
			s = inner
		}
	}
	s = lower(strings.ReplaceAll(s, " ", ""))
	s = strings.TrimPrefix(s, "mailto:")
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		if end := strings.IndexByte(s[at:], '?'); end > 0 { // ?subject=
			s = s[:at+end]
		}
	}
	s = strings.TrimLeft(s, `<"'“”‘’«([`)
	s = strings.TrimRight(s, `>"'“”‘’»)],;.:`)
	local, domain, ok := strings.Cut(s, "@")
	if !ok || local == "" || len(s) > 320 || !isMailDomain(domain) {
		return ""
	}
	for _, r := range local {
		if r < utf8.RuneSelf {
			if !isAlnumRune(r) && !strings.ContainsRune(".!#$%&'*+-/=?^_`{|}~", r) {
				return ""
			}
		} else if !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsNumber(r) {
			return ""
		}
	}
	return s
}

// isMailDomain wants at least two labels of letters, digits and hyphens, the last of
// at least two characters.
func isMailDomain(s string) bool {
	labels, length := 0, 0
	for _, r := range s {
		switch {
		case r == '.':
			if length == 0 {
				return false
			}
			labels, length = labels+1, 0
			continue
		case r < utf8.RuneSelf && !isAlnumRune(r) && r != '-',
			r >= utf8.RuneSelf && !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r):
			return false
		}
		length++
	}
	return labels > 0 && length > 1
}

// unicodeDomain writes a domain of xn-- labels in its own letters, "" if it cannot.
func unicodeDomain(domain string) string {
	labels := strings.Split(domain, ".")
	for i, label := range labels {
		if rest, ok := strings.CutPrefix(label, "xn--"); ok {
			labels[i] = punycode(rest)
			if labels[i] == "" {
				return ""
			}
		}
	}
	return strings.Join(labels, ".")
}

// punycode decodes one label, RFC 3492 section 6.2; "" if it is not valid.
func punycode(s string) string {
	var out []rune
	if i := strings.LastIndexByte(s, '-'); i > 0 {
		out, s = []rune(s[:i]), s[i+1:]
	}
	code, at, bias := 128, 0, 72
	for first := true; s != ""; first = false {
		before, weight := at, 1
		for k := 36; ; k += 36 {
			if s == "" || !isASCIIAlnum(s[0]) || at > 1<<24 || weight > 1<<24 {
				return ""
			}
			digit := int(s[0]) - 'a'
			if s[0] <= '9' {
				digit = int(s[0]) - '0' + 26
			}
			s = s[1:]
			at += digit * weight
			threshold := min(max(k-bias, 1), 26)
			if digit < threshold {
				break
			}
			weight *= 36 - threshold
		}
		bias = punycodeBias(at-before, len(out)+1, first)
		code += at / (len(out) + 1)
		at %= len(out) + 1
		if code > unicode.MaxRune {
			return ""
		}
		letter := rune(code) //nolint:gosec // fits, as just checked
		if !unicode.IsLetter(letter) && !unicode.IsMark(letter) && !unicode.IsDigit(letter) {
			return ""
		}
		out = slices.Insert(out, at, letter)
		at++
	}
	return string(out)
}

// punycodeBias is the adaptation of RFC 3492 section 6.1.
func punycodeBias(delta, points int, first bool) int {
	if first {
		delta /= 700
	} else {
		delta /= 2
	}
	delta += delta / points
	k := 0
	for ; delta > 455; k += 36 {
		delta /= 35
	}
	return k + 36*delta/(delta+38)
}

func appendOnce(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
