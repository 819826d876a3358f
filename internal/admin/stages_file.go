package admin

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/leadform/csv"
	"github.com/capiloop/capiloop/internal/ledger"
)

// StageFile says how a file of stage changes is to be read.
type StageFile struct {
	Open     func() (io.ReadCloser, error) // may be called twice
	Columns  map[string]string             // HEADER to a name that stage changes know, "" or - to leave it out
	DayFirst *bool                         // of dates such as 03/04/2026; nil: told from the whole file
	Zone     *time.Location                // of times without one
	Live     bool                          // the changes are new, not history
	Now      time.Time
}

// StageLine is a line of a file of stage changes.
type StageLine struct {
	Line     int
	Change   ledger.StageChange
	Warnings []*csv.LineError // values that were left out
}

// ReadStages yields the lines of a file of stage changes. A *csv.LineError is of one line
// and others follow; any other error ends the file.
func ReadStages(f StageFile) iter.Seq2[StageLine, error] {
	return func(yield func(StageLine, error) bool) {
		if f.DayFirst == nil {
			first, err := f.dayFirst()
			if err != nil {
				yield(StageLine{}, err)
				return
			}
			f.DayFirst = first
		}
		file, err := f.Open()
		if err != nil {
			yield(StageLine{}, err)
			return
		}
		defer file.Close()
		for row, err := range csv.Table(file) {
			line := StageLine{Line: row.Line}
			if err == nil {
				if err := f.check(row.Columns); err != nil {
					yield(line, err)
					return
				}
				line, err = f.line(row)
			}
			if !yield(line, err) {
				return
			}
		}
	}
}

// dayFirst tells from all dates of the file which number comes first.
func (f *StageFile) dayFirst() (*bool, error) {
	file, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var broken error
	first := crm.DayFirst(func(yield func(map[string]string) bool) {
		for row, err := range csv.Table(file) {
			if _, ok := errors.AsType[*csv.LineError](err); ok {
				continue
			}
			if err != nil {
				broken = err
				return
			}
			if !yield(f.named(row.Values)) {
				return
			}
		}
	})
	return first, broken
}

// check refuses a map of columns that names one that is not there.
func (f *StageFile) check(columns []string) error {
	for name := range f.Columns {
		if !slices.Contains(columns, name) {
			return fmt.Errorf("the file has no column %q that the map of columns names", name)
		}
	}
	return nil
}

// named gives columns the names that the map of columns says.
func (f *StageFile) named(values map[string]string) map[string]string {
	if len(f.Columns) == 0 {
		return values
	}
	out := make(map[string]string, len(values))
	for name, value := range values {
		target, ok := f.Columns[name]
		switch {
		case !ok:
			out[name] = value
		case target != "" && target != "-":
			out[target] = value
		}
	}
	return out
}

func (f *StageFile) line(row csv.Record) (StageLine, error) {
	values := f.named(row.Values)
	change, problems := crm.StageFromRow(values, f.Zone, f.DayFirst, f.Now)
	line := StageLine{Line: row.Line, Change: change}
	for _, p := range problems {
		what := &csv.LineError{Line: row.Line, Column: p.Field, Reason: p.Reason, Fix: p.Fix}
		if p.Severity == capi.SeverityError {
			return StageLine{Line: row.Line}, what
		}
		line.Warnings = append(line.Warnings, what)
	}
	if line.Change.At.IsZero() {
		// The key of a change without a moment holds the minute in which it was read, unless
		// the row has an id of its own; the same row must be the same change next year.
		if later, _ := crm.StageFromRow(values, f.Zone, f.DayFirst, f.Now.Add(time.Hour)); later.Key != change.Key {
			line.Change.Key = "row:" + row.Sum
		}
	}
	line.Change.History = change.History || !f.Live
	return line, nil
}
