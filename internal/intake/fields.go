package intake

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/capiloop/capiloop/capi"
)

// maxFields is more than any SDK sends beside data.
const maxFields = 100

// fields are the top-level fields of a request to Graph, however it was encoded.
type fields struct {
	values map[string][]byte
	isJSON bool // the values are JSON; otherwise text
}

// text returns a field as text, "" if it is absent, null or no text.
func (f fields) text(name string) string {
	v, ok := f.values[name]
	if !f.isJSON || !ok {
		return strings.TrimSpace(string(v))
	}
	s, _ := scalar(v)
	return strings.TrimSpace(s)
}

// quoted returns a field as a JSON value where a form has it as plain text.
func (f fields) quoted(name string) (v []byte, present bool) {
	v, present = f.values[name]
	if f.isJSON || !present {
		return v, present && !isNull(v)
	}
	return appendText(nil, strings.TrimSpace(string(v))), len(v) > 0
}

// json returns a field as JSON, looking into a text that holds it. Not ok: the text
// is not JSON.
func (f fields) json(name string) (v []byte, present, ok bool) {
	v, present = f.values[name]
	if !present {
		return nil, false, true
	}
	if f.isJSON {
		v, ok = unwrap(v)
	} else {
		v = bytes.Trim(bytes.TrimPrefix(v, []byte("\uFEFF")), " \t\r\n")
		ok = utf8.Valid(v) && json.Valid(v)
	}
	if len(v) == 0 || isNull(v) {
		return nil, false, true
	}
	return v, true, ok
}

// set refuses a field that comes twice: one of the two would be lost without a word.
func (f fields) set(name string, v []byte) *wrong {
	if _, twice := f.values[name]; twice {
		return &wrong{http.StatusBadRequest, capi.ProblemDuplicateField, "param " + shortKey(name) + " is there twice", "send it once", shortKey(name)}
	}
	if len(f.values) >= maxFields {
		return &wrong{http.StatusBadRequest, "too_many_fields", "the request has more than 100 fields", "send the events in data, as one JSON list", ""}
	}
	f.values[name] = v
	return nil
}

// readFields reads the encodings of Meta's SDKs: JSON (Node, the gateway hook), an
// urlencoded form (Python, Ruby), a multipart form (PHP, Java). What has another type
// or none is JSON if it begins like it, else a form, as Graph takes it.
func readFields(c *call, raw []byte) (fields, *wrong) {
	kind, params := mediaType(c)
	begins := bytes.TrimLeft(bytes.TrimPrefix(raw, []byte("\uFEFF")), " \t\r\n")
	looksJSON := len(begins) > 0 && (begins[0] == '{' || begins[0] == '[')
	switch {
	case kind == "multipart/form-data":
		return readMultipart(params["boundary"], raw)
	case kind == "application/x-www-form-urlencoded":
	case looksJSON, kind != "" && kind != "text/plain" && isJSONType(kind):
		return readObject(raw)
	case kind != "" && kind != "text/plain":
		return fields{}, &wrong{
			http.StatusUnsupportedMediaType, "unsupported_media_type", "a body of this content type cannot be read",
			"send application/json, application/x-www-form-urlencoded or multipart/form-data", "",
		}
	}
	return readForm(raw)
}

func readObject(raw []byte) (fields, *wrong) {
	raw, e := readJSON(raw)
	if e != nil {
		return fields{}, e
	}
	if raw[0] != '{' {
		return fields{}, &wrong{http.StatusBadRequest, capi.ProblemWrongType, "the body must be an object, got " + shape(raw), `send {"data":[…]}`, ""}
	}
	f := fields{values: make(map[string][]byte, 8), isJSON: true}
	eachMember(raw, func(key string, value []byte) bool {
		e = f.set(key, value)
		return e == nil
	})
	return f, e
}

func readForm(raw []byte) (fields, *wrong) {
	f := fields{values: make(map[string][]byte, 8)}
	for pair := range strings.SplitSeq(string(raw), "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err == nil {
			value, err = url.QueryUnescape(value)
		}
		if err != nil {
			return f, &wrong{
				http.StatusBadRequest, "invalid_form", "the body is not a form: a percent sign is not followed by two hexadecimal digits",
				"encode the form with a library", "",
			}
		}
		if e := f.set(formName(name), []byte(value)); e != nil {
			return f, e
		}
	}
	return f, nil
}

func readMultipart(boundary string, raw []byte) (fields, *wrong) {
	f := fields{values: make(map[string][]byte, 8)}
	bad := func(message string) (fields, *wrong) {
		return f, &wrong{http.StatusBadRequest, "invalid_form", message, "build the form with a library", ""}
	}
	if boundary == "" {
		return bad("the content type multipart/form-data names no boundary")
	}
	r := multipart.NewReader(bytes.NewReader(raw), boundary)
	for {
		p, err := r.NextPart()
		if errors.Is(err, io.EOF) && (len(f.values) > 0 || len(raw) == 0) {
			return f, nil
		}
		if err != nil {
			return bad("the body is not a multipart form with the boundary of its content type, or it is cut off")
		}
		v, err := io.ReadAll(p) // of a body that is in memory already
		if err != nil {
			return bad("the body is cut off in the midst of a part")
		}
		if e := f.set(formName(p.FormName()), v); e != nil {
			return f, e
		}
	}
}

// formName takes off the brackets that PHP puts behind the name of a list.
func formName(s string) string { return strings.TrimSuffix(s, "[]") }
