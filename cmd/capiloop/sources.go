package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/capiloop/capiloop/internal/admin"
)

func newSources() *cobra.Command {
	var s settings
	var workspace string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "sources",
		Short: "Show where leads and stages come in, with the addresses to enter there",
		Long: `Lists the lead sources of the configuration file and the CRMs that tell of their
stages, each with its address for the webhook settings there, and when it was last
heard of; a website with a site has the snippet for its pages besides. Keep the addresses
to yourself: where nothing is signed, who has one can post leads.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.withActions(cmd.Context(), cmd.ErrOrStderr(), func(a admin.Actions) error {
				list, err := a.Sources(cmd.Context(), me, workspace)
				if err != nil {
					return err
				}
				if asJSON {
					enc := json.NewEncoder(cmd.OutOrStdout())
					enc.SetIndent("", "  ")
					return enc.Encode(list)
				}
				printSources(cmd.OutOrStdout(), list)
				return nil
			})
		},
	}
	s.register(cmd)
	cmd.Flags().StringVar(&workspace, "workspace", "", "only this workspace")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printSources(out io.Writer, list []admin.Source) {
	for _, s := range list {
		seen := "nothing came yet"
		if s.LastSeenAt != nil {
			seen = "last seen " + s.LastSeenAt.Format("2006-01-02 15:04:05 MST")
		}
		kind := s.Kind
		if s.CRM {
			kind += ", tells of stages"
		}
		fmt.Fprintf(out, "%s / %s   %s, %s\n  %s\n", s.Workspace, s.Name, kind, seen, s.URL)
		if s.Snippet != "" {
			fmt.Fprintf(out, "  for the head of its pages: %s\n", s.Snippet)
		}
	}
	if len(list) == 0 {
		fmt.Fprintln(out, "There is no lead source and no CRM that tells of stages. Add one under sources: or crms: in the configuration file.")
	}
}
