package website

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// What a form may hold; what is beyond is refused, for half a form is nobody's.
const (
	maxFields = 1000
	maxValues = 4 * maxFields // of JSON, where builders write several to a field
	maxDepth  = 16
	maxValue  = 64 << 10 // bytes of one value, and of one name
	shownName = 64       // bytes of a name that a refusal repeats
)

// tooLong says that a value, or a name, is longer than a form may hold; "" is fine.
func tooLong(name, value string) string {
	most := ", at most " + itoa(maxValue) + " are taken"
	switch {
	case len(name) > maxValue:
		return "the name of a field is " + itoa(len(name)) + " bytes long" + most
	case len(value) > maxValue:
		if len(name) > shownName {
			name = strings.ToValidUTF8(name[:shownName], "") + "…"
		}
		return "the value of the field " + strconv.Quote(name) + " is " + itoa(len(value)) + " bytes long" + most
	}
	return ""
}

// node is a value of a form in the order in which it came: a text, or members by
// name. A list's members are named 0, 1, 2.
type node struct {
	text    string
	list    bool
	names   []string
	members []*node
}

func (n *node) isLeaf() bool { return !n.list && len(n.names) == 0 }

// at returns what stands at a path, an empty node if nothing does.
func (n *node) at(path ...string) *node {
	for _, name := range path {
		i := slices.Index(n.names, name)
		if i < 0 {
			return &node{}
		}
		n = n.members[i]
	}
	return n
}

// has tells whether all these members are there.
func (n *node) has(names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(n.names, name) })
}

func (n *node) add(name string, member *node) {
	n.names, n.members = append(n.names, name), append(n.members, member)
}

// push adds to a list.
func (n *node) push(member *node) {
	n.list = true
	n.add(itoa(len(n.names)), member)
}

// walk visits the texts, each under its path.
func (n *node) walk(path []string, visit func(path []string, n *node)) {
	for i, m := range n.members {
		below := append(slices.Clip(path), n.names[i])
		if m.isLeaf() {
			visit(below, m)
			continue
		}
		m.walk(below, visit)
	}
}

// decode reads a body of any of the types that forms are sent in. A problem is a
// sentence for who sent it, with nothing of the body in it but a field's name.
func decode(contentType string, body []byte) (tree *node, problem string) {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		media, params = "", nil
	}
	trimmed := bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")))
	switch {
	case media == "multipart/form-data":
		return decodeMultipart(body, params["boundary"])
	case isJSON(media), media != "application/x-www-form-urlencoded" && bytes.HasPrefix(trimmed, []byte("{")):
		return decodeJSON(trimmed)
	case media == "", media == "text/plain", media == "application/x-www-form-urlencoded":
		return decodeForm(string(body))
	}
	return nil, "a form is sent as application/json, application/x-www-form-urlencoded or multipart/form-data"
}

func isJSON(media string) bool {
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

// inputs gathers what comes as names and values.
type inputs struct {
	tree  *node
	count int
}

// add adds an input. A problem says why the form cannot be taken.
func (in *inputs) add(name, value string) (problem string) {
	if in.count++; in.count > maxFields {
		return "the form has more than " + itoa(maxFields) + " fields"
	}
	if problem = tooLong(name, value); problem == "" {
		in.tree.put(name, value)
	}
	return problem
}

func decodeForm(body string) (tree *node, problem string) {
	in := inputs{tree: &node{}}
	for pair := range strings.SplitSeq(strings.TrimSpace(body), "&") {
		name, value, _ := strings.Cut(pair, "=")
		if name == "" {
			continue
		}
		if problem = in.add(unescape(name), unescape(value)); problem != "" {
			return nil, problem
		}
	}
	return in.tree, ""
}

func unescape(s string) string {
	if text, err := url.QueryUnescape(s); err == nil {
		s = text
	}
	return readable(s)
}

// readable reads what is no UTF-8 as Windows-1252, which old pages send.
func readable(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	text, err := charmap.Windows1252.NewDecoder().String(s)
	if err != nil {
		return strings.ToValidUTF8(s, "")
	}
	return text
}

func decodeMultipart(body []byte, boundary string) (tree *node, problem string) {
	const broken = "the multipart form is broken or cut off"
	if boundary == "" {
		return nil, "the multipart form has no boundary in its Content-Type"
	}
	in := inputs{tree: &node{}}
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return in.tree, ""
		}
		if err != nil {
			return nil, broken
		}
		if part.FormName() == "" || part.FileName() != "" { // files are not kept
			continue
		}
		value, err := io.ReadAll(part)
		if err != nil {
			return nil, broken
		}
		if problem = in.add(readable(part.FormName()), readable(string(value))); problem != "" {
			return nil, problem
		}
	}
}

// put adds an input by its name, a[b][c] and a[] as PHP and Rails read them. A name
// that comes again makes a list.
func (n *node) put(name, value string) {
	path := segments(name)
	repeats := path[len(path)-1] == ""
	if repeats && len(path) > 1 {
		path = path[:len(path)-1]
	}
	for _, part := range path[:len(path)-1] {
		i := slices.Index(n.names, part)
		if i < 0 || n.members[i].isLeaf() {
			n.add(part, &node{})
			i = len(n.names) - 1
		}
		n = n.members[i]
	}
	last, leaf := path[len(path)-1], &node{text: value}
	switch i := slices.Index(n.names, last); {
	case i < 0 && repeats:
		list := &node{}
		list.push(leaf)
		n.add(last, list)
	case i < 0:
		n.add(last, leaf)
	case n.members[i].list:
		n.members[i].push(leaf)
	case n.members[i].isLeaf():
		list := &node{}
		list.push(n.members[i])
		list.push(leaf)
		n.members[i] = list
	default:
		n.add(last, leaf)
	}
}

// segments cuts a[b][c] into a, b, c; a name that is not of that form is one segment.
func segments(name string) []string {
	first, rest, ok := strings.Cut(name, "[")
	if !ok || first == "" || !strings.HasSuffix(rest, "]") {
		return []string{name}
	}
	parts := strings.Split(strings.TrimSuffix(rest, "]"), "][")
	if len(parts) >= maxDepth {
		return []string{name}
	}
	return append([]string{first}, parts...)
}

func decodeJSON(body []byte) (tree *node, problem string) {
	const broken = "the body is not JSON; a form is sent as an object of names and values"
	if !json.Valid(body) {
		return nil, broken
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	left := maxValues
	tree, err := decodeValue(d, "", 0, &left)
	if no, ok := errors.AsType[formError](err); ok {
		return nil, string(no)
	}
	if err != nil {
		return nil, broken
	}
	if tree.list && len(tree.members) > 0 && tree.members[0].has("name", "value") {
		return pairs(tree)
	}
	if tree.list || tree.isLeaf() && tree.text != "" {
		return nil, broken
	}
	return tree, ""
}

// pairs reads jQuery's serializeArray, a list of names and values.
func pairs(list *node) (tree *node, problem string) {
	in := inputs{tree: &node{}}
	for _, m := range list.members {
		name := m.at("name").text
		if name == "" {
			continue
		}
		if problem = in.add(name, m.at("value").text); problem != "" {
			return nil, problem
		}
	}
	return in.tree, ""
}

// formError says why a form in JSON is not taken.
type formError string

func (e formError) Error() string { return string(e) }

func decodeValue(d *json.Decoder, name string, depth int, left *int) (*node, error) {
	if *left--; *left < 0 {
		return nil, formError("the form has more than " + itoa(maxValues) + " values")
	}
	if problem := tooLong(name, ""); problem != "" {
		return nil, formError(problem)
	}
	if depth > maxDepth {
		return nil, formError("the form is nested more than " + itoa(maxDepth) + " deep")
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case string:
		return leaf(name, v)
	case json.Number:
		return leaf(name, v.String())
	case bool:
		if v {
			return &node{text: "true"}, nil
		}
		return &node{text: "false"}, nil
	case json.Delim:
		n := &node{list: v == '['}
		for d.More() {
			name := itoa(len(n.names))
			if !n.list {
				key, err := d.Token()
				if err != nil {
					return nil, err
				}
				name, _ = key.(string)
			}
			member, err := decodeValue(d, name, depth+1, left)
			if err != nil {
				return nil, err
			}
			n.add(name, member)
		}
		_, err := d.Token()
		return n, err
	}
	return &node{}, nil // null
}

func leaf(name, text string) (*node, error) {
	if problem := tooLong(name, text); problem != "" {
		return nil, formError(problem)
	}
	return &node{text: text}, nil
}
