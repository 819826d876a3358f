package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/capiloop/capiloop/internal/app"
	"github.com/capiloop/capiloop/internal/config"
)

func newServe() *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway",
		Long: `Runs the gateway until it gets SIGINT or SIGTERM; it then finishes or returns
what is being sent and stops within ten seconds.

A changed configuration file is put in force within seconds, without a restart;
listen and database need one.

Without a configuration file it starts with one workspace, main, whose only
dataset is the built-in sandbox, and prints an API key at the first start.`,
		Example: "  capiloop serve --config capiloop.yaml\n  CAPILOOP_LISTEN=0.0.0.0:8080 capiloop serve",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), &s, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	s.register(cmd)
	s.registerServer(cmd, "")
	return cmd
}

func serve(ctx context.Context, s *settings, out, errOut io.Writer) error {
	file, err := s.file()
	if err != nil {
		return err
	}
	log, err := s.log(file, errOut)
	if err != nil {
		return err
	}
	clock, err := parseClock(s.testClock)
	if err != nil {
		return err
	}
	tuneMemory()
	a, err := app.New(app.Options{File: file, Log: log, Clock: clock, Version: version})
	if err != nil {
		return err
	}
	if err := a.Start(ctx); err != nil {
		return err
	}
	log.Info("capiloop is running", "version", version, "listen", a.Addr(), "workspaces", len(file.Workspaces), "database", databaseKind(file))
	if err := firstKeys(ctx, a, file, out); err != nil {
		log.Error("no API key could be made", "error", err)
	}
	followFile(ctx, s, a, log)
	log.Info("stopping")
	return a.Stop(ctx)
}

// filePoll is how soon a changed configuration file is noticed.
const filePoll = 2 * time.Second

// followFile puts the configuration file in force anew whenever it changes, or at
// SIGHUP, until ctx is done. A file with a fault changes nothing.
func followFile(ctx context.Context, s *settings, a *app.App, log *slog.Logger) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	ticker := time.NewTicker(filePoll)
	defer ticker.Stop()
	last := s.fileTime()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
		case <-ticker.C:
			if s.fileTime().Equal(last) {
				continue
			}
		}
		last = s.fileTime()
		file, err := s.file()
		if err == nil {
			err = a.Reload(ctx, file)
		}
		if err != nil {
			log.Error("the changed configuration is not in force; the one before still is", "error", err)
		}
	}
}

func databaseKind(f *config.File) string {
	if d := f.Database.Reveal(); len(d) > 8 && d[:8] == "postgres" {
		return "postgresql"
	}
	return "sqlite"
}

// firstKeys makes a key for each workspace that nothing could be sent to otherwise.
func firstKeys(ctx context.Context, a *app.App, f *config.File, out io.Writer) error {
	for _, w := range f.Workspaces {
		if a.HasAPIKey(w.Name) {
			continue
		}
		k, err := a.Actions().CreateAPIKey(ctx, me, w.Name, "first key")
		if err != nil {
			return err
		}
		fmt.Fprintf(out, `
An API key for the workspace %s, shown this once:

    %s

Try it:

    curl http://%s/v1/events -H 'Authorization: Bearer %s' -H 'Content-Type: application/json' \
      -d '{"event_name":"Lead","action_source":"website","event_source_url":"https://example.com/","user_data":{"em":"jane@example.com","client_user_agent":"curl"}}'

`, w.Name, k.Key, a.Addr(), k.Key)
	}
	return nil
}

// tuneMemory lets the garbage collector run less often, which is worth a quarter of
// the throughput, within a limit. Who sets GOGC or GOMEMLIMIT knows better.
func tuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300)
	}
	if os.Getenv("GOMEMLIMIT") == "" && debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(256 << 20)
	}
}
