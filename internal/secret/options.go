package secret

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"reflect"
	"slices"
)

// Options are the settings of a connection (a lead source, a CRM) by name, as the
// configuration has them. Some are secrets, so none of them is ever printed.
type Options struct {
	in **options // fmt prints what one pointer points to, in a verb that does not fit
	_  [0]func() // no ==
}

type options struct {
	texts map[string]Secret
	lists map[string][]string
	maps  map[string]map[string]string
}

// NewOptions returns options of texts, lists and maps of texts; nil is none.
func NewOptions(texts map[string]string, lists map[string][]string, tables map[string]map[string]string) Options {
	in := &options{texts: make(map[string]Secret, len(texts)), lists: lists, maps: tables}
	for name, text := range texts {
		in.texts[name] = New(text)
	}
	return Options{in: &in}
}

// get returns what is set, which is not to be changed.
func (o Options) get() *options {
	if o.in == nil {
		return &options{}
	}
	return *o.in
}

// Text returns a setting that is no secret, "" if it is not there.
func (o Options) Text(name string) string { return o.Secret(name).Reveal() }

// Secret returns a setting that is one.
func (o Options) Secret(name string) Secret { return o.get().texts[name] }

// With returns the options with one text set anew; o stays as it is.
func (o Options) With(name string, value Secret) Options {
	in := *o.get()
	texts := maps.Clone(in.texts)
	if texts == nil {
		texts = make(map[string]Secret)
	}
	texts[name] = value
	in.texts = texts
	next := &in
	return Options{in: &next}
}

// Has tells whether a setting is there, be it empty.
func (o Options) Has(name string) bool { return slices.Contains(o.Names(), name) }

// Is tells whether a setting is "true", "yes" or "1".
func (o Options) Is(name string) bool {
	switch o.Text(name) {
	case "true", "yes", "1":
		return true
	}
	return false
}

// List returns a setting that is a list.
func (o Options) List(name string) []string { return o.get().lists[name] }

// Map returns a setting that is a table of texts.
func (o Options) Map(name string) map[string]string { return o.get().maps[name] }

// Names lists what is set, sorted.
func (o Options) Names() []string {
	in := o.get()
	names := slices.Collect(maps.Keys(in.texts))
	names = slices.AppendSeq(names, maps.Keys(in.lists))
	names = slices.AppendSeq(names, maps.Keys(in.maps))
	slices.Sort(names)
	return slices.Compact(names)
}

// Equal tells whether both hold the same settings.
func (o Options) Equal(other Options) bool {
	if len(o.Names()) == 0 {
		return len(other.Names()) == 0
	}
	return reflect.DeepEqual(o.get(), other.get())
}

// String shows nothing of the settings.
func (o Options) String() string { return hidden }

// GoString shows the same as String.
func (o Options) GoString() string { return hidden }

// Format writes what String returns, whatever the verb.
func (o Options) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// LogValue returns what String returns, for slog.
func (o Options) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText returns what String returns, for JSON and YAML.
func (o Options) MarshalText() ([]byte, error) { return []byte(hidden), nil }
