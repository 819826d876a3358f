package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capiloop/capiloop/internal/admin"
)

func newRotateKey() *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "rotate-key",
		Short: "Replace the master key",
		Long: `Makes a new master key and wraps the keys of all workspaces with it; leads stay as
they are. It works with a running server, which does it then, and without one. If
it breaks off, run it again.

The old key is kept beside the new one, for backups of the database from before.
With the key in CAPILOOP_MASTER_KEY, put the new one into CAPILOOP_MASTER_KEY_NEXT
of every node and restart them first; afterwards it takes the place of the old one.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.withActions(cmd.Context(), cmd.ErrOrStderr(), func(a admin.Actions) error {
				r, err := a.RotateMasterKey(cmd.Context(), me)
				if err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), rotated(r))
				return nil
			})
		},
	}
	s.register(cmd)
	return cmd
}

func rotated(r *admin.Rotation) string {
	text := fmt.Sprintf("The master key is %s now and wraps %d keys; it is in %s.\n", r.NewKey, r.Keys, r.In)
	if r.OldIn != "" {
		return text + "Keep a copy of it apart from the database's backups. The old one is in " + r.OldIn +
			":\ndelete it along with the last backup from before."
	}
	return text + "Put the new key into CAPILOOP_MASTER_KEY of every node before its next start, and take\n" +
		"CAPILOOP_MASTER_KEY_NEXT out. Keep the old one as long as a backup from before."
}
