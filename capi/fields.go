package capi

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// fields is a JSON object of Graph, read field by field: types differ between
// Meta's pages, libraries and answers, and one odd field must not cost the others.
type fields map[string]json.RawMessage

func parseFields(raw []byte) (fields, bool) {
	var o fields
	if err := json.Unmarshal(raw, &o); err != nil || o == nil {
		return nil, false
	}
	return o, true
}

// text returns a string, or a number or boolean as it is written. Of an object
// it returns the id, if it has one, else the JSON; null and nothing are "".
func (o fields) text(name string) string {
	raw := o[name]
	switch {
	case len(raw) == 0 || isNull(raw):
		return ""
	case raw[0] == '"':
		return unquote(raw)
	case raw[0] == '{':
		if inner, ok := parseFields(raw); ok && inner["id"] != nil {
			return inner.text("id")
		}
	}
	return string(raw)
}

// texts returns a list of texts; a single text is a list of one.
func (o fields) texts(name string) []string {
	list := o.list(name)
	if list == nil {
		if s := o.text(name); s != "" {
			return []string{s}
		}
		return nil
	}
	out := make([]string, 0, len(list))
	for _, raw := range list {
		out = append(out, fields{"v": raw}.text("v"))
	}
	return out
}

// flag accepts true, "true", 1 and "1": pages and answers differ.
func (o fields) flag(name string) bool {
	switch strings.ToLower(o.text(name)) {
	case "true", "1":
		return true
	}
	return false
}

func (o fields) integer(name string) int {
	n, err := strconv.Atoi(o.text(name))
	if err != nil {
		f, ok := o.number(name)
		if !ok || f < -1<<53 || f > 1<<53 {
			return 0
		}
		return int(f)
	}
	return n
}

func (o fields) number(name string) (float64, bool) {
	raw := o[name]
	if len(raw) == 0 || raw[0] == '{' || raw[0] == '[' {
		return 0, false
	}
	return usageNumber(o.text(name))
}

// time accepts ISO 8601 with "+0000" (objects) and Unix seconds (webhooks, debug_token).
func (o fields) time(name string) time.Time {
	s := o.text(name)
	if s == "" || s == "0" {
		return time.Time{}
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return time.Unix(n, 0).UTC()
	}
	for _, layout := range []string{"2006-01-02T15:04:05Z0700", time.RFC3339} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

func (o fields) object(name string) fields {
	inner, _ := parseFields(o[name])
	return inner
}

func (o fields) list(name string) []json.RawMessage {
	var list []json.RawMessage
	if raw := o[name]; len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

// objects returns the objects of a list, also where Graph wraps it in {"data":[…]}.
func (o fields) objects(name string) []fields {
	list := o.list(name)
	if list == nil {
		list = o.object(name).list("data")
	}
	out := make([]fields, 0, len(list))
	for _, raw := range list {
		if inner, ok := parseFields(raw); ok {
			out = append(out, inner)
		}
	}
	return out
}
