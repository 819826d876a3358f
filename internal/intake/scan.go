package intake

import (
	"bytes"
	"encoding/json"
	"strings"
)

// What is below walks JSON that json.Valid has been over: a body is checked once,
// then taken apart without copying.

// eachMember calls f for each member of the object raw, until f returns false. Keys
// are without escapes.
func eachMember(raw []byte, f func(key string, value []byte) bool) {
	i := blank(raw, 1)
	for i < len(raw) && raw[i] == '"' {
		end := skipText(raw, i)
		key := text(raw[i:end])
		start := blank(raw, blank(raw, end)+1)
		if end = skip(raw, start); !f(key, raw[start:end]) {
			return
		}
		if i = blank(raw, end); i < len(raw) && raw[i] == ',' {
			i = blank(raw, i+1)
		}
	}
}

// eachElement calls f for each element of the list raw, until f returns false.
func eachElement(raw []byte, f func(value []byte) bool) {
	i := blank(raw, 1)
	for i < len(raw) && raw[i] != ']' {
		end := skip(raw, i)
		if !f(raw[i:end]) {
			return
		}
		if i = blank(raw, end); i < len(raw) && raw[i] == ',' {
			i = blank(raw, i+1)
		}
	}
}

// skip returns the index behind the value that starts at i.
func skip(raw []byte, i int) int {
	switch raw[i] {
	case '"':
		return skipText(raw, i)
	case '{', '[':
		for depth := 0; i < len(raw); {
			switch raw[i] {
			case '"':
				i = skipText(raw, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return len(raw)
	}
	for i < len(raw) && strings.IndexByte(",]} \t\r\n", raw[i]) < 0 {
		i++
	}
	return i
}

func skipText(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

func blank(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\t' || raw[i] == '\r') {
		i++
	}
	return i
}

// text returns what a JSON string says.
func text(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return ""
	}
	return s
}

// scalar returns the text of a string or number.
func scalar(raw []byte) (s string, ok bool) {
	switch c := raw[0]; {
	case c == '"':
		return text(raw), true
	case c == '-' || c >= '0' && c <= '9':
		return string(raw), true
	}
	return "", false
}

func isNull(raw []byte) bool { return string(raw) == "null" }

// shape names the kind of a value, for texts that must not show the value.
func shape(raw []byte) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}

// appendText appends s as a JSON string.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7F {
			quoted, err := json.Marshal(s)
			if err != nil { // a string can always be written
				return append(b, `""`...)
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
