package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/capiloop/capiloop/internal/admin"
)

func newDedup() *cobra.Command {
	var s settings
	var q admin.DedupQuery
	var workspace string
	var days int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "dedup",
		Short: "Show how many events of browsers and servers pair, and why others do not",
		Long: `Compares what the tag saw the Pixel report in browsers with what your servers sent:
Meta takes two copies for one event if they have the same name and id within 48 hours.
For those that do not pair it says why, what Meta counts now, and what it would count
after the repair.`,
		Example: "  capiloop dedup --days 7 --event Lead",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q.Days = strconv.Itoa(days)
			return s.withActions(cmd.Context(), cmd.ErrOrStderr(), func(a admin.Actions) error {
				d, err := a.Dedup(cmd.Context(), me, workspace, q)
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd.OutOrStdout(), d)
				}
				return printDedup(cmd.OutOrStdout(), d)
			})
		},
	}
	s.register(cmd)
	f := cmd.Flags()
	f.StringVar(&workspace, "workspace", "", "workspace (needed where there are several)")
	f.IntVar(&days, "days", 7, "how many days back, 12 at most")
	f.StringVar(&q.Dataset, "dataset", "", "one dataset (Pixel) only")
	f.StringVar(&q.Event, "event", "", "one event name only")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printDedup(out io.Writer, d *admin.Dedup) error {
	if len(d.Rows) == 0 {
		_, err := fmt.Fprintln(out, d.NextStep)
		return err
	}
	fmt.Fprintf(out, "Since %s:\n\n", d.From.Format("2006-01-02 15:04 UTC"))
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "BROWSER\tSERVER\tPAIRED\tNOT PAIRED\tONLY BROWSER\tONLY SERVER\tBLOCKED\tMETA COUNTS\tREPAIRED\t  EVENT")
	for i := range d.Rows {
		r := &d.Rows[i]
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t  %s (%s)\n",
			r.Browser, r.Server, r.Paired, r.Unpaired, r.BrowserOnly, r.ServerOnly, r.Blocked, r.Now, r.AfterRepair, r.Event, r.Dataset)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i := range d.Rows {
		r := &d.Rows[i]
		if len(r.Sentences) == 0 {
			continue
		}
		fmt.Fprintf(out, "\n%s (%s)\n", r.Event, r.Dataset)
		for _, text := range r.Sentences {
			fmt.Fprintln(out, "  "+text)
		}
		if r.NextStep != "" {
			fmt.Fprintln(out, "  What to do: "+r.NextStep)
		}
	}
	if d.CutShort {
		fmt.Fprintln(out, "\nThere was more than is compared at once, so this begins later than asked.")
	}
	return nil
}
