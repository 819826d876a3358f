package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/leadform/csv"
	"github.com/capiloop/capiloop/internal/ledger"
)

// importBatch is how many leads go to the server at once, and importBytes how long
// they may be: the server reads requests of 64 KiB from commands.
const (
	importBatch = 100
	importBytes = 48 << 10
)

// importer reads a file of leads and has them recorded.
type importer struct {
	settings  settings
	workspace string
	options   csv.Options
	columns   []string
	dates     string
	zone      string
	dryRun    bool
	restart   bool
	out       io.Writer
	errOut    io.Writer

	total admin.Imported
	lines int // with a fault
}

func newImport() *cobra.Command {
	i := &importer{}
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Read leads from a file: Meta's exports, or any CSV",
		Long: `Reads leads from a file: Meta's own exports in every encoding (UTF-8, UTF-16,
tabs, edited in a sheet), or any CSV whose columns are told with --column.

The leads are history: kept and counted, but nothing that they reached before now
is ever sent, and they are not carried into a CRM. --live says that they are new.

A faulty line is named and the others go on. An import that was stopped goes on
where it was; a lead that is there already is not taken twice.`,
		Example: "  capiloop import leads.csv --dry-run\n  capiloop import people.csv --column 'E-Mail=email' --column Handy=phone --live",
		Args:    oneArgument("capiloop import leads.csv"),
		RunE: func(cmd *cobra.Command, args []string) error {
			i.out, i.errOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return i.run(cmd.Context(), args[0])
		},
	}
	i.settings.register(cmd)
	f := cmd.Flags()
	f.StringVar(&i.workspace, "workspace", "", "workspace (needed where there are several)")
	f.StringVar(&i.options.Source, "source", "import", "what the leads' source is called")
	f.BoolVar(&i.options.Live, "live", false, "the leads are new, not history")
	f.BoolVar(&i.dryRun, "dry-run", false, "read and check only")
	f.BoolVar(&i.restart, "from-start", false, "do not go on where an earlier import of this file stopped")
	f.StringArrayVar(&i.columns, "column", nil, "HEADER=FIELD: what a column holds (email, phone, full_name, lead_id …; - leaves it out)")
	f.StringVar(&i.dates, "dates", "", "dmy or mdy, for dates such as 05/11/2026")
	f.StringVar(&i.zone, "timezone", "", "time zone of times without one, such as Europe/Madrid (default UTC)")
	return cmd
}

// columnsOf reads --column.
func columnsOf(list []string) (map[string]string, error) {
	columns := make(map[string]string, len(list))
	for _, c := range list {
		header, field, ok := strings.Cut(c, "=")
		if !ok {
			return nil, wrongUsage("--column is HEADER=FIELD, such as 'E-Mail=email'")
		}
		columns[header] = field
	}
	return columns, nil
}

func (i *importer) prepare() (err error) {
	i.options.Now = time.Now()
	if i.options.Columns, err = columnsOf(i.columns); err != nil {
		return err
	}
	switch i.dates {
	case "":
	case "dmy":
		i.options.Dates = csv.DayFirst
	case "mdy":
		i.options.Dates = csv.MonthFirst
	default:
		return wrongUsage("--dates is dmy or mdy")
	}
	if i.zone != "" {
		zone, err := time.LoadLocation(i.zone)
		if err != nil {
			return wrongUsage("--timezone %q is no time zone: want a name such as Europe/Madrid", i.zone)
		}
		i.options.Zone = zone
	}
	return nil
}

func (i *importer) run(ctx context.Context, name string) error {
	if err := i.prepare(); err != nil {
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read the leads: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read the leads: %w", err)
	}
	if i.dryRun {
		err = i.read(ctx, f, info.Size(), func(context.Context, []ledger.Lead) error { return nil }, nil)
	} else {
		err = i.settings.withActions(ctx, i.errOut, func(a admin.Actions) error { return i.into(ctx, a, f, name, info.Size()) })
	}
	if err != nil {
		return err
	}
	if i.dryRun {
		fmt.Fprintf(i.out, "%d leads can be read, %d lines have faults. Nothing was written.\n", i.total.Seen, i.lines)
	} else {
		fmt.Fprintf(i.out, "%d leads read: %d new, %d known already, %d of a person who is there already; %d lines have faults.\n",
			i.total.Seen, i.total.Recorded, i.total.Duplicates, i.total.Merged, i.lines)
	}
	if i.lines > 0 {
		return errFound
	}
	return nil
}

// into records the leads and remembers after each batch how far it came.
func (i *importer) into(ctx context.Context, a admin.Actions, f io.Reader, name string, size int64) error {
	file, err := i.settings.file()
	if err != nil {
		return err
	}
	marks := filepath.Join(file.DataDir, "import-"+filepath.Base(name)+".mark")
	if !i.restart {
		i.options.After = readMark(marks)
	}
	if i.options.After.Line > 0 {
		fmt.Fprintf(i.errOut, "Going on after line %d; --from-start begins anew.\n", i.options.After.Line)
	}
	err = i.read(ctx, f, size, func(ctx context.Context, leads []ledger.Lead) error {
		done, err := a.ImportLeads(ctx, me, i.workspace, leads)
		if err == nil {
			i.total.Recorded += done.Recorded
			i.total.Duplicates += done.Duplicates
			i.total.Merged += done.Merged
		}
		return err
	}, func(m csv.Mark) error { return writeMark(marks, m) })
	if errors.Is(err, csv.ErrChanged) {
		return fmt.Errorf("%w: capiloop import --from-start", err)
	}
	if err == nil {
		err = os.Remove(marks)
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	return err
}

// read passes the leads on in batches. done is told after each batch.
func (i *importer) read(ctx context.Context, f io.Reader, size int64, record func(context.Context, []ledger.Lead) error, done func(csv.Mark) error) error {
	counted := &countingReader{r: f}
	bar := progress{out: i.errOut, size: size, quiet: !isTerminal(i.errOut)}
	defer bar.end()
	var batch []ledger.Lead
	var mark csv.Mark
	held := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		if err := record(ctx, batch); err != nil {
			return err
		}
		batch, held = batch[:0], 0
		bar.show(counted.n, i.total.Seen)
		if done == nil {
			return nil
		}
		return done(mark)
	}
	for row, err := range csv.Read(counted, i.options) {
		if ctx.Err() != nil {
			return errors.Join(flush(), ctx.Err())
		}
		var line *csv.LineError
		switch {
		case errors.As(err, &line):
			i.lines++
			bar.end()
			fmt.Fprintln(i.errOut, line)
			mark = row.Mark
			continue
		case err != nil:
			return errors.Join(flush(), err)
		}
		for _, w := range row.Warnings {
			bar.end()
			fmt.Fprintln(i.errOut, "warning:", w)
		}
		long := lengthOf(&row.Lead)
		if len(batch) == importBatch || held+long > importBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		i.total.Seen++
		batch, mark = append(batch, row.Lead), row.Mark
		held += long
	}
	return flush()
}

// lengthOf is how long a lead is on its way to the server.
func lengthOf(l *ledger.Lead) int {
	b, err := json.Marshal(l)
	if err != nil { // texts, numbers and times always encode
		return 0
	}
	return len(b)
}

func readMark(path string) csv.Mark {
	var m csv.Mark
	if b, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(b, &m) // a mark that cannot be read is none
	}
	return m
}

// writeMark replaces the mark at once, for an import may be killed at any moment.
func writeMark(path string, m csv.Mark) error {
	b, err := json.Marshal(m)
	if err == nil {
		err = os.WriteFile(path+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("remember how far the import came: %w", err)
	}
	return nil
}

// countingReader tells how far a file was read.
type countingReader struct {
	r io.Reader
	n int64
}

// Read reads and counts.
func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// progress is a line that is written over as it goes.
type progress struct {
	out   io.Writer
	size  int64
	what  string // of lines; "" is leads
	quiet bool
	shown bool
}

func (p *progress) show(read int64, leads int) {
	if p.quiet || p.size == 0 {
		return
	}
	p.shown = true
	fmt.Fprintf(p.out, "\r%3d %%  %d %s", min(read*100/p.size, 100), leads, cmp.Or(p.what, "leads"))
}

func (p *progress) end() {
	if p.shown {
		fmt.Fprintln(p.out)
		p.shown = false
	}
}

// isTerminal tells whether a person is watching.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
