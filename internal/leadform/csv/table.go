package csv

import (
	"errors"
	"io"
	"iter"

	"github.com/capiloop/capiloop/internal/leadform"
)

// Record is a row of any table.
type Record struct {
	Line    int
	Columns []string          // all of the table
	Values  map[string]string // by the name of their column, without those that are empty
	Sum     string            // of all its values: the same row has the same
}

// Table yields the rows of any table, in every encoding that leads are read in. A
// *LineError is of one row, of which only Line is set, and others follow; any other error
// ends the file.
func Table(r io.Reader) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		f, header, err := openTable(r, Options{})
		if err != nil {
			yield(Record{}, err)
			return
		}
		f.columns = make([]column, len(header))
		names := make([]string, len(header))
		for i, name := range header {
			names[i] = leadform.Clean(readable(name))
		}
		for {
			record, line, err := f.record()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Record{Line: line}, err)
				return
			}
			row, err := f.named(record, names, line)
			if !yield(row, err) {
				return
			}
		}
	}
}

// named gives the values the names of their columns. Of two columns of one name it is the
// first that has a value.
func (f *file) named(record, names []string, line int) (Record, error) {
	row := Record{Line: line, Values: make(map[string]string, len(record)), Sum: f.chain(record), Columns: names}
	for i, value := range record {
		value = leadform.Clean(value)
		if value == "" {
			continue
		}
		if i >= len(names) {
			return Record{Line: line}, &LineError{Line: line, Reason: "the line has more values than there are columns", Fix: "put values that hold the delimiter into quotation marks"}
		}
		if name := names[i]; row.Values[name] == "" {
			row.Values[name] = value
		}
	}
	return row, nil
}
