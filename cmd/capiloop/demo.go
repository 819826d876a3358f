package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/capiloop/capiloop/capi/capitest"
	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/app"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/secret"
)

func newDemo() *cobra.Command {
	var listen, sandboxListen, data string
	var once bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show everything on this machine, without a Meta account",
		Long: `Starts the gateway with the sandbox in Meta's place, sends it the events of a
driving school's week, some broken on purpose, and prints the address of a page
that shows what became of each. It keeps running until you stop it.

Nothing leaves this machine; the data lies in a temporary folder that goes with
the demo, unless --data keeps it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := demo{listen: listen, sandboxListen: sandboxListen, data: data, once: once, out: cmd.OutOrStdout(), errOut: cmd.ErrOrStderr()}
			return d.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", config.DefaultListen, "address of the gateway and its page (this machine only)")
	f.StringVar(&sandboxListen, "sandbox-listen", "127.0.0.1:8090", "address of the stand-in for Meta")
	f.StringVar(&data, "data", "", "keep the data in this folder")
	f.BoolVar(&once, "once", false, "stop when the events are through, for a look at the figures")
	return cmd
}

type demo struct {
	listen, sandboxListen, data string
	once                        bool
	out, errOut                 io.Writer
}

func (d *demo) run(ctx context.Context) error {
	if err := onlyLocal(d.listen); err != nil {
		return err
	}
	if d.data == "" {
		folder, err := os.MkdirTemp("", "capiloop-demo-")
		if err != nil {
			return fmt.Errorf("make a folder for the demo: %w", err)
		}
		defer os.RemoveAll(folder)
		d.data = folder
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	graph := app.NewSandbox(clockNow)
	graph.Fault(capitest.Fault{Mode: capitest.ModePoison, Code: 100, Subcode: 2804036, EventID: demoDeletedLead})
	listener, err := listenSandbox(ctx, d.sandboxListen)
	if err != nil {
		return err
	}
	d.sandboxListen = listener.Addr().String() // port 0 is a real one now
	sandboxDone := make(chan error, 1)
	go func() { sandboxDone <- serveSandbox(ctx, graph, listener) }()

	file := config.Default()
	if err := file.Apply(config.Overrides{Listen: d.listen, DataDir: d.data}); err != nil {
		return usageError{err}
	}
	file.Workspaces[0].Name = "avto-start"
	file.Workspaces[0].Country, file.Workspaces[0].Currency = "KZ", "KZT"
	key := secret.New("demo-key-of-avto-start")
	file.Workspaces[0].APIKeys = []secret.Secret{key}
	a, err := app.New(app.Options{
		File: file, Log: nil, Version: version, Pages: true, Sandbox: graph, SandboxURL: "http://" + d.sandboxListen + "/",
	})
	if err != nil {
		return err
	}
	if err := a.Start(ctx); err != nil {
		return err
	}
	err = d.show(ctx, a, key.Reveal())
	if err == nil && !d.once {
		select {
		case <-ctx.Done():
		case err = <-sandboxDone:
			sandboxDone <- nil
		}
	}
	stop()
	return errors.Join(err, a.Stop(ctx), <-sandboxDone)
}

// onlyLocal refuses addresses that others can reach: the demo's pages have no login.
func onlyLocal(listen string) error {
	host, _, err := net.SplitHostPort(listen)
	ip := net.ParseIP(host)
	if err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return wrongUsage("the demo has no login and listens on this machine only: --listen 127.0.0.1:PORT")
	}
	return nil
}

// show sends the week's events through the front door and prints what to look at.
func (d *demo) show(ctx context.Context, a *app.App, key string) error {
	week := filepath.Join(d.data, "week.jsonl")
	if err := os.WriteFile(week, demoWeek(clockNow.Now()), 0o600); err != nil {
		return fmt.Errorf("write the demo's events: %w", err)
	}
	s := sender{url: "http://" + a.Addr(), key: key, batch: 50, client: localClient(), out: io.Discard, errOut: io.Discard}
	if err := s.sendFile(ctx, week, nil); err != nil && !errors.Is(err, errFound) {
		return err
	}
	book, err := settled(ctx, a)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, `Capiloop's demo: a driving school's week, with the sandbox in Meta's place.

  Sent through the front door: %d events, %d repeats, %d turned away with a reason.
`, s.accepted, s.duplicates, s.rejected)
	fmt.Fprint(d.out, "  ")
	printBook(d.out, book)
	fmt.Fprintf(d.out, `
  What became of each:      http://%s/
  What the sandbox got:     http://%s/
  Send one yourself:

    curl http://%s/v1/events -H 'Authorization: Bearer %s' -H 'Content-Type: application/json' \
      -d '{"event_name":"Lead","action_source":"website","event_source_url":"https://example.com/","user_data":{"em":"you@example.com","client_user_agent":"curl"}}'

`, a.Addr(), d.sandboxListen, a.Addr(), key)
	if !d.once {
		fmt.Fprintln(d.out, "Stop it with Ctrl-C.")
	}
	return nil
}

// settled waits until nothing is on its way any more, or for ten seconds.
func settled(ctx context.Context, a *app.App) (*admin.Ledger, error) {
	for try := 0; ; try++ {
		book, err := a.Actions().Ledger(ctx, me, "", admin.LedgerQuery{})
		if err != nil || book.Waiting == 0 || try == 100 {
			return book, err
		}
		if err := clockNow.Sleep(ctx, 100e6); err != nil {
			return nil, err
		}
	}
}

// event is one line of the demo's week.
type event map[string]any

func (e event) line() []byte {
	b, err := json.Marshal(e)
	if err != nil {
		return nil // texts and numbers only
	}
	return append(b, '\n')
}
