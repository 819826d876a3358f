package intake

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"
)

const (
	maxOne    = 1 << 20 // bytes of a request with one event
	maxBody   = 8 << 20 // bytes of any request, packed and unpacked
	maxEvents = 1000    // of one request, as Meta has it
)

// example stands in the fix of every body that cannot be read.
const example = `send an event such as {"event_name":"Lead","event_id":"lead-77","action_source":"system_generated","user_data":{"em":"jane@example.com"}}, or {"data":[…]} with several`

func tooLargeBody() *wrong {
	return &wrong{
		http.StatusRequestEntityTooLarge, "too_large", "the request is larger than 8 MiB (8388608 bytes)",
		"split it into several requests of at most 1000 events and 8 MiB", "",
	}
}

// readBody reads a request's body, unpacked, never more than maxBody bytes.
func readBody(c *call) ([]byte, *wrong) { return readBodyUpTo(c, maxBody, tooLargeBody) }

// readBodyUpTo reads a body of at most so many bytes, packed and unpacked.
func readBodyUpTo(c *call, most int64, tooLarge func() *wrong) ([]byte, *wrong) {
	if c.ContentLength > most {
		return nil, tooLarge()
	}
	limited := http.MaxBytesReader(c.w, c.Body, most)
	switch encoding := strings.ToLower(strings.TrimSpace(c.Header.Get("Content-Encoding"))); encoding {
	case "", "identity":
		return readAll(limited, c.ContentLength, most, tooLarge)
	case "gzip", "x-gzip":
		unpacked, err := gzip.NewReader(limited)
		if err != nil {
			return nil, cutOff(err, "the body is not gzip, as Content-Encoding says", tooLarge)
		}
		return readAll(unpacked, 4*c.ContentLength, most, tooLarge)
	default:
		return nil, &wrong{
			http.StatusUnsupportedMediaType, "unsupported_encoding", "the body is packed in a way that this server does not know",
			"send it as it is, or with Content-Encoding: gzip", "",
		}
	}
}

// readAll reads to the end. The expected size is only believed as far as a caller
// that sends nothing can do no harm with it.
func readAll(r io.Reader, expected, most int64, tooLarge func() *wrong) ([]byte, *wrong) {
	var b bytes.Buffer
	b.Grow(int(min(max(expected, 0), 64<<10)) + bytes.MinRead)
	n, err := b.ReadFrom(io.LimitReader(r, most+1))
	if err != nil {
		return nil, cutOff(err, "the body could not be read to its end", tooLarge)
	}
	if n > most {
		return nil, tooLarge()
	}
	return b.Bytes(), nil
}

func cutOff(err error, message string, tooLarge func() *wrong) *wrong {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge()
	}
	return &wrong{http.StatusBadRequest, "body_unreadable", message, "send the whole body, as long as Content-Length says", ""}
}

// mediaType returns the content type without its parameters; what cannot be read
// counts as it stands.
func mediaType(c *call) (kind string, params map[string]string) {
	value := c.Header.Get("Content-Type")
	if value == "" || value == "application/json" {
		return value, nil
	}
	kind, params, err := mime.ParseMediaType(value)
	if err != nil {
		kind, _, _ = strings.Cut(strings.ToLower(value), ";")
		kind = strings.TrimSpace(kind)
	}
	return kind, params
}

// isJSONType tells whether a body of that type is read as JSON: those that say so,
// and those that say nothing of use.
func isJSONType(kind string) bool {
	switch kind {
	case "", "application/json", "text/json", "text/plain":
		return true
	}
	return strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
}

// readJSON returns the body's JSON, checked, without a byte order mark and white
// space around it.
func readJSON(raw []byte) ([]byte, *wrong) {
	if e := notUTF8(raw); e != nil {
		return nil, e
	}
	b := bytes.Trim(bytes.TrimPrefix(raw, []byte("\uFEFF")), " \t\r\n")
	if len(b) == 0 {
		return nil, &wrong{http.StatusBadRequest, "empty_body", "the body is empty", example, ""}
	}
	if json.Valid(b) {
		return b, nil
	}
	return nil, notJSON(b)
}

// notUTF8 refuses other encodings: guessing one would spoil names.
func notUTF8(raw []byte) *wrong {
	const code, fix = "not_utf8", "send the body in UTF-8"
	if len(raw) > 1 && (raw[0] == 0xFF && raw[1] == 0xFE || raw[0] == 0xFE && raw[1] == 0xFF || raw[0] == 0 && raw[1] == '{' || raw[0] == '{' && raw[1] == 0) {
		return &wrong{http.StatusBadRequest, code, "the body is in UTF-16 or UTF-32", fix, ""}
	}
	if utf8.Valid(raw) {
		return nil
	}
	at := 0
	for at < len(raw) {
		r, size := utf8.DecodeRune(raw[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	line, column := position(raw, at)
	return &wrong{http.StatusBadRequest, code, fmt.Sprintf("the body is not UTF-8 at line %d, column %d", line, column), fix, ""}
}

// notJSON says where the JSON breaks and, for the usual slips, what would be right.
func notJSON(b []byte) *wrong {
	e := &wrong{status: http.StatusBadRequest, code: "invalid_json", fix: example}
	var v json.RawMessage
	err := json.Unmarshal(b, &v)
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		e.message = "the body is not JSON"
		return e
	}
	// The offset counts the byte that was read last, which is the one that is wrong.
	at := min(max(int(syntax.Offset)-1, 0), len(b))
	if strings.Contains(syntax.Error(), "unexpected end") {
		at = len(b)
	}
	line, column := position(b, at)
	e.message = fmt.Sprintf("the body is not JSON: line %d, column %d: %s", line, column, syntax.Error())
	if slip := slipAt(b, at); slip != "" {
		e.fix = slip
	}
	return e
}

// slipAt knows the mistakes that people make most.
func slipAt(b []byte, at int) string {
	if at >= len(b) {
		return "the JSON ends too early: send all of it, with its closing brackets"
	}
	before := bytes.TrimRight(b[:at], " \t\r\n")
	after := byte(0)
	if len(before) > 0 {
		after = before[len(before)-1]
	}
	switch c := b[at]; {
	case at == 0 && c == '<':
		return "this is XML or HTML: " + example
	case at == 0 && bytes.IndexByte(b, '=') > 0:
		return "this is a form: " + example
	case c == '\'':
		return `put names and texts into double quotes: "event_name"`
	case (c == '}' || c == ']') && after == ',':
		return "take away the comma before the closing bracket"
	case c == 'N' || c == 'I' || c == 'u':
		return "JSON has no NaN, Infinity or undefined: leave the member out"
	case c == 'T' || c == 'F':
		return "write true, false and null in small letters"
	case c == '/' || c == '#':
		return "JSON has no comments: take them away"
	case c < ' ':
		return `write line breaks and tabs within a text as \n and \t`
	case (after == '{' || after == ',') && c != '"':
		return `put names into double quotes: "event_name"`
	case c == '{' || c == '[' || c == '"':
		return "put one comma between two values; several events go into one list: [{…},{…}]"
	}
	return ""
}

// position counts lines and columns from 1; a column is one character.
func position(b []byte, at int) (line, column int) {
	start := bytes.LastIndexByte(b[:at], '\n') + 1
	return bytes.Count(b[:at], []byte("\n")) + 1, utf8.RuneCount(b[start:at]) + 1
}
