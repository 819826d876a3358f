package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/capiloop/capiloop/internal/secret"
)

// publicKey is a word that may stand in an address and in a page's source.
var publicKey = regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9_-]{0,63}\z`)

// values looks over what the settings of one connection say, where their kind tells what
// they may say. The values themselves are never shown: they may come from a variable.
// taken are the public keys so far, with their places.
func (list Settings) values(e *Error, o secret.Options, at spots, taken map[string]spot) {
	report := func(name string, f flaw) {
		s := at.keys[name]
		e.Problems = append(e.Problems, Problem{Line: s.line, Column: s.column, Where: s.path, What: f.what, Fix: f.fix})
	}
	for _, option := range list {
		form, set := formOf(o, option.Name)
		if !set || form != option.Form {
			continue
		}
		text := o.Text(option.Name)
		if option.OneOf != nil && !slices.Contains(option.OneOf, text) {
			report(option.Name, flaw{option.Name + " knows no such value", "write " + orOf(option.OneOf)})
		}
		if option.Keys != nil {
			option.table(o.Map(option.Name), report)
		}
		if option.Needs != "" && isEmpty(o, option.Needs) {
			report(option.Name, flaw{option.Needs + " is missing beside " + option.Name, "add " + option.Needs + ": " + helpOf(list, option.Needs)})
		}
		if !option.Key {
			continue
		}
		before, twice := taken[text]
		switch {
		case !publicKey.MatchString(text):
			report(option.Name, flaw{"this is no public key", "write up to 64 letters, digits, dashes and underscores, such as shop-1f9c2b"})
		case twice:
			report(option.Name, flaw{fmt.Sprintf("the same key stands in line %d", before.line), "give each source its own"})
		default:
			taken[text] = at.keys[option.Name]
		}
	}
}

// table looks over a map whose keys are known.
func (option *Option) table(table map[string]string, report func(string, flaw)) {
	known := slices.Sorted(maps.Keys(option.Keys))
	for _, key := range slices.Sorted(maps.Keys(table)) {
		may, ok := option.Keys[key]
		switch {
		case !ok:
			report(option.Name, flaw{"unknown key in " + option.Name, suggestion(key, known, "known here are ")})
		case !slices.Contains(may, table[key]):
			report(option.Name, flaw{key + " knows no such value", "write " + key + ": " + orOf(may)})
		}
	}
}

func helpOf(list Settings, name string) string {
	for _, option := range list {
		if option.Name == name {
			return option.Help
		}
	}
	return ""
}

// orOf writes hold, drop or send.
func orOf(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
