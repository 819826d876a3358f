package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sqlite := "unknown"
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, m := range info.Deps {
					if m.Path == "modernc.org/sqlite" {
						sqlite = m.Version
					}
				}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "capiloop %s (%s, %s/%s, SQLite driver %s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH, sqlite)
			return nil
		},
	}
}
