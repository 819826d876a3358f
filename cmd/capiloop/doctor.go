package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/capiloop/capiloop/internal/admin"
)

func newDoctor() *cobra.Command {
	var s settings
	var o admin.DoctorOptions
	var workspace string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check every dataset, lead source and CRM",
		Long: `Asks Meta about the token, the dataset and the time of each dataset, lead sources
about their access to leads, CRMs about their credentials and fields, and says what
to do where something is wrong. Exit code 1 if a check fails.

Nothing is sent. --send-test sends one event to each dataset; events with a
test_event_code count for Meta like any other.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var report *admin.Report
			err := s.withActions(cmd.Context(), cmd.ErrOrStderr(), func(a admin.Actions) (err error) {
				report, err = a.Doctor(cmd.Context(), me, workspace, o)
				return err
			})
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				err = enc.Encode(report)
			} else {
				printReport(cmd.OutOrStdout(), report)
			}
			if err == nil && !report.OK {
				err = errFound
			}
			return err
		},
	}
	s.register(cmd)
	f := cmd.Flags()
	f.StringVar(&workspace, "workspace", "", "only this workspace")
	f.StringVar(&o.Destination, "destination", "", "only this dataset")
	f.BoolVar(&o.Repair, "repair", false, "let CRMs have the custom field for the lead id where they lack it")
	f.BoolVar(&o.SendTest, "send-test", false, "also send one test event (it counts)")
	f.StringVar(&o.TestEventCode, "test-event-code", "", "code from Events Manager, Test events, for --send-test")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printReport(out io.Writer, r *admin.Report) {
	for _, d := range r.Datasets {
		fmt.Fprintf(out, "%s / %s\n", d.Workspace, d.Dataset)
		printChecks(out, d.Checks)
	}
	for _, c := range r.Connections {
		fmt.Fprintf(out, "%s / %s %s (%s)\n", c.Workspace, c.What, c.Name, c.Kind)
		printChecks(out, c.Checks)
	}
	if len(r.Datasets)+len(r.Connections) == 0 {
		fmt.Fprintln(out, "There is nothing to check yet.")
	}
}

func printChecks(out io.Writer, checks []admin.Check) {
	for _, c := range checks {
		mark := "FAIL"
		switch {
		case c.OK:
			mark = "ok"
		case c.Warning:
			mark = "warn"
		}
		fmt.Fprintf(out, "  %-5s %-8s %s\n", mark, c.Name, c.Sentence)
		if c.NextStep != "" {
			fmt.Fprintf(out, "        %-8s → %s\n", "", c.NextStep)
		}
	}
}
