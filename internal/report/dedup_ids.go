package report

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// schemes are the kinds of event ids, for people. The first that fits is taken.
var schemes = []struct {
	one string
	is  *regexp.Regexp
}{
	{"13-digit time", regexp.MustCompile(`^1[4-9]\d{11}$`)},
	{"10-digit time", regexp.MustCompile(`^1[4-9]\d{8}$`)},
	{"13-digit time with an ending", regexp.MustCompile(`^1[4-9]\d{11}\D`)},
	{"integer", regexp.MustCompile(`^\d{1,18}$`)},
	{"UUID", regexp.MustCompile(`^(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$`)},
	{"id of an order", regexp.MustCompile(`^order\.[0-9a-f]{32}$`)},
	{"hex number", regexp.MustCompile(`^(?i)[0-9a-f]{12,}$`)},
}

var prefixed = regexp.MustCompile(`^([A-Za-z][A-Za-z]{0,19}[-_.:#])[^@]*\d`)

// scheme says of what kind an id is.
func scheme(id string) string {
	if id == "" {
		return "none"
	}
	for _, s := range schemes {
		if s.is.MatchString(id) {
			return s.one
		}
	}
	if m := prefixed.FindStringSubmatch(id); m != nil {
		return "text with the prefix " + m[1]
	}
	return "text"
}

const longestExample = 60

// shown is an id as an example; one that may tell who somebody is is not shown.
func shown(id string) string {
	switch {
	case id == "":
		return "none"
	case strings.ContainsAny(id, "@+") || !utf8.ValidString(id):
		return "(not shown)"
	case utf8.RuneCountInString(id) > longestExample:
		return string([]rune(id)[:longestExample]) + "…"
	}
	return id
}
