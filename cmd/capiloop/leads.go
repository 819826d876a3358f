package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/capiloop/capiloop/internal/admin"
)

func newLeads() *cobra.Command {
	var s settings
	var workspace string
	var limit int
	var asJSON, dryRun bool
	cmd := &cobra.Command{
		Use:     "leads [ID]",
		Aliases: []string{"lead"},
		Short:   "List leads, or show the way of one",
		Long: `Lists the newest leads with what became of each, or shows every step of one, found by
our id or its platform's: how it came, its stages in the CRM, and the events made of
it. Who a lead is is never shown here.

--dry-run prints the requests that each CRM would get for an example lead with every
field, without sending them: read it before you change a mapping.`,
		Example: "  capiloop leads\n  capiloop leads 987650000012345\n  capiloop leads --dry-run",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.withActions(cmd.Context(), cmd.ErrOrStderr(), func(a admin.Actions) error {
				if dryRun {
					list, err := a.PreviewLead(cmd.Context(), me, workspace)
					if err != nil {
						return err
					}
					return printPreview(cmd.OutOrStdout(), list, asJSON)
				}
				if len(args) == 1 {
					l, err := a.Lead(cmd.Context(), me, workspace, args[0])
					if err != nil {
						return err
					}
					return printOne(cmd.OutOrStdout(), l, asJSON)
				}
				list, err := a.Leads(cmd.Context(), me, workspace, limit)
				if err != nil {
					return err
				}
				return printLeads(cmd.OutOrStdout(), list, asJSON)
			})
		},
	}
	s.register(cmd)
	f := cmd.Flags()
	f.StringVar(&workspace, "workspace", "", "workspace (needed where there are several)")
	f.IntVar(&limit, "limit", 50, "how many (1 to 500)")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVar(&dryRun, "dry-run", false, "print what each CRM would be sent for an example lead")
	return cmd
}

func printPreview(out io.Writer, list []admin.Preview, asJSON bool) error {
	if asJSON {
		return printJSON(out, list)
	}
	if len(list) == 0 {
		fmt.Fprintln(out, "The workspace has no CRM.")
	}
	for _, p := range list {
		fmt.Fprintf(out, "# %s (%s)\n%s %s\n%s\n\n", p.CRM, p.Kind, p.Method, p.URL, p.Body)
	}
	return nil
}

func printLeads(out io.Writer, list []*admin.Lead, asJSON bool) error {
	if asJSON {
		return printJSON(out, list)
	}
	if len(list) == 0 {
		fmt.Fprintln(out, "There are no leads yet.")
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tCREATED\tSOURCE\tLEAD ID\tFORM\tSTATE")
	for _, l := range list {
		state := l.State
		if l.Test {
			state += ", test"
		}
		if l.History {
			state += ", history"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", l.ID, l.CreatedAt.UTC().Format("2006-01-02 15:04"), l.Source, l.LeadID, l.Form, state)
	}
	return w.Flush()
}

func printOne(out io.Writer, l *admin.Lead, asJSON bool) error {
	if asJSON {
		return printJSON(out, l)
	}
	fmt.Fprintf(out, "Lead %s (%s %s), %s\n", l.ID, l.Kind, l.LeadID, l.State)
	if l.MergedInto != "" {
		fmt.Fprintf(out, "  merged into lead %s by the CRM\n", l.MergedInto)
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, h := range l.Hops {
		fmt.Fprintf(w, "  %s\t%s\t+%s\t%s\n", h.At.UTC().Format("2006-01-02 15:04:05"), h.What, time.Duration(h.TookMS)*time.Millisecond, h.Detail)
	}
	if err := w.Flush(); err != nil || len(l.Events) == 0 {
		return err
	}
	fmt.Fprintln(out, "Events made of it:")
	w = tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, e := range l.Events {
		for _, d := range e.Deliveries {
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t%s\n", time.Unix(e.EventTime, 0).UTC().Format("2006-01-02 15:04:05"), e.Name, e.ID, d.Destination, d.State, d.Sentence)
		}
	}
	return w.Flush()
}

func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func newBackfill() *cobra.Command {
	var s settings
	var workspace string
	var days int
	cmd := &cobra.Command{
		Use:   "backfill SOURCE",
		Short: "Read the leads of the last days from a source's platform, as history",
		Long: `Reads the leads that a source had before it was connected, up to 90 days back.
They are kept and counted as history: nothing that they reached before now is ever
sent, and they are not carried into a CRM. The server must be running.`,
		Example: "  capiloop backfill forms --days 30",
		Args:    oneArgument("capiloop backfill forms --days 30"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if days < 1 || days > 90 {
				return wrongUsage("--days is 1 to 90: platforms keep leads for 90 days")
			}
			return s.withActions(cmd.Context(), cmd.ErrOrStderr(), func(a admin.Actions) error {
				done, err := a.Backfill(cmd.Context(), me, workspace, args[0], time.Now().AddDate(0, 0, -days))
				if err == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "%d leads read: %d new, %d known already.\n", done.Seen, done.Recorded, done.Duplicates)
				}
				return err
			})
		},
	}
	s.register(cmd)
	cmd.Flags().StringVar(&workspace, "workspace", "", "workspace (needed where there are several)")
	cmd.Flags().IntVar(&days, "days", 90, "how far back (1 to 90)")
	return cmd
}
