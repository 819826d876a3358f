package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/capiloop/capiloop/internal/admin"
)

func newBackup() *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the database while the server runs",
		Long: `Writes a consistent copy of the SQLite database into a new file, also while the
server is running. The file must not exist. PostgreSQL has pg_dump for this.`,
		Example: "  capiloop backup /backups/capiloop-$(date +%F).db",
		Args:    oneArgument("capiloop backup copy.db"),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			return s.withActions(cmd.Context(), cmd.ErrOrStderr(), func(a admin.Actions) error {
				if err := a.Backup(cmd.Context(), me, file); err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), "Backed up to", file)
				return nil
			})
		},
	}
	s.register(cmd)
	return cmd
}
