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
	json []byte            // a JSON object, or nil
	form map[string][]byte // a form's fields, or nil
}

// field returns a field as text.
func (b body) field(name string) []byte {
	if b.json == nil {
		return b.form[name]
	}
	return text(b.raw(name))
}

// raw returns a field as JSON. What stands in a form is JSON already; a JSON body
// may hold it as text once more.
func (b body) raw(name string) []byte {
	if b.json == nil {
		return bytes.TrimSpace(b.form[name])
	}
	var found []byte
	eachMember(b.json, func(n, v []byte) {
		if string(n) == name {
			found = v
		}
	})
	return found
}

// readBody reads the whole body into buf, at most maxBody bytes.
func (g *Graph) readBody(w http.ResponseWriter, r *http.Request, buf *[]byte) ([]byte, *Error) {
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
func readFields(contentType string, raw []byte) (body, *Error) {
	kind, params, _ := mime.ParseMediaType(contentType)
	switch {
	case len(raw) == 0:
		return body{}, nil
	case kind == "application/json":
		raw = bytes.TrimSpace(raw)
		if !json.Valid(raw) || !isObject(raw) {
			return body{}, parameter("The body is not a JSON object")
		}
		return body{json: raw}, nil
	case kind == "multipart/form-data":
		return readMultipart(params["boundary"], raw)
	}
	form, err := url.ParseQuery(string(raw))
	if err != nil {
		return body{}, parameter("The body is not a form")
	}
	b := body{form: make(map[string][]byte, len(form))}
	for k, v := range form {
		b.form[k] = []byte(v[len(v)-1])
	}
	return b, nil
}

func readMultipart(boundary string, raw []byte) (body, *Error) {
	b := body{form: map[string][]byte{}}
	r := multipart.NewReader(bytes.NewReader(raw), boundary)
	for boundary != "" {
		p, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil || len(b.form) >= 100 {
			break
		}
		v, err := io.ReadAll(p)
		if err != nil {
			break
		}
		b.form[strings.TrimSuffix(p.FormName(), "[]")] = v
	}
	return body{}, parameter("The body is not a multipart form")
}
