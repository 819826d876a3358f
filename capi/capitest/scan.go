package capitest

import (
	"bytes"
	"encoding/json"
)

// The functions of this file walk JSON text that json.Valid has passed, without
// decoding it: a load test pushes tens of thousands of events a second through
// here, and maps of any would cost more than the code under test.

// skipSpace returns the index of the first byte at or after i that is no white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skipString returns the index after the string that begins at b[i].
func skipString(b []byte, i int) int {
	start := i + 1
	for i = start; ; i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b)
		}
		i += n
		slashes := 0
		for k := i - 1; k >= start && b[k] == '\\'; k-- {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}

// skipValue returns the index after the value that begins at b[i]. It counts
// brackets instead of recursing, so that deep nesting costs no stack.
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\r', '\t':
			i++
			continue
		default:
			for i < len(b) && bytes.IndexByte(scalarEnds, b[i]) < 0 {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return len(b)
}

var scalarEnds = []byte(",]} \n\r\t:")

// eachMember calls f with the name and the raw value of each member of an object.
// A value that is no object has no members.
func eachMember(b []byte, f func(name, value []byte)) {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return
	}
	for i = skipSpace(b, i+1); i < len(b) && b[i] == '"'; {
		end := skipString(b, i)
		name := text(b[i:end])
		i = skipSpace(b, end)
		start := skipSpace(b, min(i+1, len(b))) // after the colon
		end = skipValue(b, start)
		f(name, b[start:end])
		if i = skipSpace(b, end); i < len(b) && b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
}

// eachElement calls f with each raw element of an array until f returns false; what
// is no array has none.
func eachElement(b []byte, f func(value []byte) bool) {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '[' {
		return
	}
	for i = skipSpace(b, i+1); i < len(b) && b[i] != ']'; {
		end := skipValue(b, i)
		if end <= i || !f(b[i:end]) {
			return
		}
		if i = skipSpace(b, end); i < len(b) && b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
}

// text returns a string's content, a number's or a boolean's digits, nothing for
// null, objects and arrays. Only a string with escapes is copied.
func text(b []byte) []byte {
	switch {
	case len(b) == 0 || b[0] == '{' || b[0] == '[' || isNull(b):
		return nil
	case b[0] != '"':
		return b
	case len(b) < 2:
		return nil
	case bytes.IndexByte(b, '\\') < 0:
		return b[1 : len(b)-1]
	}
	var s string
	if json.Unmarshal(b, &s) != nil {
		return nil
	}
	return []byte(s)
}

func isNull(b []byte) bool   { return len(b) == 4 && b[0] == 'n' }
func isString(b []byte) bool { return len(b) > 1 && b[0] == '"' }
func isObject(b []byte) bool { return len(b) > 1 && b[0] == '{' }
func isArray(b []byte) bool  { return len(b) > 1 && b[0] == '[' }

// digits reads a plain decimal number of at most 18 digits.
func digits(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}
