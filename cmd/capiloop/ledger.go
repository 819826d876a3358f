package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/capiloop/capiloop/internal/admin"
)

func newLedger() *cobra.Command {
	var s settings
	var q admin.LedgerQuery
	var workspace string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "Show what became of everything received",
		Long: `Prints the book: received = sent + waiting + held + skipped + failed, with the
reasons. Times are those of receipt, in whole hours.`,
		Example: "  capiloop ledger --from 2026-11-01 --event Lead",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.withActions(cmd.Context(), cmd.ErrOrStderr(), func(a admin.Actions) error {
				b, err := a.Ledger(cmd.Context(), me, workspace, q)
				if err != nil {
					return err
				}
				if asJSON {
					enc := json.NewEncoder(cmd.OutOrStdout())
					enc.SetIndent("", "  ")
					return enc.Encode(b)
				}
				printBook(cmd.OutOrStdout(), b)
				return nil
			})
		},
	}
	s.register(cmd)
	f := cmd.Flags()
	f.StringVar(&workspace, "workspace", "", "workspace (needed where there are several)")
	f.StringVar(&q.From, "from", "", "from this day or time (2026-11-01 or RFC 3339)")
	f.StringVar(&q.To, "to", "", "until this day or time")
	f.StringVar(&q.Source, "source", "", "only this source")
	f.StringVar(&q.Destination, "destination", "", "only this dataset")
	f.StringVar(&q.Event, "event", "", "only this event name")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printBook(out io.Writer, b *admin.Ledger) {
	fmt.Fprintf(out, "%d received = %d sent + %d waiting + %d held + %d skipped + %d failed   (%d unexplained)\n",
		b.Received, b.Sent, b.Waiting, b.Held, b.Skipped, b.Failed, b.Unexplained)
	for _, l := range b.ByReason {
		if l.Reason != "" || l.State != "sent" {
			fmt.Fprintf(out, "  %8d  %-8s %s\n", l.Count, l.State, l.Sentence)
		}
	}
	fmt.Fprintf(out, "Beside the book: %d duplicates counted once, %d of them for another person; %d rejected at the door.\n",
		b.Beside.Duplicates, b.Beside.DuplicateConflicts, b.Beside.Rejected)
	if b.Beside.History+b.Beside.AlreadySent > 0 {
		fmt.Fprintf(out, "Of stage changes: %d lay before the connection; %d repeated what went before.\n", b.Beside.History, b.Beside.AlreadySent)
	}
}
