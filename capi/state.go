package capi

import (
	"strings"
	"unicode"
)

// state is the rule of st: the two-letter ANSI code in the U.S., the full name in a
// to z elsewhere (page "Customer information parameters"). Canadian provinces become
// their postal codes as in Meta's parameter builder. Names are looked up whole: the
// builder's search for parts turns Baja California into ca.
func (f *facts) state(raw string) (Normalised, string) {
	raw = unescape(raw)
	if isPlaceholder(raw) {
		return Normalised{}, ProblemPlaceholder
	}
	switch code := f.subdivision(raw); {
	case isDigits(code): // FR-75
		return Normalised{}, ProblemInvalidPlace
	case code != "":
		n := one(code)
		n.also(builderState(raw))
		return n, ""
	}
	s := squeeze(raw, letterRune)
	if s == "" {
		return Normalised{}, ProblemInvalidPlace
	}
	folded := fold(s)
	if f.isNorthAmerica() {
		if code := usStates[folded]; code != "" {
			n := one(code)
			n.also(builderState(raw))
			return n, ""
		}
		if code := canadianProvinces[folded]; code != "" {
			n := one(code)
			n.also(folded, builderState(raw))
			return n, ""
		}
	}
	if folded == "" { // no Roman form: kept as it is
		return one(s), ""
	}
	n := one(folded)
	n.also(s, builderState(raw))
	return n, ""
}

// isNorthAmerica tells whether a U.S. or Canadian name may be meant. A province
// elsewhere can have the same name (Georgia's, Montana in Bulgaria).
func (f *facts) isNorthAmerica() bool {
	switch f.country {
	case "", "US", "CA", "PR", "GU", "VI", "AS", "MP", "UM":
		return true
	}
	return false
}

// subdivision reads the code of ISO 3166-2, US-CA or AU_NSW, and returns the part
// after the country.
func (f *facts) subdivision(raw string) string {
	s := plainText(raw)
	if len(s) < 4 || len(s) > 6 || s[2] != '-' && s[2] != '_' {
		return ""
	}
	capitals := s == strings.ToUpper(s) // Al-Ain is a name
	country, code := strings.ToUpper(s[:2]), strings.ToLower(s[3:])
	for i := range len(code) {
		if !isASCIIAlnum(code[i]) {
			return ""
		}
	}
	switch {
	case country == "US" && !isValueOf(usStates, code), country == "CA" && !isValueOf(canadianProvinces, code):
		return ""
	case country == "US", country == "CA":
		return code
	case capitals && isCountry(country) && (f.country == "" || f.country == country):
		return code
	}
	return ""
}

func isValueOf(table map[string]string, code string) bool {
	for _, c := range table {
		if c == code {
			return true
		}
	}
	return false
}

// builderState is what Meta's parameter builder makes of a state: the code of a U.S.
// state or Canadian province whose English name is in it, else the first two letters.
func builderState(raw string) string {
	s := strings.TrimFunc(builderText(raw), unicode.IsDigit)
	if code := builderCodes[s]; code != "" {
		return code
	}
	if len(s) <= 2 {
		return s
	}
	for _, name := range builderNames {
		if strings.Contains(s, name) {
			return builderCodes[name]
		}
	}
	return s[:2]
}
