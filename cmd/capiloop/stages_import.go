package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/leadform/csv"
	"github.com/capiloop/capiloop/internal/ledger"
)

// stageImporter reads a file of stage changes and has them recorded.
type stageImporter struct {
	settings  settings
	workspace string
	source    string
	file      admin.StageFile
	columns   []string
	dates     string
	zone      string
	dryRun    bool
	out       io.Writer
	errOut    io.Writer

	total admin.ImportedStages
	lines int // with a fault
}

func newStagesImport() *cobra.Command {
	i := &stageImporter{}
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Read stage changes from a file",
		Long: `Reads stage changes from a file, one to a line: a CRM's export in any encoding, with
commas, semicolons or tabs. Columns are known by many names (Lead ID, Email, Phone,
Deal ID, Stage, Pipeline, Amount, Currency, Changed at …); --column names others.

The changes are history: kept and counted, never sent. --live says that they are new,
and the rules make events of them; what happened more than seven days ago is too late
for Meta then.

A faulty line is named and the others go on. The same line again is no second change,
so that an import that was stopped is simply started again. --source with the name of a
CRM of the workspace lets its record ids and rules count.`,
		Example: "  capiloop stages import deals.csv --dry-run\n  capiloop stages import deals.csv --source sales --live",
		Args:    oneArgument("capiloop stages import deals.csv"),
		RunE: func(cmd *cobra.Command, args []string) error {
			i.out, i.errOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return i.run(cmd.Context(), args[0])
		},
	}
	i.settings.register(cmd)
	f := cmd.Flags()
	f.StringVar(&i.workspace, "workspace", "", "workspace (needed where there are several)")
	f.StringVar(&i.source, "source", "import", "the CRM that the file is of, or what the changes' source is called")
	f.BoolVar(&i.file.Live, "live", false, "the changes are new, not history")
	f.BoolVar(&i.dryRun, "dry-run", false, "read and check only")
	f.StringArrayVar(&i.columns, "column", nil, "HEADER=FIELD: what a column holds (lead_id, email, phone, stage, amount, occurred_at …; - leaves it out)")
	f.StringVar(&i.dates, "dates", "", "dmy or mdy, for dates such as 05/11/2026 (told from the file where it can be)")
	f.StringVar(&i.zone, "timezone", "", "time zone of times without one, such as Europe/Madrid (default the workspace's)")
	return cmd
}

func (i *stageImporter) prepare() (err error) {
	i.file.Now = time.Now()
	if i.file.Columns, err = columnsOf(i.columns); err != nil {
		return err
	}
	switch i.dates {
	case "":
	case "dmy", "mdy":
		i.file.DayFirst = new(i.dates == "dmy")
	default:
		return wrongUsage("--dates is dmy or mdy")
	}
	if i.zone != "" {
		if i.file.Zone, err = time.LoadLocation(i.zone); err != nil {
			return wrongUsage("--timezone %q is no time zone: want a name such as Europe/Madrid", i.zone)
		}
		return nil
	}
	settings, err := i.settings.file()
	if err != nil {
		return err
	}
	i.file.Zone = zoneOf(settings, i.workspace)
	return nil
}

// zoneOf is the time zone of a workspace; "" is the only one.
func zoneOf(f *config.File, workspace string) *time.Location {
	for i := range f.Workspaces {
		if w := &f.Workspaces[i]; w.Name == workspace || workspace == "" && len(f.Workspaces) == 1 {
			return w.Timezone
		}
	}
	return time.UTC
}

func (i *stageImporter) run(ctx context.Context, name string) error {
	if err := i.prepare(); err != nil {
		return err
	}
	info, err := os.Stat(name)
	if err != nil {
		return fmt.Errorf("read the stage changes: %w", err)
	}
	counted := &countingReader{}
	i.file.Open = func() (io.ReadCloser, error) {
		file, err := os.Open(name)
		*counted = countingReader{r: file}
		return struct {
			io.Reader
			io.Closer
		}{counted, file}, err
	}
	bar := &progress{out: i.errOut, size: info.Size(), what: "stage changes", quiet: !isTerminal(i.errOut)}
	if i.dryRun {
		err = i.read(ctx, bar, counted, func([]ledger.StageChange) error { return nil })
	} else {
		err = i.settings.withActions(ctx, i.errOut, func(a admin.Actions) error {
			return i.read(ctx, bar, counted, func(changes []ledger.StageChange) error {
				done, err := a.ImportStages(ctx, me, i.workspace, i.source, changes)
				if err == nil {
					done.Seen = 0 // counted as they are read
					i.total.Add(done)
				}
				return err
			})
		})
	}
	bar.end()
	if err != nil {
		return err
	}
	i.tell()
	if i.lines > 0 {
		return errFound
	}
	return nil
}

func (i *stageImporter) tell() {
	if i.dryRun {
		fmt.Fprintf(i.out, "%d stage changes can be read, %d lines have faults. Nothing was written.\n", i.total.Seen, i.lines)
		return
	}
	t := &i.total
	fmt.Fprintf(i.out, "%d stage changes read: %d new, %d known already; %d leads that nobody knew; %d events made; %d lines have faults.\n",
		t.Seen, t.Recorded, t.Duplicates, t.NewLeads, t.Events, i.lines)
	for _, effect := range sortedEffects(t.Effects) {
		fmt.Fprintf(i.out, "  %6d  %s\n", t.Effects[effect], effect.Sentence())
	}
}

// read passes the changes on in batches.
func (i *stageImporter) read(ctx context.Context, bar *progress, counted *countingReader, record func([]ledger.StageChange) error) error {
	var batch []ledger.StageChange
	held := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := record(batch)
		batch, held = batch[:0], 0
		bar.show(counted.n, i.total.Seen)
		return err
	}
	for line, err := range admin.ReadStages(i.file) {
		if ctx.Err() != nil {
			return errors.Join(flush(), ctx.Err())
		}
		if faulty, ok := errors.AsType[*csv.LineError](err); ok {
			i.lines++
			bar.end()
			fmt.Fprintln(i.errOut, faulty)
			continue
		}
		if err != nil {
			return errors.Join(flush(), err)
		}
		for _, w := range line.Warnings {
			bar.end()
			fmt.Fprintln(i.errOut, "warning:", w)
		}
		long := changeLength(&line.Change)
		if len(batch) == importBatch || held+long > importBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		i.total.Seen++
		batch = append(batch, line.Change)
		held += long
	}
	return flush()
}

// changeLength is about how long a change is on its way to the server.
func changeLength(c *ledger.StageChange) int {
	n := 0
	for _, part := range []any{c, c.Contact, c.Fields, c.ExternalID} {
		if b, err := json.Marshal(part); err == nil { // texts, numbers and times always encode
			n += len(b)
		}
	}
	return n
}
