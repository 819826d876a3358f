package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
)

func newStagesDryRun() *cobra.Command {
	var s settings
	var workspace, rules string
	var days int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "dry-run",
		Short: "Say what the rules would have sent of the last days, without sending anything",
		Long: `Looks through the leads and stage changes of the last days and says of each event how
many would have been sent, with which keys, and why others would not, as if the rules
had been in force and every dataset live. History is looked at as if it had been told
of at once. Nothing is written and nothing is sent.

--rules tries other rules out: another capiloop.yaml, or a file with the list under
stages: alone. What they would change is shown event by event.`,
		Example: "  capiloop stages dry-run --days 90\n  capiloop stages dry-run --days 90 --rules new-rules.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := admin.DryRunQuery{Days: days}
			if rules != "" {
				list, err := loadRules(&s, rules, workspace)
				if err != nil {
					return err
				}
				q.Rules, q.Other = list, true
			}
			return s.withActions(cmd.Context(), cmd.ErrOrStderr(), func(a admin.Actions) error {
				return dryRun(cmd.Context(), cmd.OutOrStdout(), a, workspace, q, asJSON)
			})
		},
	}
	s.register(cmd)
	f := cmd.Flags()
	f.StringVar(&workspace, "workspace", "", "workspace (needed where there are several)")
	f.IntVar(&days, "days", 90, "how far back (1 to 400)")
	f.StringVar(&rules, "rules", "", "file with other rules to try out")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// loadRules reads rules for a workspace; "" is the only one.
func loadRules(s *settings, path, workspace string) ([]ledger.Rule, error) {
	file, err := s.file()
	if err != nil {
		return nil, err
	}
	for i := range file.Workspaces {
		if w := &file.Workspaces[i]; w.Name == workspace || workspace == "" && len(file.Workspaces) == 1 {
			return config.LoadRules(path, os.LookupEnv, w)
		}
	}
	return nil, wrongUsage("--rules needs --workspace with the name of one in the configuration file")
}

func dryRun(ctx context.Context, out io.Writer, a admin.Actions, workspace string, q admin.DryRunQuery, asJSON bool) error {
	r, err := a.DryRun(ctx, me, workspace, q)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(out, r)
	}
	fmt.Fprintf(out, "The last %d days: %d leads, %d stage changes. Nothing was written, nothing was sent.\n", r.Days, r.Leads, r.Moves)
	if r.Changes != nil {
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "\nNOW\tTHEN\t  WOULD BE SENT")
		for _, c := range r.Changes {
			fmt.Fprintf(w, "%d\t%d\t  %s\n", c.Now, c.Then, c.Event)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	for i := range r.Events {
		printDryEvent(out, &r.Events[i])
	}
	if len(r.Events) == 0 {
		fmt.Fprintln(out, "There are no rules.")
	}
	for _, st := range r.NoRule {
		name := st.Label
		if name == "" {
			name = st.Stage
		}
		fmt.Fprintf(out, "%8d  moves to %s (%s) have no rule\n", st.Moves, name, strings.Join(slices.DeleteFunc([]string{st.Source, place(st.Field, "", st.Pipeline)}, func(s string) bool { return s == "" }), ", "))
	}
	if r.Condition > 0 {
		fmt.Fprintf(out, "%8d  moves fall under rules with a condition, which cannot be judged: the CRM's fields are not kept\n", r.Condition)
	}
	return nil
}

func printDryEvent(out io.Writer, e *admin.DryEvent) {
	fmt.Fprintf(out, "\n%s\n", e.Event)
	line := func(n int, what string) {
		if n > 0 {
			fmt.Fprintf(out, "%8d  %s\n", n, what)
		}
	}
	fmt.Fprintf(out, "%8d  would be sent\n", e.WouldSend)
	line(e.WithValue, "of these with a value")
	line(e.OutsideWindow, "of these more than 28 days after the lead, outside of Meta's window")
	line(e.History, "of these are recorded as history, which is never sent in earnest")
	if len(e.Keys) > 0 {
		keys := slices.Sorted(maps.Keys(e.Keys))
		for i, k := range keys {
			keys[i] = fmt.Sprintf("%s %d", k, e.Keys[k])
		}
		fmt.Fprintf(out, "          keys: %s\n", strings.Join(keys, ", "))
	}
	line(e.Repeats, "more moves would repeat one that went before, and send nothing")
	for _, why := range slices.Sorted(maps.Keys(e.NotSent)) {
		line(e.NotSent[why], why.Sentence())
	}
	line(e.Test, "of test leads: never sent")
	line(e.Cleared, "of leads whose contact is cleared by now: the keys that would have gone are not counted")
}
