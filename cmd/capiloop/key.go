package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capiloop/capiloop/internal/admin"
)

func newKey() *cobra.Command {
	var s settings
	var workspace string
	cmd := &cobra.Command{
		Use:   "key NAME",
		Short: "Make an API key",
		Long: `Makes an API key and prints it, this once: only its hash is kept. NAME is what
the book calls the source of the events that come with it.`,
		Example: "  capiloop key website --workspace avto-start",
		Args:    oneArgument("capiloop key website"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.withActions(cmd.Context(), cmd.ErrOrStderr(), func(a admin.Actions) error {
				k, err := a.CreateAPIKey(cmd.Context(), me, workspace, args[0])
				if err == nil {
					fmt.Fprintln(cmd.OutOrStdout(), k.Key)
				}
				return err
			})
		},
	}
	s.register(cmd)
	cmd.Flags().StringVar(&workspace, "workspace", "", "workspace (needed where there are several)")
	return cmd
}
