package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/ledger"
)

func newStages() *cobra.Command {
	var s settings
	var workspace string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stages",
		Short: "List the stages of the CRMs, with what the rules make of each",
		Long: `Lists every stage that a CRM of the workspace has or had: its pipeline, id and name,
how many moves of leads went there, and the event that a rule makes of it. What has no
rule sends nothing. Rules stand under stages: in the configuration file.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.withActions(cmd.Context(), cmd.ErrOrStderr(), func(a admin.Actions) error {
				list, err := a.Stages(cmd.Context(), me, workspace)
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd.OutOrStdout(), list)
				}
				return printStages(cmd.OutOrStdout(), list)
			})
		},
	}
	s.register(cmd)
	cmd.Flags().StringVar(&workspace, "workspace", "", "workspace (needed where there are several)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.AddCommand(newStagesImport(), newStagesDryRun())
	return cmd
}

// sortedEffects returns the effects that were counted, the most frequent first.
func sortedEffects(counts map[ledger.Effect]int) []ledger.Effect {
	return slices.SortedFunc(maps.Keys(counts), func(a, b ledger.Effect) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}

func printStages(out io.Writer, list []admin.Stage) error {
	if len(list) == 0 {
		fmt.Fprintln(out, "No stage is known yet: they come from the CRM's own list, and with the first move.")
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "SOURCE\tPIPELINE\tSTAGE\tID\tMEANING\tMOVES\tLAST\tEVENT")
	var idle, moves int64
	for i := range list {
		s := &list[i]
		last, event, name := "", strings.Join(s.Events, ", "), s.Name()
		if s.LastMoveAt != nil {
			last = s.LastMoveAt.Format("2006-01-02")
		}
		if event == "" {
			event = "no rule"
			idle++
			moves += s.Moves
		}
		if len(s.FormerLabels) > 0 {
			name += " (was " + strings.Join(s.FormerLabels, ", ") + ")"
		}
		if s.GoneAt != nil {
			name += " (gone)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", s.Source, place(s.Field, s.PipelineLabel, s.Pipeline), name, s.ID, s.Meaning, s.Moves, last, event)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if idle > 0 {
		fmt.Fprintf(out, "%d of %d stages have no rule; %d moves went there and sent nothing.\n", idle, len(list), moves)
	}
	return nil
}

// place is what a stage is of: a pipeline, or a field.
func place(field, label, pipeline string) string {
	switch {
	case field != "":
		return "field " + field
	case label != "":
		return label
	}
	return pipeline
}
