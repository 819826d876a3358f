package capi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The decoder walks JSON by itself instead of through encoding/json's
// reflection: what callers send has numbers as strings, strings as numbers, lists
// as single values and keys twice, and each of these must become either the right
// value or a named problem, never a silent guess.

var errSyntax = errors.New("not valid JSON")

// object calls member for each member of the JSON object raw, in order. A key that
// comes twice is refused: which of the two values counts would be a guess.
func object(raw []byte, member func(key, value []byte) error) error {
	i := space(raw, 0)
	if i >= len(raw) || raw[i] != '{' {
		return fmt.Errorf("want a JSON object, got %s", shape(raw))
	}
	var room [32][]byte
	seen := room[:0]
	i = space(raw, i+1)
	if i < len(raw) && raw[i] == '}' {
		return nil
	}
	for {
		start := i
		end, err := skip(raw, i)
		if err != nil || raw[start] != '"' {
			return errSyntax
		}
		key := raw[start+1 : end-1]
		if bytes.IndexByte(key, '\\') >= 0 {
			key = []byte(unquote(raw[start:end]))
		} else if !utf8.Valid(key) { // keys that differ in broken letters only are one once they are sent
			key = bytes.ToValidUTF8(key, []byte("\uFFFD"))
		}
		for _, k := range seen {
			if bytes.Equal(k, key) {
				return Problem{
					Field: string(key), Code: ProblemDuplicateField, Severity: SeverityError,
					Reason: "the field stands twice in one object", Fix: "send it once",
				}
			}
		}
		seen = append(seen, key)
		i = space(raw, end)
		if i >= len(raw) || raw[i] != ':' {
			return errSyntax
		}
		start = space(raw, i+1)
		if end, err = skip(raw, start); err != nil {
			return err
		}
		if err := member(key, raw[start:end]); err != nil {
			return err
		}
		i = space(raw, end)
		if i >= len(raw) {
			return errSyntax
		}
		if raw[i] == '}' {
			return nil
		}
		if raw[i] != ',' {
			return errSyntax
		}
		i = space(raw, i+1)
	}
}

// array calls element for each element of the JSON array raw, in order.
func array(raw []byte, element func(value []byte) error) error {
	i := space(raw, 0)
	if i >= len(raw) || raw[i] != '[' {
		return fmt.Errorf("want a JSON list, got %s", shape(raw))
	}
	i = space(raw, i+1)
	if i < len(raw) && raw[i] == ']' {
		return nil
	}
	for {
		end, err := skip(raw, i)
		if err != nil {
			return err
		}
		if err := element(raw[i:end]); err != nil {
			return err
		}
		i = space(raw, end)
		if i >= len(raw) {
			return errSyntax
		}
		if raw[i] == ']' {
			return nil
		}
		if raw[i] != ',' {
			return errSyntax
		}
		i = space(raw, i+1)
	}
}

// skip returns the index behind the JSON value that starts at i. It checks the
// nesting, not the whole grammar: encoding/json has done so before.
func skip(raw []byte, i int) (int, error) {
	if i >= len(raw) {
		return 0, errSyntax
	}
	switch raw[i] {
	case '"':
		return skipString(raw, i)
	case '{', '[':
		depth := 0
		for i < len(raw) {
			switch raw[i] {
			case '"':
				end, err := skipString(raw, i)
				if err != nil {
					return 0, err
				}
				i = end
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1, nil
				}
			}
			i++
		}
		return 0, errSyntax
	}
	start := i
	for i < len(raw) && !isDelimiter(raw[i]) {
		i++
	}
	if i == start {
		return 0, errSyntax
	}
	return i, nil
}

func skipString(raw []byte, i int) (int, error) {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1, nil
		}
	}
	return 0, errSyntax
}

func isDelimiter(c byte) bool {
	switch c {
	case ',', ':', '"', '{', '}', '[', ']', ' ', '\t', '\n', '\r':
		return true
	}
	return false
}

func space(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\t' || raw[i] == '\r') {
		i++
	}
	return i
}

// unquote returns the text of a JSON string; bytes that are not UTF-8 become the
// replacement character.
func unquote(raw []byte) string {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		if utf8.Valid(inner) {
			return string(inner)
		}
		return strings.ToValidUTF8(string(inner), "\uFFFD")
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return ""
	}
	return s
}

// shape names the kind of a JSON value, for messages that must not show the value.
func shape(raw []byte) string {
	raw = bytes.TrimLeft(raw, " \t\r\n")
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

func isNull(raw []byte) bool { return string(raw) == "null" }

// scalar returns the text of a string or number; ok is false for anything else
// but null, which is the empty text.
func scalar(raw []byte) (text string, ok bool) {
	switch raw[0] {
	case '"':
		return unquote(raw), true
	case 'n':
		return "", true
	case '{', '[', 't', 'f':
		return "", false
	}
	return string(raw), true
}
