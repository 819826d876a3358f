package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/capiloop/capiloop/capi/capitest"
	"github.com/capiloop/capiloop/internal/app"
)

func newSandbox() *cobra.Command {
	var listen, clock string
	var light bool
	cmd := &cobra.Command{
		Use:   "sandbox",
		Short: "Run the stand-in for Meta's Graph alone",
		Long: `Runs a strict stand-in for Meta's Graph: it checks events as Meta does, removes
duplicates, and answers with any error you ask it for. Its page shows the events
arriving.

Point a dataset's url at it, or any of Meta's SDKs:
  POST /v26.0/{dataset}/events      every token is taken that does not begin with "bad"
  POST /_sandbox/fault              {"code":190,"subcode":463,"count":3}
  GET  /_sandbox/events             what came in
  POST /_sandbox/lead               makes a lead`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := parseClock(clock)
			if err != nil {
				return err
			}
			graph := app.NewSandbox(c)
			if light {
				graph = capitest.New(capitest.Options{Now: c.Now, CountOnly: true})
			}
			listener, err := listenSandbox(cmd.Context(), listen)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "The sandbox is at http://%s/ and its Graph at http://%s/v26.0\n", listener.Addr(), listener.Addr())
			return serveSandbox(cmd.Context(), graph, listener)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8090", "address to listen on")
	cmd.Flags().BoolVar(&light, "count-only", false, "for load tests: count events instead of checking them")
	registerClock(cmd, &clock)
	return cmd
}

func listenSandbox(ctx context.Context, address string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s for the sandbox: %w. Another program may have the port: choose one with --listen or, in the demo, --sandbox-listen", address, err)
	}
	return listener, nil
}

// serveSandbox serves until ctx is done.
func serveSandbox(ctx context.Context, graph *capitest.Graph, listener net.Listener) error {
	server := &http.Server{Handler: graph, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	graph.ClearFaults() // lets go of requests that hang
	if err := server.Close(); err != nil {
		return err
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
