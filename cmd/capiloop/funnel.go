package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/capiloop/capiloop/internal/admin"
)

func newFunnel() *cobra.Command {
	var s settings
	var q admin.FunnelQuery
	var workspace string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "funnel",
		Short: "Show how far leads came, by source, campaign, ad, form or answer",
		Long: `Counts the leads that were created in a span of time, and those of them that have
reached each event of the rules until now. A row with fewer than 30 leads is marked:
its rates say nothing yet. --by answer opens the leads to count what they answered in
forms; answers that are long, that only one person gave or that may tell who it is are
left out.`,
		Example: "  capiloop funnel --from 2026-11-01 --to 2026-12-01 --by campaign",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.withActions(cmd.Context(), cmd.ErrOrStderr(), func(a admin.Actions) error {
				f, err := a.Funnel(cmd.Context(), me, workspace, q)
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd.OutOrStdout(), f)
				}
				return printFunnel(cmd.OutOrStdout(), f, q.By)
			})
		},
	}
	s.register(cmd)
	f := cmd.Flags()
	f.StringVar(&workspace, "workspace", "", "workspace (needed where there are several)")
	f.StringVar(&q.From, "from", "", "leads from this day or time on (2026-11-01, in the workspace's time zone, or RFC 3339)")
	f.StringVar(&q.To, "to", "", "leads until this day or time")
	f.StringVar(&q.By, "by", "", "source, campaign, ad, form or answer")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printFunnel(out io.Writer, f *admin.Funnel, by string) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "COUNT\tOF PREVIOUS\tOF FIRST\t  EVENT")
	for _, s := range f.Steps {
		fmt.Fprintf(w, "%d\t%s\t%s\t  %s\n", s.Count, percent(s.OfPrevious), percent(s.OfFirst), s.Event)
	}
	if err := w.Flush(); err != nil || by == "" {
		return err
	}
	fmt.Fprintln(out)
	w = tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "LEADS")
	for _, s := range f.Steps {
		fmt.Fprintf(w, "\t%s\t", s.Event)
	}
	fmt.Fprintf(w, "\t  BY %s\n", by)
	for _, r := range f.Rows {
		fmt.Fprint(w, r.Leads)
		for _, s := range r.Steps {
			fmt.Fprintf(w, "\t%d\t%s", s.Count, percent(s.OfFirst))
		}
		name := r.Name
		if name == "" {
			name = "(not known)"
		}
		if r.TooFew {
			name += "   too few to tell"
		}
		fmt.Fprintf(w, "\t  %s\n", name)
	}
	return w.Flush()
}

// percent writes a share; "" is one of nothing.
func percent(share *float64) string {
	if share == nil {
		return ""
	}
	return strconv.FormatFloat(*share*100, 'f', 1, 64) + " %"
}
