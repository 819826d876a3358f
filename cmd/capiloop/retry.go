package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capiloop/capiloop/internal/admin"
)

func newRetry() *cobra.Command {
	var s settings
	var filter admin.Filter
	var workspace, removed string
	var held, drop, now bool
	cmd := &cobra.Command{
		Use:   "retry",
		Short: "Send failed events again, release or drop held ones",
		Long: `Queues failed events again under the same event_id, as far as they are not too
old. What came again meanwhile as a repaired event is left alone.

  capiloop retry                          all that failed
  capiloop retry --reason refused         all that failed for this reason
  capiloop retry --now --destination ID   let a paused or held dataset try at once
  capiloop retry --held                   release events that wait for a person
  capiloop retry --drop                   skip them instead
  capiloop retry --skip-removed ID        skip what waits for a dataset that is gone`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if held && drop {
				return wrongUsage("--held releases and --drop skips: give one of the two")
			}
			return s.withActions(cmd.Context(), cmd.ErrOrStderr(), func(a admin.Actions) error {
				text, err := retry(cmd.Context(), a, workspace, filter, removed, held, drop, now)
				if err == nil {
					fmt.Fprintln(cmd.OutOrStdout(), text)
				}
				return err
			})
		},
	}
	s.register(cmd)
	f := cmd.Flags()
	f.StringVar(&workspace, "workspace", "", "workspace (needed where there are several)")
	f.StringVar(&filter.Destination, "destination", "", "only this dataset")
	f.StringVar(&filter.Event, "event", "", "only the event of this id")
	f.StringVar(&filter.Reason, "reason", "", "only what stands there for this reason (its code)")
	f.BoolVar(&held, "held", false, "release held events instead")
	f.BoolVar(&drop, "drop", false, "skip held events instead")
	f.BoolVar(&now, "now", false, "let the dataset of --destination try at once")
	f.StringVar(&removed, "skip-removed", "", "skip what waits for this removed dataset")
	return cmd
}

func retry(ctx context.Context, a admin.Actions, ws string, f admin.Filter, removed string, held, drop, now bool) (string, error) {
	switch {
	case removed != "":
		n, err := a.SkipRemoved(ctx, me, ws, removed)
		return fmt.Sprintf("Skipped %d events of the removed dataset %s.", n, removed), err
	case now:
		if f.Destination == "" {
			return "", wrongUsage("--now needs --destination, the dataset's id")
		}
		return "Dataset " + f.Destination + " tries at once.", a.TryNow(ctx, me, ws, f.Destination)
	case held:
		n, err := a.Release(ctx, me, ws, f)
		return fmt.Sprintf("Released %d held events.", n), err
	case drop:
		n, err := a.Drop(ctx, me, ws, f)
		return fmt.Sprintf("Dropped %d held events; they count as skipped.", n), err
	}
	n, err := a.Retry(ctx, me, ws, f)
	return fmt.Sprintf("Queued %d failed events again.", n), err
}
