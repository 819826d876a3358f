package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/capiloop/capiloop/capi"
)

// maxFile is how large a file may be: a thousand workspaces fit, a database given by
// mistake does not.
const maxFile = 1 << 20

// Load reads a file; env looks an environment variable up, as os.LookupEnv does.
func Load(path string, env func(string) (string, bool)) (*File, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return Parse(path, data, env)
}

// Parse reads what a file holds; name is what errors call it. What is wrong comes
// back as one *Error.
func Parse(name string, data []byte, env func(string) (string, bool)) (*File, error) {
	r := &reader{name: name, env: env}
	if r.env == nil {
		r.env = func(string) (string, bool) { return "", false }
	}
	f := r.file(data)
	if len(r.problems) > 0 {
		e := &Error{File: name, Problems: r.problems}
		e.sort()
		return nil, e
	}
	f.Warnings = r.warnings
	return f, nil
}

func (r *reader) file(data []byte) *File {
	f := Default()
	body, ok := r.body(data)
	if !ok {
		return nil
	}
	value{r: r, node: body}.mapping(func(m *mapping) { r.top(m, f) })
	return f
}

// body reads YAML into a tree.
func (r *reader) body(data []byte) (ast.Node, bool) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	switch {
	case len(data) > maxFile:
		r.report(nil, "", flaw{"the file is larger than 1 MiB", "is it the right one?"})
		return nil, false
	case !utf8.Valid(data) || bytes.ContainsRune(data, 0):
		r.report(nil, "", flaw{"the file is not text in UTF-8", "save it as UTF-8"})
		return nil, false
	}
	tree, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(err)
		return nil, false
	}
	var docs []ast.Node
	for _, d := range tree.Docs {
		if d.Body != nil {
			docs = append(docs, d.Body)
		}
	}
	switch len(docs) {
	case 0:
		return nil, true
	case 1:
		return docs[0], true
	}
	r.report(value{r: r, node: docs[1]}.at(), "", flaw{"a second document begins here (---)", "keep all settings in one"})
	return nil, false
}

// syntax reports what the YAML reader found: its words and the place, never its
// excerpt of the file, in which a token may stand.
func (r *reader) syntax(err error) {
	const fix = "check the indentation, quotes and brackets here and in the line above; a value with ${NAME} between { } or [ ] needs quotes"
	var e yaml.Error
	if !errors.As(err, &e) {
		r.report(nil, "", flaw{"the file cannot be read as YAML", fix})
		return
	}
	at := r.position(nil)
	if t := e.GetToken(); t != nil {
		at = t.Position
	}
	r.report(at, "", flaw{"not valid YAML: " + e.GetMessage(), fix})
}

// top reads the keys of the whole installation.
func (r *reader) top(m *mapping, f *File) {
	take(m, "listen", &f.Listen, listenOf)
	takeQuiet(m, "public_url", &f.PublicURL, publicOf)
	if takeQuiet(m, "database", &f.Database, databaseOf) {
		f.DataDir = dataDir(f.Database.Reveal())
	}
	m.section("graph", func(g *mapping) {
		takeQuiet(g, "url", &f.Graph.URL, baseOf)
		take(g, "version", &f.Graph.Version, versionOf)
	})
	m.items("trusted_proxies", func(_ int, v value) {
		if s, ok := v.text(); ok {
			if p, ok := read(s, false, proxyOf); ok {
				f.TrustedProxies = append(f.TrustedProxies, p)
			}
		}
	})
	m.section("log", func(l *mapping) {
		take(l, "format", &f.Log.Format, formatOf)
		take(l, "level", &f.Log.Level, levelOf)
	})
	if v, ok := m.get("workspaces"); ok {
		f.Workspaces = nil
		r.workspaces(v, f)
	}
	m.refuse("smtp", "intervals")
}

// section reads keys inside of a key.
func (m *mapping) section(key string, read func(m *mapping)) {
	v, ok := m.get(key)
	if !ok {
		return
	}
	v.mapping(read)
}

// items reads a list inside of a key.
func (m *mapping) items(key string, each func(i int, v value)) {
	if v, ok := m.get(key); ok {
		v.list(each)
	}
}

// places remembers where each name stands that must stand once.
type places struct{ workspaces, datasets, keys, webhooks map[string]int }

// once reports a name that stood before.
func once(seen map[string]int, name string, v value, f flaw) {
	at := v.at()
	if line, again := seen[name]; again {
		v.r.report(at, v.path, flaw{fmt.Sprintf("%s stands already at line %d", f.what, line), f.fix})
		return
	}
	line := 0
	if at != nil {
		line = at.Line
	}
	seen[name] = line
}

func (r *reader) workspaces(v value, f *File) {
	seen := places{map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}}
	n := 0
	v.list(func(_ int, item value) {
		n++
		w := newWorkspace()
		item.mapping(func(m *mapping) { r.workspace(m, &w, seen) })
		f.Workspaces = append(f.Workspaces, w)
	})
	_, isList := v.node.(*ast.SequenceNode)
	if n == 0 && (isList || v.empty()) {
		r.report(v.at(), v.path, flaw{"there must be at least one workspace", "add one, or take the key out to get main with the sandbox"})
	}
}

func (r *reader) workspace(m *mapping, w *FileWorkspace, seen places) {
	if !take(m, "name", &w.Name, nameOf) {
		r.report(m.at(), m.path, flaw{"the workspace has no name", "add name: with letters, digits and dashes"})
	} else if v, _ := m.get("name"); w.Name != "" {
		once(seen.workspaces, strings.ToLower(w.Name), v, flaw{"a workspace of this name", "give each its own name"})
	}
	take(m, "country", &w.Country, countryOf)
	take(m, "currency", &w.Currency, currencyOf)
	take(m, "timezone", &w.Timezone, timezoneOf)
	r.keys(m, &w.Keys)
	m.items("api_keys", func(_ int, v value) {
		if s, ok := v.text(); ok {
			if k, ok := read(s, true, apiKeyOf); ok {
				once(seen.keys, k.Reveal(), v, flaw{"the same API key", "give each workspace keys of its own"})
				w.APIKeys = append(w.APIKeys, k)
			}
		}
	})
	m.items("datasets", func(_ int, v value) {
		d := FileDataset{Live: true}
		v.mapping(func(m *mapping) { r.dataset(m, &d, seen) })
		w.Datasets = append(w.Datasets, d)
	})
	r.connections(m, w, seen)
	take(m, "consent", &w.ConsentRequired, consentOf)
	take(m, "merge_window", &w.MergeWindow, mergeWindowOf)
	m.section("retention", func(t *mapping) {
		take(t, "payload", &w.Retention.Payload, payloadOf)
		take(t, "contact", &w.Retention.Contact, contactOf)
		t.refuse("raw", "numbers")
	})
	r.stages(m, w)
	r.guard(m, w)
	m.refuse("alerts", "heartbeat")
}

// keys reads the personal keys that may leave. None at all is refused: in a
// KeySet that would mean every key, the opposite of what the list looks like.
func (r *reader) keys(m *mapping, into *capi.KeySet) {
	v, ok := m.get("keys")
	if !ok {
		return
	}
	_, isList := v.node.(*ast.SequenceNode)
	n := 0
	v.list(func(_ int, item value) {
		n++
		if s, ok := item.text(); ok {
			k, _ := read(s, false, keyOf)
			*into |= k
		}
	})
	if n == 0 && (isList || v.empty()) {
		r.report(v.at(), v.path, flaw{"the list is empty, and an event without any key cannot be matched", "list the keys that may leave, or take the key out to let all of them"})
	}
}

func (r *reader) dataset(m *mapping, d *FileDataset, seen places) {
	if !take(m, "id", &d.ID, datasetOf) {
		r.report(m.at(), m.path, flaw{"the dataset has no id", "add id: with the digits that Events Manager shows, or sandbox"})
	} else if v, _ := m.get("id"); d.ID != "" {
		once(seen.datasets, d.ID, v, flaw{"this dataset", "a dataset belongs to one workspace and stands once"})
	}
	hasToken := takeQuiet(m, "token", &d.Token, secretOf)
	takeQuiet(m, "app_secret", &d.AppSecret, secretOf)
	take(m, "test_event_code", &d.TestEventCode, testCodeOf)
	if v, ok := m.get("live"); ok {
		v.boolean(&d.Live)
	}
	take(m, "api_version", &d.APIVersion, versionOf)
	hasURL := takeQuiet(m, "url", &d.URL, baseOf)
	switch {
	case d.ID == Sandbox && hasURL:
		v, _ := m.get("url")
		r.report(v.at(), v.path, flaw{"the sandbox is inside the process and has no address", "take the key out"})
	case d.ID != "" && d.ID != Sandbox && !hasToken:
		r.report(m.at(), m.path, flaw{"the dataset has no token", "add token: with the one that Events Manager generates (Settings, Conversions API)"})
	}
}
