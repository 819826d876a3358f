package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/app"
)

const (
	lookEvery = time.Second
	// lookOn is how long the right copy may still come after two that do not pair.
	lookOn = 5 * time.Second
)

func newDedupTest() *cobra.Command {
	var s settings
	var q admin.DedupTestQuery
	var workspace string
	var wait time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "dedup-test",
		Short: "Send a form once, and see whether the browser's and the server's event pair",
		Long: `Watches while you open a page and send its form once, then shows the browser's event
and the server's side by side, whether Meta takes them for one, and if not why, and what
to do. Exit code 0 if they pair, 1 if not or if one of them does not come.

The event counts for Meta like any other. On a busy site name the event, and do it
when nobody else does.`,
		Example: "  capiloop dedup-test --url https://www.example.com/contact --event Lead",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.URL == "" {
				return wrongUsage("dedup-test needs --url, the address of the form's page")
			}
			if wait <= 0 {
				return wrongUsage("--wait is a time such as 5m")
			}
			file, err := s.file()
			if err != nil {
				return err
			}
			if !answers(cmd.Context(), app.SocketPath(file.DataDir)) {
				return errors.New("no server runs on this data folder, so nothing can come in: start it first (capiloop serve)")
			}
			var t *admin.DedupTest
			err = s.withActions(cmd.Context(), cmd.ErrOrStderr(), func(a admin.Actions) (err error) {
				t, err = watchForm(cmd.Context(), a, workspace, q, wait, cmd.ErrOrStderr())
				return err
			})
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), t)
			} else {
				err = printDedupTest(cmd.OutOrStdout(), t)
			}
			if err == nil && !t.Paired {
				err = errFound
			}
			return err
		},
	}
	s.register(cmd)
	f := cmd.Flags()
	f.StringVar(&q.URL, "url", "", "the page with the form")
	f.StringVar(&q.Event, "event", "", "the event that the form makes (any but PageView and ViewContent if left out)")
	f.DurationVar(&wait, "wait", 5*time.Minute, "how long to wait for both")
	f.StringVar(&workspace, "workspace", "", "workspace (found by the page if left out)")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// watchForm asks the server until both copies have come or the time is over. What it says
// meanwhile goes beside the result.
func watchForm(ctx context.Context, a admin.Actions, ws string, q admin.DedupTestQuery, wait time.Duration, out io.Writer) (*admin.DedupTest, error) {
	t, err := a.DedupTest(ctx, me, ws, q)
	if err != nil {
		return nil, err
	}
	q.Since = t.Since
	fmt.Fprintf(out, "Workspace %s, source %s. Now open %s and send the form once.\nAgree to the consent banner, and use a browser without a blocker. Waiting for %s …\n", t.Workspace, t.Source, q.URL, wait)
	end, both := time.Now().Add(wait), time.Time{}
	browser, server := false, false
	for time.Now().Before(end) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lookEvery):
		}
		if t, err = a.DedupTest(ctx, me, t.Workspace, q); err != nil {
			return nil, err
		}
		if t.Browser != nil && !browser {
			browser = true
			fmt.Fprintln(out, "The browser's event is here.")
		}
		if t.Server != nil && !server {
			server = true
			fmt.Fprintln(out, "The server's event is here.")
		}
		switch {
		case t.Paired, !both.IsZero() && t.Both() && time.Since(both) > lookOn:
			return t, nil
		case t.Both() && both.IsZero():
			both = time.Now()
		}
	}
	return t, nil
}

func printDedupTest(out io.Writer, t *admin.DedupTest) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	line := func(what string, of func(c *admin.DedupCopy) string) {
		cells := []string{"(has not come)", "(has not come)"}
		for i, c := range []*admin.DedupCopy{t.Browser, t.Server} {
			if c != nil {
				cells[i] = of(c)
			} else if what != "event" {
				cells[i] = ""
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", what, cells[0], cells[1])
	}
	fmt.Fprintln(w, "\tBROWSER\tSERVER")
	line("event", func(c *admin.DedupCopy) string { return c.Event })
	line("id", func(c *admin.DedupCopy) string {
		if c.Kind == "none" {
			return "none"
		}
		return c.EventID + " (" + c.Kind + ")"
	})
	line("time", func(c *admin.DedupCopy) string { return c.At.Format("15:04:05 UTC") })
	line("dataset", func(c *admin.DedupCopy) string { return c.Dataset })
	line("from", func(c *admin.DedupCopy) string { return c.From })
	line("page", func(c *admin.DedupCopy) string { return c.Page })
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out, "\n"+t.Sentence)
	if t.NextStep != "" {
		fmt.Fprintln(out, "What to do: "+t.NextStep)
	}
	return nil
}
