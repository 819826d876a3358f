package csv

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// peekSize is how much of the file is looked at to find out how it is written.
const peekSize = 16 << 10

// decoded reads a file as UTF-8, without byte order mark. Meta's downloads are UTF-16
// with a mark, tools drop the mark; what is neither is taken value by value.
func decoded(r io.Reader) (*bufio.Reader, error) {
	raw := bufio.NewReaderSize(r, peekSize)
	head, err := raw.Peek(peekSize)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, err
	}
	order, wide := byteOrder(head)
	if wide {
		return bufio.NewReaderSize(transform.NewReader(raw, unicode.UTF16(order, unicode.UseBOM).NewDecoder()), peekSize), nil
	}
	if strings.HasPrefix(string(head), "\xef\xbb\xbf") {
		if _, err := raw.Discard(3); err != nil {
			return nil, err
		}
	}
	return raw, nil
}

// byteOrder tells UTF-16 by its mark, or by the zeros between ASCII.
func byteOrder(head []byte) (order unicode.Endianness, wide bool) {
	if len(head) < 2 {
		return unicode.LittleEndian, false
	}
	switch {
	case head[0] == 0xff && head[1] == 0xfe:
		return unicode.LittleEndian, true
	case head[0] == 0xfe && head[1] == 0xff:
		return unicode.BigEndian, true
	}
	var zeros [2]int
	for i, b := range head {
		if b == 0 {
			zeros[i%2]++
		}
	}
	most := len(head) / 4
	if zeros[1] > most {
		return unicode.LittleEndian, true
	}
	return unicode.BigEndian, zeros[0] > most
}

// readable takes what is no UTF-8 for Windows-1252, as Excel saves CSV.
func readable(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	text, err := charmap.Windows1252.NewDecoder().String(s)
	if err != nil {
		return strings.ToValidUTF8(s, "")
	}
	return text
}
