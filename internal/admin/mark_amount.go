package admin

import (
	"slices"
	"strings"
	"unicode"
)

// threeDecimals are the currencies of which 1.240 is less than two.
var threeDecimals = []string{"BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"}

// amountOf reads an amount as people type it on a phone: 1240, 1.240,50, 1,240.50,
// € 1 240. It writes it with a point; "" stays "". A number that could be read in two
// ways is refused.
func amountOf(text, currency string) (string, bool) {
	s := strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '\'' || r == '’' {
			return -1
		}
		return r
	}, text)
	if s == "" {
		return "", true
	}
	sign := func(r rune) bool { return unicode.IsLetter(r) || unicode.Is(unicode.Sc, r) }
	s = strings.TrimFunc(s, sign)
	if len(s) > 20 || s == "" || strings.Trim(s, "0123456789.,") != "" {
		return "", false
	}
	whole, cents := s, ""
	point, comma := strings.Count(s, "."), strings.Count(s, ",")
	last := max(strings.LastIndexByte(s, '.'), strings.LastIndexByte(s, ','))
	switch {
	case last < 0:
	case point > 0 && comma > 0, point+comma == 1 && !thousands(s[:last], s[last+1:]):
		whole, cents = s[:last], s[last+1:]
		if cents == "" || len(cents) > decimalsOf(currency) || strings.ContainsRune(whole, rune(s[last])) {
			return "", false
		}
	case point+comma == 1 && decimalsOf(currency) == 3:
		return "", false
	}
	whole, ok := ungrouped(whole)
	if !ok {
		return "", false
	}
	whole, cents = strings.TrimLeft(whole, "0"), strings.TrimRight(cents, "0")
	switch {
	case len(whole) > 12, whole == "" && cents == "":
		return "", false
	case whole == "":
		whole = "0"
	}
	if cents != "" {
		return whole + "." + cents, true
	}
	return whole, true
}

// thousands tells whether one point or comma stands before thousands: nobody writes
// three digits of cents.
func thousands(before, after string) bool {
	return len(after) == 3 && len(before) >= 1 && len(before) <= 3 && before[0] != '0'
}

func decimalsOf(currency string) int {
	if slices.Contains(threeDecimals, currency) {
		return 3
	}
	return 2
}

// ungrouped takes the separators of thousands out, which must be all the same.
func ungrouped(s string) (string, bool) {
	for _, by := range []string{".", ","} {
		if !strings.Contains(s, by) {
			continue
		}
		groups := strings.Split(s, by)
		for i, g := range groups {
			if strings.Trim(g, "0123456789") != "" || i > 0 && len(g) != 3 || i == 0 && (g == "" || len(g) > 3) {
				return "", false
			}
		}
		return strings.Join(groups, ""), true
	}
	return s, true
}
