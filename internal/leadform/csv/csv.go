// Package csv reads files of leads: Meta's own exports in all encodings and states of
// editing, TikTok's downloads, and any table with a map of its columns.
//
// Takes a stream, gives leads line by line, with what is wrong with a line instead
// where something is. Nothing personal stands in an error. Amounts, stages and what
// CRMs add are not read.
package csv

import (
	"bufio"
	"crypto/sha256"
	stdcsv "encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// Name is the kind of the leads.
const Name = "csv"

// Options tell how a file is to be read. The zero value reads Meta's exports as
// history.
type Options struct {
	Workspace int64
	Source    string    // name of the source that the leads get
	Now       time.Time // when a lead without a time was created
	Live      bool      // the leads are new, not history
	// Columns maps a column's header to a standard field (email, full_name …), to a
	// field of the lead (lead_id, created_at, platform, form_id, ad_id, campaign_id,
	// fbclid, gclid, consent …), to a name of one's own, or to - to leave it out.
	Columns map[string]string
	Zone    *time.Location // of times without one; nil is UTC
	Dates   DateOrder      // of dates such as 05/11/2026
	After   Mark           // goes on after this row
}

// DateOrder says which number of a date comes first. It is never guessed.
type DateOrder int

// The orders.
const (
	DatesUnknown DateOrder = iota // such dates are errors
	DayFirst
	MonthFirst
)

// Mark is a place in a file: a line and a sum of all rows up to it, by which a changed
// file is recognised.
type Mark struct {
	Line int
	Sum  string
}

// Row is one row. Where its error is set only Mark is.
type Row struct {
	Mark     Mark
	Lead     ledger.Lead
	Warnings []*LineError // values that were left out
}

// LineError is what is wrong with a row; reading goes on after it.
type LineError struct {
	Line   int
	Column string // its header
	Reason string
	Fix    string
}

// Error tells the line, the column and what is wrong, never the value.
func (e *LineError) Error() string {
	if e.Column == "" {
		return fmt.Sprintf("line %d: %s: %s", e.Line, e.Reason, e.Fix)
	}
	return fmt.Sprintf("line %d, column %q: %s: %s", e.Line, e.Column, e.Reason, e.Fix)
}

// ErrChanged says that a file is not the one that was begun.
var ErrChanged = errors.New("the file has changed since the import was begun: start over, leads that came in already are recognised")

// delimiters part values; the last one only where the file says so.
const delimiters = "\t,;|"

// maxBreaks are the line breaks that one value may have; more is a quotation mark that
// was never closed.
const maxBreaks = 200

// Read yields the rows. A *LineError is of one row and others follow; any other error
// ends the file.
func Read(r io.Reader, o Options) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		f, err := open(r, o)
		if err != nil {
			yield(Row{}, err)
			return
		}
		for {
			row, err := f.next()
			if errors.Is(err, io.EOF) {
				return
			}
			var line *LineError
			if !yield(row, err) || err != nil && !errors.As(err, &line) {
				return
			}
		}
	}
}

// file is a file that is being read.
type file struct {
	o       Options
	records *stdcsv.Reader
	skipped int // lines before what records counts
	columns []column
	meta    bool // an export of Meta's, edited or not
	tiktok  bool
	sum     [sha256.Size]byte // of the rows so far
}

func open(r io.Reader, o Options) (*file, error) {
	f, header, err := openTable(r, o)
	if err == nil {
		err = f.readHeader(header)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// openTable reads the first line.
func openTable(r io.Reader, o Options) (f *file, header []string, err error) {
	text, err := decoded(r)
	if err != nil {
		return nil, nil, fmt.Errorf("read the file: %w", err)
	}
	f = &file{o: o}
	delimiter, err := f.delimiter(text)
	if err != nil {
		return nil, nil, err
	}
	f.records = stdcsv.NewReader(text)
	f.records.Comma, f.records.LazyQuotes, f.records.FieldsPerRecord = delimiter, true, -1
	if header, err = f.records.Read(); err != nil {
		return nil, nil, errEmpty
	}
	f.sum = sha256.Sum256([]byte(strings.Join(header, "\x00")))
	return f, header, nil
}

var errEmpty = errors.New("the file is empty: its first line names the columns")

// delimiter finds what parts the values: what stands most often in the first line. A
// line sep=; as Excel writes it says so.
func (f *file) delimiter(text *bufio.Reader) (rune, error) {
	peeked, err := text.Peek(peekSize)
	if len(peeked) == 0 {
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("read the file: %w", err)
		}
		return 0, errEmpty
	}
	line, _, _ := strings.Cut(strings.TrimLeft(string(peeked), "\r\n"), "\n")
	if sep, ok := strings.CutPrefix(strings.TrimRight(line, "\r"), "sep="); ok && len(sep) == 1 && strings.IndexByte(delimiters, sep[0]) >= 0 {
		if _, err := text.ReadString('\n'); err != nil {
			return 0, errEmpty
		}
		f.skipped = 1
		return rune(sep[0]), nil
	}
	best, most := ',', 0
	for _, c := range delimiters[:3] {
		n, quoted := 0, false
		for _, r := range line {
			switch {
			case r == '"':
				quoted = !quoted
			case r == c && !quoted:
				n++
			}
		}
		if n > most {
			best, most = c, n
		}
	}
	return best, nil
}

// record reads the next record that is not empty, and its line.
func (f *file) record() (record []string, line int, err error) {
	for {
		if record, err = f.records.Read(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil, 0, io.EOF
			}
			return nil, 0, fmt.Errorf("read the file: %w", err)
		}
		line, _ = f.records.FieldPos(0)
		line += f.skipped
		for i, value := range record {
			if f.swallowed(value) {
				return nil, line, fmt.Errorf("line %d, column %d: a quotation mark is opened and not closed, so that the rest of the file cannot be read", line, i+1)
			}
			record[i] = readable(value)
		}
		if strings.TrimSpace(strings.Join(record, "")) != "" {
			return record, line, nil
		}
	}
}

// next reads a row that comes after the mark.
func (f *file) next() (Row, error) {
	for {
		record, line, err := f.record()
		if err != nil {
			if errors.Is(err, io.EOF) && f.o.After.Line > 0 {
				err = ErrChanged
			}
			return Row{}, err
		}
		own := f.chain(record)
		row := Row{Mark: Mark{Line: line, Sum: hex.EncodeToString(f.sum[:])}}
		if after := f.o.After; after.Line > 0 {
			switch {
			case line == after.Line && row.Mark.Sum == after.Sum:
				f.o.After = Mark{}
				continue
			case line >= after.Line:
				return Row{}, ErrChanged
			}
			continue
		}
		return f.lead(row, record, own)
	}
}

// swallowed tells whether a value holds the lines after it, because its quotation mark
// was never closed.
func (f *file) swallowed(value string) bool {
	if strings.Count(value, "\n") > maxBreaks {
		return true
	}
	_, rest, more := strings.Cut(value, "\n")
	if !more || len(f.columns) < 3 {
		return false
	}
	for line := range strings.SplitSeq(rest, "\n") {
		if strings.Count(line, string(f.records.Comma)) >= len(f.columns)-1 {
			return true
		}
	}
	return false
}

// chain adds a record to the sum and returns the record's own.
func (f *file) chain(record []string) string {
	h := sha256.New()
	for _, value := range record {
		h.Write([]byte(strconv.Itoa(len(value)) + ":" + value))
	}
	own := h.Sum(nil)
	f.sum = sha256.Sum256(append(f.sum[:], own...))
	return hex.EncodeToString(own)
}
