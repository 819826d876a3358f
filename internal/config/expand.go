package config

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	variable = regexp.MustCompile(`\A[A-Za-z_][A-Za-z0-9_]*\z`)
	// metaToken is what Meta's access tokens look like, for the one that stands where
	// no token belongs and is about to be quoted in an error.
	metaToken = regexp.MustCompile(`EAA[0-9A-Za-z]{8,}`)
)

// expand puts the environment's values in the place of ${NAMES}; $${ stands for ${
// itself. It works on one value that YAML has already been read out of, so that what
// a variable holds is only ever text: no quote or colon in it can add a key.
func expand(raw string, env func(string) (string, bool)) (string, []flaw) {
	var b strings.Builder
	var flaws []flaw
	for rest := raw; ; {
		i := strings.Index(rest, "${")
		if i < 0 {
			b.WriteString(rest)
			return b.String(), flaws
		}
		if i > 0 && rest[i-1] == '$' {
			b.WriteString(rest[:i-1] + "${")
			rest = rest[i+2:]
			continue
		}
		b.WriteString(rest[:i])
		name, after, closed := strings.Cut(rest[i+2:], "}")
		if !closed || !variable.MatchString(name) {
			flaws = append(flaws, flaw{"${ is not followed by the name of an environment variable and }", "write ${NAME} with letters, digits and _ only, or $${ where ${ itself is meant"})
			rest = rest[i+2:]
			continue
		}
		value, set := env(name)
		if !set {
			flaws = append(flaws, flaw{
				fmt.Sprintf("the environment variable %s is not set", name),
				fmt.Sprintf("set %s where capiloop is started, or write the value itself", name),
			})
		}
		b.WriteString(value)
		rest = after
	}
}

// shown quotes a text as the file has it, before expansion: what a variable holds
// may be secret.
func shown(raw string) string {
	const most = 60
	s := metaToken.ReplaceAllString(raw, "***")
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
