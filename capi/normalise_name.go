package capi

import (
	"strings"
	"unicode/utf8"
)

// personName is the rule of fn and ln: lower case, no punctuation, letters of every
// script kept (page "Customer information parameters": valéry, 정); white space goes
// too, as in Meta's builder. Alternates are the name in a to z, the name without
// title and suffix, and the first of several given names.
func personName(key Key, raw string) (Normalised, string) {
	raw = unescape(raw)
	if isPlaceholder(raw) && raw != "Null" && raw != "Nan" { // these two, so written, are names
		return Normalised{}, ProblemPlaceholder
	}
	s := squeeze(raw, nameRune)
	if len(s) < len(raw) && isPlaceholder(s) { // "unknown."
		return Normalised{}, ProblemPlaceholder
	}
	if s == "" || strings.Trim(s, "0123456789") == "" { // an id in the wrong column
		return Normalised{}, ProblemInvalidName
	}
	n := one(s)
	if !isASCII(s) {
		n.also(fold(s))
	}
	if strings.ContainsAny(raw, " \u00a0") {
		n.also(shorterName(key, raw))
	}
	return n, ""
}

// shorterName is the name without courtesy title and suffix, or the first of several
// given names; "" when there is no shorter form.
func shorterName(key Key, raw string) string {
	words := strings.Fields(raw)
	for i, w := range words {
		words[i] = squeeze(w, letterRune)
	}
	whole := len(words)
	for len(words) > 1 && nameTitles[words[0]] {
		words = words[1:]
	}
	for len(words) > 1 && nameSuffixes[words[len(words)-1]] {
		words = words[:len(words)-1]
	}
	switch {
	case len(words) < whole:
		return strings.Join(words, "")
	case key == KeyFirstName && len(words) > 1 && utf8.RuneCountInString(words[0]) > 2 && strings.Join(words[1:], "") != "":
		return words[0]
	}
	return ""
}

// nameStart is the rule of f5first, f5last and fi, which stand on no page: the first
// characters of the normalised name.
func nameStart(raw string, characters int) (Normalised, string) {
	n, code := personName(KeyLastName, raw)
	if code != "" {
		return n, code
	}
	runes := []rune(n.text)
	if len(runes) > characters {
		runes = runes[:characters]
	}
	s := strings.TrimRight(string(runes), "\u200c\u200d")
	if strings.Trim(s, "0123456789") == "" {
		return Normalised{}, ProblemInvalidName
	}
	return one(s), ""
}

var nameTitles = wordSet(`mr mrs ms miss mx dr prof sir dame herr frau monsieur madame mme mlle sr sra srta señor señora
	señorita senhor senhora don doña signor signora sig meneer mevrouw dhr mevr`)

var nameSuffixes = wordSet(`jr sr junior senior ii iii iv phd md dds esq mba`)

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		set[w] = true
	}
	return set
}
