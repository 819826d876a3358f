package capi

import (
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"
)

// country is the rule of country: ISO 3166-1 alpha-2 in lower case (page "Customer
// information parameters"). Codes and names are looked up whole; Meta's parameter
// builder cuts to two letters, which makes Austria's AUT Australia.
func country(raw string) (Normalised, string) {
	if isPlaceholder(raw) {
		return Normalised{}, ProblemPlaceholder
	}
	code, ok := countryCode(raw)
	if !ok {
		return Normalised{}, ProblemUnknownCountry
	}
	return one(code), ""
}

// countryCapitals is countryCode in capitals, "" for what is no country.
func countryCapitals(raw string) string {
	if isCountry(raw) {
		return raw
	}
	code, _ := countryCode(raw)
	return strings.ToUpper(code)
}

// countryCode finds the two lower-case letters of a country written in any way.
func countryCode(raw string) (code string, ok bool) {
	if len(raw) == 2 {
		if s := strings.ToUpper(raw); isCountry(s) {
			return strings.ToLower(raw), true
		}
	}
	s := plainText(unescape(raw))
	if code := flagCode(s); code != "" {
		s = code
	}
	if isDigits(s) && len(s) <= 3 {
		return countryByNumber(strings.Repeat("0", 3-len(s)) + s)
	}
	if _, region, ok := localeTag(s); ok {
		return region, true
	}
	key := nameKey(s)
	switch upper := strings.ToUpper(key); {
	case key == "":
		return "", false
	case len(key) == 2 && isCountry(upper):
		return key, true
	case len(key) == 3:
		for i := 0; i < len(countryCodes); i += entryLength {
			if countryCodes[i+2:i+5] == upper {
				return strings.ToLower(countryCodes[i : i+2]), true
			}
		}
	}
	return countryByName(s, key)
}

const entryLength = len("ADAND020 ")

// isCountry tells whether two letters in capitals are a country's.
func isCountry(upper string) bool {
	if len(upper) != 2 || upper[0] < 'A' || upper[0] > 'Z' || upper[1] < 'A' || upper[1] > 'Z' {
		return false
	}
	return countryLetters[upper[0]-'A']&(1<<(upper[1]-'A')) != 0
}

// countryLetters has for each first letter a bit for each second letter in use.
var countryLetters = func() (letters [26]uint32) {
	for i := 0; i < len(countryCodes); i += entryLength {
		letters[countryCodes[i]-'A'] |= 1 << (countryCodes[i+1] - 'A')
	}
	return letters
}()

func countryByNumber(number string) (string, bool) {
	for i := 0; i < len(countryCodes); i += entryLength {
		if countryCodes[i+5:i+8] == number {
			return strings.ToLower(countryCodes[i : i+2]), true
		}
	}
	return "", false
}

func countryByName(s, key string) (string, bool) {
	keys := []string{key, strings.TrimPrefix(key, "the")}
	if before, after, ok := strings.Cut(s, ","); ok { // Korea, Republic of
		keys = append(keys, nameKey(after)+nameKey(before), strings.TrimPrefix(nameKey(after), "the")+nameKey(before))
	}
	for _, k := range keys {
		if code := countryAliases[k]; code != "" {
			return code, true
		}
	}
	for _, k := range keys {
		if code := countryNames()[k]; code != "" {
			return code, true
		}
	}
	return "", false
}

// nameKey is a name without case, accents, punctuation and spaces.
func nameKey(s string) string { return foldAny(squeeze(s, letterRune)) }

// countryNames holds the countries' names in many languages, from Unicode's tables.
// It is made when first a name must be looked up that is not English. A name that
// means different countries in different languages means none, unless one is English.
var countryNames = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	english := map[string]bool{}
	for _, tag := range countryNameLanguages {
		namer := display.Regions(language.Make(tag))
		if namer == nil {
			continue
		}
		for i := 0; i < len(countryCodes); i += entryLength {
			code := countryCodes[i : i+2]
			key := nameKey(namer.Name(language.MustParseRegion(code)))
			code = strings.ToLower(code)
			switch have, known := m[key]; {
			case english[key], len(key) < 3:
			case known && have != code:
				m[key] = ""
			default:
				m[key] = code
				english[key] = tag == "en"
			}
		}
	}
	return m
})

// flagCode reads the two regional indicators of a flag.
func flagCode(s string) string {
	runes := []rune(s)
	if len(runes) != 2 || !isIndicator(runes[0]) || !isIndicator(runes[1]) {
		return ""
	}
	return string('A'+runes[0]-0x1f1e6) + string('A'+runes[1]-0x1f1e6)
}

func isIndicator(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

// localeTag reads en-US or pt_BR: a language and the country in which it is spoken.
func localeTag(s string) (lang, region string, ok bool) {
	lang, region, ok = strings.Cut(strings.ReplaceAll(s, "_", "-"), "-")
	if !ok || len(region) != 2 || !isCountry(strings.ToUpper(region)) {
		return "", "", false
	}
	if _, err := language.ParseBase(lang); err != nil || strings.ContainsFunc(lang, unicode.IsUpper) {
		return "", "", false
	}
	return lang, strings.ToLower(region), true
}
