package tiktok

import (
	"encoding/json"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// escape writes everything beyond ASCII as \uXXXX with lower-case digits, one for each
// unit of UTF-16, as TikTok does before it signs. Bytes that are no UTF-8 stay.
func escape(body []byte) []byte {
	out := make([]byte, 0, len(body)+len(body)/8)
	for len(body) > 0 {
		r, size := utf8.DecodeRune(body)
		switch {
		case r < utf8.RuneSelf || r == utf8.RuneError && size == 1:
			out = append(out, body[0])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = appendUnit(appendUnit(out, high), low)
		default:
			out = appendUnit(out, r)
		}
		body = body[size:]
	}
	return out
}

func appendUnit(out []byte, unit rune) []byte {
	const digits = "0123456789abcdef"
	return append(out, '\\', 'u', digits[unit>>12&0xf], digits[unit>>8&0xf], digits[unit>>4&0xf], digits[unit&0xf])
}

// text is a JSON text, or a number with all its digits: TikTok sends ids as numbers
// beyond what a float holds. What is neither reads as nothing.
type text string

// UnmarshalJSON never fails, so that one odd field does not lose a lead.
func (t *text) UnmarshalJSON(raw []byte) error {
	*t = ""
	if len(raw) == 0 {
		return nil
	}
	switch raw[0] {
	case '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
		*t = text(strings.TrimSpace(s))
	case '{', '[', 'n':
	default:
		*t = text(raw)
	}
	return nil
}

// id returns the text of an id; 0 stands for none.
func (t text) id() string {
	if t == "0" {
		return ""
	}
	return string(t)
}
