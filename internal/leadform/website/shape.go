package website

import (
	"slices"
	"strconv"
	"strings"
)

// field is one input with what the form builder tells about it.
type field struct {
	path   string // from the top of the body, with points
	name   string // the form's own: the last part of the path
	label  string // the question in words, where known
	hint   string // the input's type, where known
	values []string
	deep   bool // inside a list or deeper than two: its name tells little
}

// submission is a form as it was sent, whoever built it.
type submission struct {
	fields []field
	// what builders tell beside the fields
	form, formName, id, at, page, ip, agent string
}

func itoa(n int) string { return strconv.Itoa(n) }

// shape finds out which builder's shape a body has.
func shape(tree *node) submission {
	switch {
	case tree.has("form_response"):
		return typeform(tree.at("form_response"))
	case tree.at("data").has("fields") && tree.at("data", "fields").list:
		return tally(tree.at("data"))
	case tree.at("payload").has("data"):
		return webflow(tree.at("payload"))
	case tree.has("fields") && elementorFields(tree.at("fields")):
		return elementor(tree)
	case tree.has("form_id", "date_created", "source_url"):
		return gravity(tree)
	case tree.at("wpforms").has("fields"):
		return wpforms(tree.at("wpforms"), tree)
	}
	return flat(tree)
}

// isOther tells whether a builder's webhook brings news of something else than a form
// that was sent.
func isOther(tree *node) bool {
	for name, want := range map[string]string{"triggerType": "form_submission", "event_type": "form_response", "eventType": "FORM_RESPONSE"} {
		if tree.has(name) && tree.at(name).text != want && (tree.has("payload") || tree.has("form_response") || tree.has("data")) {
			return true
		}
	}
	return false
}

// flat reads names and values, nested or not. What plugins add for themselves is left
// out.
func flat(tree *node) submission {
	s := submission{form: tree.at("_wpcf7").text}
	s.gather(tree, nil)
	s.fields = slices.DeleteFunc(s.fields, func(f field) bool {
		return strings.HasPrefix(f.name, "_wpcf7") || strings.HasPrefix(f.name, "_wp_http") || strings.HasPrefix(f.name, "_wpnonce") || f.name == "g-recaptcha-response"
	})
	return s
}

// gather adds all texts of a node.
func (s *submission) gather(n *node, path []string) {
	for i, m := range n.members {
		below := append(slices.Clip(path), n.names[i])
		switch {
		case m.isLeaf(), m.list && !slices.ContainsFunc(m.members, func(e *node) bool { return !e.isLeaf() }):
			s.fields = append(s.fields, field{
				path: strings.Join(below, "."), name: n.names[i], values: texts(m), deep: len(below) > 3,
			})
		case m.list && len(m.members) == 1: // address: [{…}]
			s.gather(m.members[0], below)
		case m.list: // several of something: none of them is the person
			first := len(s.fields)
			s.gather(m, below)
			for j := range s.fields[first:] {
				s.fields[first+j].deep = true
			}
		default:
			s.gather(m, below)
		}
	}
}

// texts are the values of a text or of a list of texts.
func texts(n *node) []string {
	if n.isLeaf() {
		return []string{n.text}
	}
	values := make([]string, 0, len(n.members))
	for _, m := range n.members {
		if m.isLeaf() {
			values = append(values, m.text)
		}
	}
	return values
}

func elementorFields(fields *node) bool {
	return slices.ContainsFunc(fields.members, func(m *node) bool { return m.has("value") })
}

// elementor is the "advanced data" of Elementor Pro's webhook; the simple data is flat.
func elementor(tree *node) submission {
	meta := tree.at("meta")
	s := submission{
		form: tree.at("form", "id").text, formName: tree.at("form", "name").text,
		page: meta.at("page_url", "value").text, ip: meta.at("remote_ip", "value").text, agent: meta.at("user_agent", "value").text,
	}
	fields := tree.at("fields")
	for i, m := range fields.members {
		value := m.at("raw_value")
		if value.isLeaf() && value.text == "" {
			value = m.at("value")
		}
		s.fields = append(s.fields, field{
			path: "fields." + fields.names[i], name: fields.names[i], label: m.at("title").text, hint: m.at("type").text, values: texts(value),
		})
	}
	for i, name := range tree.names { // hidden inputs beside
		if m := tree.members[i]; m.isLeaf() {
			s.fields = append(s.fields, field{path: name, name: name, values: texts(m)})
		}
	}
	return s
}

func webflow(payload *node) submission {
	s := submission{
		form: payload.at("formId").text, formName: payload.at("name").text, id: payload.at("id").text, at: payload.at("submittedAt").text,
		page: payload.at("pageUrl").text,
	}
	s.gather(payload.at("data"), []string{"payload", "data"})
	for i := range s.fields {
		s.fields[i].label = s.fields[i].name
	}
	return s
}

func typeform(response *node) submission {
	s := submission{
		form: response.at("form_id").text, formName: response.at("definition", "title").text,
		id: response.at("token").text, at: response.at("submitted_at").text,
	}
	titles := map[string]string{}
	for _, q := range response.at("definition", "fields").members {
		titles[q.at("id").text] = q.at("title").text
	}
	for _, a := range response.at("answers").members {
		hint, id := a.at("type").text, a.at("field", "id").text
		f := field{name: a.at("field", "ref").text, label: titles[id], hint: hint}
		if f.name == "" {
			f.name = id
		}
		f.path = "form_response.answers." + f.name
		switch value := a.at(hint); {
		case value.has("labels"):
			f.values = append(texts(value.at("labels")), value.at("other").text)
		case value.has("label"), value.has("other"):
			f.values = []string{value.at("label").text, value.at("other").text}
		default:
			f.values = texts(value)
		}
		s.fields = append(s.fields, f)
	}
	s.gather(response.at("hidden"), []string{"form_response", "hidden"})
	return s
}

func tally(data *node) submission {
	s := submission{
		form: data.at("formId").text, formName: data.at("formName").text, id: data.at("submissionId").text, at: data.at("createdAt").text,
	}
	if s.id == "" {
		s.id = data.at("responseId").text
	}
	for _, q := range data.at("fields").members {
		options := map[string]string{}
		for _, o := range q.at("options").members {
			options[o.at("id").text] = o.at("text").text
		}
		f := field{name: q.at("key").text, label: q.at("label").text, hint: q.at("type").text, values: texts(q.at("value"))}
		for i, v := range f.values {
			if text, ok := options[v]; ok {
				f.values[i] = text
			}
		}
		if f.hint == "HIDDEN_FIELDS" {
			f.name = f.label
		}
		f.path = "data.fields." + f.name
		s.fields = append(s.fields, f)
	}
	return s
}

// gravity is an entry of Gravity Forms. Its inputs are numbers, 1.3 for a part of the
// first; what they ask, only the field map knows.
func gravity(tree *node) submission {
	s := submission{
		form: tree.at("form_id").text, id: tree.at("id").text, at: tree.at("date_created").text,
		page: tree.at("source_url").text, ip: tree.at("ip").text, agent: tree.at("user_agent").text,
	}
	s.gather(tree, nil)
	s.fields = slices.DeleteFunc(s.fields, func(f field) bool {
		if f.name == "" || f.name[0] >= '0' && f.name[0] <= '9' {
			return false
		}
		_, isMeta := metaFields[key(f.name)]
		return !isMeta || slices.Contains([]string{"form_id", "source_url", "ip", "user_agent", "date_created"}, f.name)
	})
	return s
}

// wpforms is a form of WPForms as the page posts it; its webhooks send flat names.
func wpforms(form, tree *node) submission {
	s := submission{form: form.at("id").text, page: tree.at("page_url").text}
	s.gather(form.at("fields"), []string{"wpforms", "fields"})
	for i, name := range tree.names {
		if m := tree.members[i]; m.isLeaf() {
			s.fields = append(s.fields, field{path: name, name: name, values: texts(m)})
		}
	}
	return s
}
