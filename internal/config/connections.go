package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/capiloop/capiloop/internal/secret"
)

// FileSource is a lead source as the file declares it.
type FileSource struct {
	Kind, Name string
	Webhook    secret.Secret // the secret part of its address; none: the store makes one
	Options    secret.Options

	spots spots
}

// FileCRM is a CRM as the file declares it.
type FileCRM struct {
	Kind, Name string
	Webhook    secret.Secret // the secret part of its address; none: the store makes one
	TestLeads  bool          // test leads are delivered too, marked
	Poll       time.Duration // between two looks at its stages; 0: never
	Options    secret.Options

	spots spots
}

// spots are where a connection's keys stand, for what only its kind can judge.
type spots struct {
	file string
	kind string // as the file has it, to be quoted
	self spot
	keys map[string]spot
}

type spot struct {
	line, column int
	path         string
}

func spotOf(at *token.Position, path string) spot {
	s := spot{path: path}
	if at != nil {
		s.line, s.column = at.Line, at.Column
	}
	return s
}

var (
	connectionName = regexp.MustCompile(`\A[A-Za-z][A-Za-z0-9_-]{0,62}\z`)
	connectionKind = regexp.MustCompile(`\A[a-z][a-z0-9_]{0,62}\z`)
	webhookKey     = regexp.MustCompile(`\A[A-Za-z0-9_-]{22,128}\z`)
)

func connectionNameOf(text string) (string, *flaw) {
	if !connectionName.MatchString(text) || text == Sandbox {
		return "", &flaw{"is no name for a source or CRM", "write up to 63 letters, digits, dashes and underscores, beginning with a letter; sandbox is taken"}
	}
	return text, nil
}

func connectionKindOf(text string) (string, *flaw) {
	if !connectionKind.MatchString(text) {
		return "", &flaw{"is no kind", "write it in small letters, as docs/configuration.md lists them"}
	}
	return text, nil
}

// webhookOf reads the secret part of an address: 22 characters of base64 are 128
// bits if they are random.
func webhookOf(text string) (secret.Secret, *flaw) {
	if !webhookKey.MatchString(text) {
		return secret.Secret{}, &flaw{"is no key of an address that cannot be guessed", "write 22 to 128 random letters, digits, - and _, such as openssl rand -hex 20 gives, or take the key out to have one made"}
	}
	return secret.New(text), nil
}

// connections reads the sources and CRMs of a workspace. A name stands once among
// all of them: leads and the book call them by it.
func (r *reader) connections(m *mapping, w *FileWorkspace, seen places) {
	names := map[string]int{}
	m.items("sources", func(_ int, v value) {
		var s FileSource
		v.mapping(func(m *mapping) {
			r.connection(m, "source", &s.Kind, &s.Name, names)
			r.webhook(m, &s.Webhook, seen)
			s.Options, s.spots = m.options()
		})
		w.Sources = append(w.Sources, s)
	})
	m.items("crms", func(_ int, v value) {
		c := FileCRM{Poll: DefaultPoll}
		v.mapping(func(m *mapping) {
			r.connection(m, "CRM", &c.Kind, &c.Name, names)
			if v, ok := m.get("test_leads"); ok {
				v.boolean(&c.TestLeads)
			}
			take(m, "poll", &c.Poll, pollOf)
			r.webhook(m, &c.Webhook, seen)
			c.Options, c.spots = m.options()
		})
		w.CRMs = append(w.CRMs, c)
	})
}

// connection reads what sources and CRMs have in common.
func (r *reader) connection(m *mapping, what string, kind, name *string, names map[string]int) {
	if !take(m, "kind", kind, connectionKindOf) {
		r.report(m.at(), m.path, flaw{"the " + what + " has no kind", "add kind: with one of those that docs/configuration.md lists"})
	}
	if !take(m, "name", name, connectionNameOf) {
		r.report(m.at(), m.path, flaw{"the " + what + " has no name", "add name: with letters, digits, dashes and underscores"})
	} else if v, _ := m.get("name"); *name != "" {
		once(names, strings.ToLower(*name), v, flaw{"a source or CRM of this name", "give each of a workspace its own name"})
	}
}

// webhook reads the secret part of an address, which stands once among all sources
// and CRMs of the file.
func (r *reader) webhook(m *mapping, into *secret.Secret, seen places) {
	if takeQuiet(m, "webhook", into, webhookOf) && !into.IsZero() {
		at, _ := m.get("webhook")
		once(seen.webhooks, into.Reveal(), at, flaw{"the same key of an address", "give each source and CRM its own"})
	}
}

// options reads every key that was not asked for as a setting of the kind, and
// remembers where it stands.
func (m *mapping) options() (secret.Options, spots) {
	at := spots{file: m.r.name, self: spotOf(m.at(), m.path), keys: map[string]spot{}}
	texts, lists, tables := map[string]string{}, map[string][]string{}, map[string]map[string]string{}
	for _, key := range []string{"kind", "name"} {
		if v, ok := m.get(key); ok {
			at.keys[key] = spotOf(v.at(), v.path)
			if text, ok := v.node.(*ast.StringNode); ok && key == "kind" {
				at.kind = text.Value
			}
		}
	}
	m.rest(func(e entry, v value) {
		at.keys[e.key] = spotOf(e.at, v.path)
		switch v.node.(type) {
		case *ast.SequenceNode:
			lists[e.key] = v.texts()
		case *ast.MappingNode, *ast.MappingValueNode:
			tables[e.key] = v.table()
		default:
			if text, ok := v.setting(); ok {
				texts[e.key] = text
			}
		}
	})
	return secret.NewOptions(texts, lists, tables), at
}

// setting reads a text; true and false are texts too, and a number is taken as it is
// written.
func (v value) setting() (string, bool) {
	if b, ok := v.node.(*ast.BoolNode); ok {
		return strconv.FormatBool(b.Value), true
	}
	s, ok := v.text()
	return s.text, ok
}

func (v value) texts() []string {
	list := []string{}
	v.list(func(_ int, item value) {
		if text, ok := item.setting(); ok {
			list = append(list, text)
		}
	})
	return list
}

func (v value) table() map[string]string {
	table := map[string]string{}
	v.mapping(func(m *mapping) {
		m.rest(func(e entry, v value) {
			if text, ok := v.setting(); ok {
				table[e.key] = text
			}
		})
	})
	return table
}

// rest gives every key that nobody asked for, and makes it known.
func (m *mapping) rest(each func(e entry, v value)) {
	for _, e := range m.entries {
		if !slices.Contains(m.known, e.key) && !slices.Contains(m.later, e.key) {
			each(e, value{r: m.r, node: e.node, path: m.join(e.key)})
			m.known = append(m.known, e.key)
		}
	}
}

// Form is how a setting is written.
type Form int

// The forms.
const (
	Text Form = iota
	List
	Map
)

// Option is a setting that a kind of source or CRM knows.
type Option struct {
	Name     string
	Form     Form
	Required bool
	Help     string // one line

	OneOf []string            // of a text: what it may be; nil: anything
	Keys  map[string][]string // of a map: its keys, each with what it may be; nil: any
	Needs string              // another setting that must stand beside it
	Key   bool                // a word in public that stands once among all
}

// Kinds are the settings of each kind.
type Kinds map[string]Settings

// Settings are those of one kind.
type Settings []Option

// CheckOptions looks over what this package cannot judge, for it does not know the
// kinds: whether each kind of source and CRM is known, and its settings. What is
// wrong comes back as one *Error, as from Parse.
func (f *File) CheckOptions(sources, crms Kinds) error {
	e := &Error{}
	taken := map[string]spot{}
	for i := range f.Workspaces {
		w := &f.Workspaces[i]
		for j := range w.Sources {
			s := &w.Sources[j]
			sources.check(e, "source", s.Kind, s.Options, s.spots, "kind", "name", "webhook")
			sources[s.Kind].values(e, s.Options, s.spots, taken)
		}
		for j := range w.CRMs {
			c := &w.CRMs[j]
			crms.check(e, "CRM", c.Kind, c.Options, c.spots, "kind", "name", "webhook", "test_leads", "poll")
		}
	}
	if len(e.Problems) == 0 {
		return nil
	}
	e.sort()
	return e
}

func (k Kinds) names() []string { return slices.Sorted(maps.Keys(k)) }

func (k Kinds) check(e *Error, what, kind string, o secret.Options, at spots, common ...string) {
	e.File = at.file
	report := func(s spot, f flaw) {
		e.Problems = append(e.Problems, Problem{Line: s.line, Column: s.column, Where: s.path, What: f.what, Fix: f.fix})
	}
	list, known := k[kind]
	if !known {
		report(at.keys["kind"], flaw{fmt.Sprintf("%s is no kind of %s", shown(at.kind), what), suggestion(kind, k.names(), "the kinds are ")})
		return
	}
	names := common
	forms := map[string]Form{}
	for _, option := range list {
		names = append(names, option.Name)
		forms[option.Name] = option.Form
		switch form, set := formOf(o, option.Name); {
		case !set && option.Required:
			report(at.self, flaw{option.Name + " is missing", "add " + option.Name + ": " + option.Help})
		case set && form == option.Form && option.Required && isEmpty(o, option.Name):
			report(at.keys[option.Name], flaw{"the value is empty", "put it in, or set the variable that holds it: " + option.Help})
		}
	}
	for _, name := range o.Names() {
		want, known := forms[name]
		got, _ := formOf(o, name)
		switch {
		case !known:
			report(at.keys[name], flaw{"unknown key", suggestion(name, names, "known here are ")})
		case got != want:
			report(at.keys[name], flaw{fmt.Sprintf("expected %s, found %s", words[want], words[got]), howTo[want]})
		}
	}
}

var (
	words = map[Form]string{Text: "text", List: "a list", Map: "keys with values"}
	howTo = map[Form]string{
		Text: "write one value", List: "write [one, two], or each on a line of its own after a dash",
		Map: "write {key: value}, or each on a line of its own",
	}
)

func suggestion(word string, known []string, all string) string {
	if near := nearest(word, known); near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return all + strings.Join(known, ", ")
}

// formOf tells how a setting is written, and whether it is there at all.
func formOf(o secret.Options, name string) (Form, bool) {
	switch {
	case o.List(name) != nil:
		return List, true
	case o.Map(name) != nil:
		return Map, true
	}
	return Text, o.Has(name)
}

func isEmpty(o secret.Options, name string) bool {
	return strings.TrimSpace(o.Text(name)) == "" && len(o.List(name)) == 0 && len(o.Map(name)) == 0
}
