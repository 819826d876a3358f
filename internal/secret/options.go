package secret

import (
	"maps"
	"slices"
)

// Options are the settings of a connection (a lead source, a CRM) by name, as the
// configuration has them. Some are secrets, so none of them is ever printed.
type Options struct {
	texts map[string]Secret
	lists map[string][]string
	maps  map[string]map[string]string
}

// NewOptions returns options of texts, lists and maps of texts; nil is none.
func NewOptions(texts map[string]string, lists map[string][]string, tables map[string]map[string]string) Options {
	o := Options{texts: make(map[string]Secret, len(texts)), lists: lists, maps: tables}
	for name, text := range texts {
		o.texts[name] = New(text)
	}
	return o
}

// Text returns a setting that is no secret, "" if it is not there.
func (o Options) Text(name string) string { return o.texts[name].Reveal() }

// Secret returns a setting that is one.
func (o Options) Secret(name string) Secret { return o.texts[name] }

// With returns the options with one text set anew; o stays as it is.
func (o Options) With(name string, value Secret) Options {
	texts := maps.Clone(o.texts)
	if texts == nil {
		texts = make(map[string]Secret)
	}
	texts[name] = value
	o.texts = texts
	return o
}

// Is tells whether a setting is "true", "yes" or "1".
func (o Options) Is(name string) bool {
	switch o.Text(name) {
	case "true", "yes", "1":
		return true
	}
	return false
}

// List returns a setting that is a list.
func (o Options) List(name string) []string { return o.lists[name] }

// Map returns a setting that is a table of texts.
func (o Options) Map(name string) map[string]string { return o.maps[name] }

// Names lists what is set, sorted.
func (o Options) Names() []string {
	names := slices.Collect(maps.Keys(o.texts))
	names = slices.AppendSeq(names, maps.Keys(o.lists))
	names = slices.AppendSeq(names, maps.Keys(o.maps))
	slices.Sort(names)
	return slices.Compact(names)
}

// String names the settings without what they are set to.
func (o Options) String() string { return hidden }

// GoString shows the same as String.
func (o Options) GoString() string { return hidden }
