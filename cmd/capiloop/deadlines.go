package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/capiloop/capiloop/internal/admin"
)

func newDeadlines() *cobra.Command {
	var s settings
	var workspace, within string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "deadlines",
		Short: "List what would be lost by its deadline soon, and what to do",
		Long: `Meta takes an event for seven days after it happened. This lists what waits or is held
and would be too late soon, the soonest first, with the reason and what to do.

Exit code 1 says that there is something.`,
		Example: "  capiloop deadlines --within 48h",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.withActions(cmd.Context(), cmd.ErrOrStderr(), func(a admin.Actions) error {
				list, err := a.Deadlines(cmd.Context(), me, workspace, within)
				switch {
				case err != nil:
					return err
				case asJSON:
					err = printJSON(cmd.OutOrStdout(), list)
				default:
					err = printDeadlines(cmd.OutOrStdout(), list, within)
				}
				if err == nil && len(list) > 0 {
					err = errFound
				}
				return err
			})
		},
	}
	s.register(cmd)
	f := cmd.Flags()
	f.StringVar(&workspace, "workspace", "", "workspace (needed where there are several)")
	f.StringVar(&within, "within", "24h", "how soon")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printDeadlines(out io.Writer, list []admin.Deadline, within string) error {
	if len(list) == 0 {
		fmt.Fprintf(out, "Nothing is too late within %s.\n", within)
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "LEFT\tCOUNT\tEVENT\tDESTINATION\tSTATE\tREASON")
	for _, d := range list {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", (time.Duration(d.LeftS) * time.Second).Truncate(time.Minute), d.Count, d.Event, d.Destination, d.State, d.Reason)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	told := map[string]bool{}
	for _, d := range list {
		if line := string(d.Reason) + ": " + d.Sentence + " " + d.NextStep; !told[line] {
			told[line] = true
			fmt.Fprintln(out, "\n"+line)
		}
	}
	return nil
}
