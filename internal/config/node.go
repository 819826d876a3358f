package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// reader walks the tree of a YAML file and collects what is wrong with it, so that
// a person mends a file once and not line by line.
type reader struct {
	name     string // of the file
	env      func(string) (string, bool)
	problems []Problem
	warnings []Problem
}

func (r *reader) report(at *token.Position, where string, f flaw) {
	p := Problem{Where: where, What: f.what, Fix: f.fix}
	if at != nil {
		p.Line, p.Column = at.Line, at.Column
	}
	r.problems = append(r.problems, p)
}

// warn notes what is most likely a slip, and may be meant.
func (r *reader) warn(v value, f flaw) {
	p := Problem{Where: v.path, What: f.what, Fix: f.fix}
	if at := v.at(); at != nil {
		p.Line, p.Column = at.Line, at.Column
	}
	r.warnings = append(r.warnings, p)
}

// value is a node with its path.
type value struct {
	r    *reader
	node ast.Node
	path string
}

func (v value) at() *token.Position {
	switch n := v.node.(type) {
	case *ast.MappingNode:
		if len(n.Values) > 0 && !n.IsFlowStyle { // the token is the first colon
			return v.r.position(n.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return v.r.position(n.Key)
	}
	return v.r.position(v.node)
}

func (r *reader) position(n ast.Node) *token.Position {
	if n == nil || n.GetToken() == nil {
		return nil
	}
	return n.GetToken().Position
}

// wrong reports that a value is of another kind than wanted.
func (v value) wrong(want, fix string) {
	var what string
	switch v.node.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		v.r.report(v.at(), v.path, flaw{"anchors (&), aliases (*) and tags (!) are not read", "write the value out; put it in quotes if it begins with such a sign"})
		return
	case *ast.MappingNode, *ast.MappingValueNode:
		what = "keys with values"
	case *ast.SequenceNode:
		what = "a list"
	case *ast.BoolNode:
		what = "true or false"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		what = "a number"
	case *ast.NullNode, nil:
		what = "nothing"
	default:
		what = "text"
	}
	v.r.report(v.at(), v.path, flaw{fmt.Sprintf("expected %s, found %s", want, what), fix})
}

func (v value) empty() bool {
	_, null := v.node.(*ast.NullNode)
	return v.node == nil || null
}

// scalar is a text out of the file.
type scalar struct {
	value
	raw  string // as the file has it
	text string // with the environment's values
}

// text reads a text. A number is taken as it is written, digit by digit, so that an
// id needs no quotes.
func (v value) text() (scalar, bool) {
	s := scalar{value: v}
	switch n := v.node.(type) {
	case *ast.StringNode:
		s.raw = n.Value
	case *ast.LiteralNode:
		s.raw = n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode:
		s.raw = n.GetToken().Value
	case *ast.BoolNode:
		v.wrong("text", "put it in quotes if it is meant as text")
		return s, false
	case *ast.NullNode:
		v.wrong("text", "write a value, or take the key out")
		return s, false
	default:
		v.wrong("text", "")
		return s, false
	}
	var flaws []flaw
	s.text, flaws = expand(s.raw, v.r.env)
	for _, f := range flaws {
		v.r.report(v.at(), v.path, f)
	}
	return s, len(flaws) == 0
}

// read gives a text to a check and reports what it finds. A quiet one is not quoted.
func read[T any](s scalar, quiet bool, check func(string) (T, *flaw)) (T, bool) {
	out, f := check(s.text)
	if f == nil {
		return out, true
	}
	subject := "the value"
	if !quiet {
		subject = shown(s.raw)
	}
	s.r.report(s.at(), s.path, flaw{subject + " " + f.what, f.fix})
	return out, false
}

// boolean reads true or false; a variable may hold it as text.
func (v value) boolean(into *bool) {
	if n, ok := v.node.(*ast.BoolNode); ok {
		*into = n.Value
		return
	}
	n, ok := v.node.(*ast.StringNode)
	if !ok || !strings.Contains(n.Value, "${") {
		v.wrong("true or false", "write true or false, without quotes")
		return
	}
	if s, ok := v.text(); ok {
		if b, ok := read(s, false, boolOf); ok {
			*into = b
		}
	}
}

// list reads a list; what is empty has no items.
func (v value) list(each func(i int, item value)) {
	if v.empty() {
		return
	}
	n, ok := v.node.(*ast.SequenceNode)
	if !ok {
		v.wrong("a list", "write [one, two], or each on a line of its own after a dash")
		return
	}
	for i, item := range n.Values {
		each(i, value{r: v.r, node: item, path: fmt.Sprintf("%s[%d]", v.path, i)})
	}
}

// mapping is a set of keys that is being read. A key is known once it was asked for,
// so that reading a key and knowing it cannot come apart.
type mapping struct {
	value
	entries []entry
	known   []string
	later   []string
}

type entry struct {
	key  string
	at   *token.Position
	node ast.Node
}

// mapping opens a set of keys, gives it to read and reports the keys that read did
// not ask for.
func (v value) mapping(read func(m *mapping)) {
	m := &mapping{value: v}
	var pairs []*ast.MappingValueNode
	switch n := v.node.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		if !v.empty() {
			v.wrong("keys with values", "")
			return
		}
	}
	for _, p := range pairs {
		m.add(p)
	}
	read(m)
	m.done()
}

func (m *mapping) add(p *ast.MappingValueNode) {
	e := entry{at: m.r.position(p.Key), node: p.Value}
	switch k := p.Key.(type) {
	case *ast.StringNode:
		e.key = k.Value
	case *ast.MergeKeyNode:
		m.r.report(e.at, m.path, flaw{"merge keys (<<) are not read", "write the keys out"})
		return
	default:
		m.r.report(e.at, m.path, flaw{"a key must be a plain word", ""})
		return
	}
	for _, before := range m.entries {
		if before.key == e.key {
			m.r.report(e.at, m.join(e.key), flaw{fmt.Sprintf("the key stands already at line %d", before.at.Line), "keep one of the two"})
			return
		}
	}
	m.entries = append(m.entries, e)
}

func (m *mapping) join(key string) string {
	key = strings.Trim(shown(key), `"`)
	if m.path == "" {
		return key
	}
	return m.path + "." + key
}

// get returns a key's value and makes the key known.
func (m *mapping) get(key string) (value, bool) {
	if !slices.Contains(m.known, key) {
		m.known = append(m.known, key)
	}
	for _, e := range m.entries {
		if e.key == key {
			return value{r: m.r, node: e.node, path: m.join(key)}, true
		}
	}
	return value{}, false
}

// take reads a text by a check; it tells whether the key is there, well or not.
func take[T any](m *mapping, key string, into *T, check func(string) (T, *flaw)) bool {
	return m.take(key, func(s scalar) { put(s, false, into, check) })
}

// takeQuiet is take for what must not be quoted in an error.
func takeQuiet[T any](m *mapping, key string, into *T, check func(string) (T, *flaw)) bool {
	return m.take(key, func(s scalar) { put(s, true, into, check) })
}

func put[T any](s scalar, quiet bool, into *T, check func(string) (T, *flaw)) {
	if out, ok := read(s, quiet, check); ok {
		*into = out
	}
}

func (m *mapping) take(key string, do func(s scalar)) bool {
	v, there := m.get(key)
	if !there {
		return false
	}
	if s, ok := v.text(); ok {
		do(s)
	}
	return true
}

// refuse names the keys that belong to a later version: saying so beats "unknown".
func (m *mapping) refuse(keys ...string) { m.later = append(m.later, keys...) }

// done reports every key that nobody asked for.
func (m *mapping) done() {
	for _, e := range m.entries {
		if slices.Contains(m.known, e.key) {
			continue
		}
		f := flaw{"unknown key", "known here are " + strings.Join(m.known, ", ")}
		if slices.Contains(m.later, e.key) {
			f = flaw{"not supported by this version", "take it out; it belongs to a part of capiloop that is still to come"}
		} else if near := nearest(e.key, append(m.known, m.later...)); near != "" {
			f.fix = fmt.Sprintf("did you mean %s?", near)
		}
		m.r.report(e.at, m.join(e.key), f)
	}
}
