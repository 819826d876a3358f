package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/app"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
)

// settings are the flags by which commands find their configuration.
type settings struct {
	config, data, database, listen, publicURL string
	testClock                                 string
	logFormat, logLevel                       string
}

// register adds the flags that every command with a database has.
func (s *settings) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.config, "config", "", "configuration file (default: ./capiloop.yaml if there is one, else the sandbox only)")
	f.StringVar(&s.data, "data", "", "folder for the database and the socket (default ./data)")
	f.StringVar(&s.database, "database", "", "SQLite file or postgres:// URL (default: capiloop.db in the data folder)")
	f.StringVar(&s.logFormat, "log-format", "", "text or json")
	f.StringVar(&s.logLevel, "log-level", "", "debug, info, warn or error")
}

// registerServer adds those of a command that listens.
func (s *settings) registerServer(cmd *cobra.Command, listen string) {
	f := cmd.Flags()
	f.StringVar(&s.listen, "listen", listen, "address to listen on (default 127.0.0.1:8080)")
	f.StringVar(&s.publicURL, "public-url", "", "address under which others reach this server, for links")
	registerClock(cmd, &s.testClock)
}

func registerClock(cmd *cobra.Command, clock *string) {
	cmd.Flags().StringVar(clock, "test-clock", "", "for tests: AHEAD,SPEED such as 11m,3600; refuses to send to the real Graph")
}

// file reads the configuration and puts the flags over it.
func (s *settings) file() (*config.File, error) {
	f := config.Default()
	if path := s.path(); path != "" {
		var err error
		if f, err = config.Load(path, os.LookupEnv); err != nil {
			return nil, err
		}
	}
	err := f.Apply(config.Overrides{Listen: s.listen, Database: s.database, DataDir: s.data, PublicURL: s.publicURL})
	if err != nil {
		return nil, usageError{err}
	}
	return f, nil
}

// path returns where the configuration file is, "" if there is none.
func (s *settings) path() string {
	if s.config == "" {
		if _, err := os.Stat("capiloop.yaml"); err == nil {
			return "capiloop.yaml"
		}
	}
	return s.config
}

// fileTime returns when the configuration file was changed last.
func (s *settings) fileTime() time.Time {
	info, err := os.Stat(s.path())
	if err != nil {
		return time.Time{} // gone for the moment an editor takes, or there is none
	}
	return info.ModTime()
}

func (s *settings) log(f *config.File, out io.Writer) (*slog.Logger, error) {
	level, format := f.Log.Level, f.Log.Format
	if s.logLevel != "" {
		if err := level.UnmarshalText([]byte(s.logLevel)); err != nil {
			return nil, wrongUsage("--log-level is debug, info, warn or error")
		}
	}
	if s.logFormat != "" {
		format = s.logFormat
	}
	o := &slog.HandlerOptions{Level: level}
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(out, o)), nil
	case "text", "":
		return slog.New(slog.NewTextHandler(out, o)), nil
	}
	return nil, wrongUsage("--log-format is text or json")
}

// parseClock reads --test-clock.
func parseClock(text string) (ledger.Clock, error) {
	if text == "" {
		return ledger.Clock{}, nil
	}
	a, b, ok := strings.Cut(text, ",")
	ahead, err := time.ParseDuration(a)
	var speed float64
	if ok && err == nil {
		_, err = fmt.Sscan(b, &speed)
	}
	if !ok || err != nil || speed <= 0 {
		return ledger.Clock{}, wrongUsage("--test-clock is AHEAD,SPEED such as 11m,3600")
	}
	return ledger.TestClock(ahead, speed), nil
}

// me is who a command acts as: whoever may read the data folder owns the server.
var me = admin.Actor{Name: "cli", Right: admin.Own}

// withActions runs f with the actions of the server that is running on the data
// folder, or without one on the database itself.
func (s *settings) withActions(ctx context.Context, errOut io.Writer, f func(a admin.Actions) error) error {
	file, err := s.file()
	if err != nil {
		return err
	}
	if socket := app.SocketPath(file.DataDir); answers(ctx, socket) {
		client := admin.NewClient(socket)
		defer client.Close()
		return f(client)
	}
	log, err := s.log(file, errOut)
	if err != nil {
		return err
	}
	a, err := app.New(app.Options{File: file, Log: log, Version: version})
	if err != nil {
		return err
	}
	if err := a.Open(ctx); err != nil {
		return err
	}
	return errors.Join(f(a.Actions()), a.Stop(ctx))
}

// answers tells whether a server listens on a socket; one that was killed leaves its
// file behind.
func answers(ctx context.Context, socket string) bool {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "unix", socket)
	if err != nil {
		return errors.Is(err, os.ErrPermission) // the client then says what to do
	}
	_ = conn.Close()
	return true
}
