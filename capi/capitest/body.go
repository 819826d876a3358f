package capitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
)

// body is a request's fields, whatever way they were encoded.
type body struct {
	fields map[string][]byte
	json   bool // the fields are raw JSON; otherwise text
}

// field returns a field as text.
func (b body) field(name string) []byte {
	if b.json {
		return text(b.fields[name])
	}
	return b.fields[name]
}

// value returns a field as valid JSON. What stands in a form is JSON text already;
// a JSON body may hold it as text once more. Nil means that there is none; not ok
// that it is no JSON.
func (b body) value(name string) (v []byte, ok bool) {
	v = b.fields[name]
	if b.json && !isString(v) {
		return v, true
	}
	if b.json {
		v = text(v)
	}
	v = bytes.TrimSpace(v)
	return v, len(v) == 0 || json.Valid(v)
}

// readBody reads the whole body into buf, at most maxBody bytes.
func (g *Graph) readBody(w http.ResponseWriter, r *http.Request, buf *[]byte) ([]byte, *graphError) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	b := bytes.NewBuffer((*buf)[:0])
	if n := r.ContentLength; n > 0 && n <= g.maxBody {
		b.Grow(int(n) + bytes.MinRead)
	}
	_, err := b.ReadFrom(http.MaxBytesReader(w, r.Body, g.maxBody))
	*buf = b.Bytes()
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		e := parameter("The request is too large")
		e.Status = http.StatusRequestEntityTooLarge
		return nil, e
	case err != nil:
		return nil, parameter("The body could not be read")
	}
	return b.Bytes(), nil
}

// readFields reads the encodings that Meta's SDKs use: JSON (Node, Java's gateway),
// an urlencoded form (Python, Ruby), a multipart form (PHP, Java). A body without a
// content type is taken for a form, as Graph does.
func readFields(contentType string, raw []byte) (body, *graphError) {
	kind, params, _ := mime.ParseMediaType(contentType)
	switch {
	case len(raw) == 0:
		return body{}, nil
	case kind == "application/json":
		raw = bytes.TrimSpace(raw)
		if !json.Valid(raw) || !isObject(raw) {
			return body{}, parameter("The body is not a JSON object")
		}
		b := body{fields: make(map[string][]byte, 8), json: true}
		eachMember(raw, func(name, v []byte) { b.fields[string(name)] = v })
		return b, nil
	case kind == "multipart/form-data":
		return readMultipart(params["boundary"], raw)
	}
	form, err := url.ParseQuery(string(raw))
	if err != nil {
		return body{}, parameter("The body is not a form")
	}
	b := body{fields: make(map[string][]byte, len(form))}
	for k, v := range form {
		b.fields[k] = []byte(v[len(v)-1])
	}
	return b, nil
}

func readMultipart(boundary string, raw []byte) (body, *graphError) {
	b := body{fields: map[string][]byte{}}
	r := multipart.NewReader(bytes.NewReader(raw), boundary)
	for boundary != "" {
		p, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil || len(b.fields) >= 100 {
			break
		}
		v, err := io.ReadAll(p)
		if err != nil {
			break
		}
		b.fields[strings.TrimSuffix(p.FormName(), "[]")] = v
	}
	return body{}, parameter("The body is not a multipart form")
}
