package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// sender posts events to a running server.
type sender struct {
	url, key string
	batch    int
	format   string
	dryRun   bool
	client   *http.Client
	out      io.Writer
	errOut   io.Writer

	accepted, duplicates, rejected, bad int
}

func newSend() *cobra.Command {
	s := sender{client: &http.Client{Timeout: time.Minute}}
	cmd := &cobra.Command{
		Use:   "send FILE",
		Short: "Send events from a file to a running server",
		Long: `Sends the events of a file to POST /v1/events of a running server. FILE is JSON
lines (one event a line, Meta's field names) or CSV with a header; - reads
standard input.

A CSV column is named as the field: event_name, event_time, event_id,
action_source, event_source_url, em, ph, fn, ln, external_id, lead_id, fbc …,
value, currency, order_id … Other columns become custom properties. Values are
raw or hashed.

Sending a file twice counts nothing twice as long as the events carry an
event_id or an order_id.`,
		Example: "  capiloop send events.jsonl --key $CAPILOOP_KEY\n  capiloop send sales.csv --url https://signals.example.com",
		Args:    oneArgument("capiloop send events.jsonl --key cl_…"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.out, s.errOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return s.sendFile(cmd.Context(), args[0], cmd.InOrStdin())
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.url, "url", "http://127.0.0.1:8080", "the server")
	f.StringVar(&s.key, "key", "", "API key of the workspace")
	f.IntVar(&s.batch, "batch", 100, "events per request (1 to 1000)")
	f.StringVar(&s.format, "format", "", "jsonl or csv (default: by the file's ending)")
	f.BoolVar(&s.dryRun, "dry-run", false, "print the events instead of sending them")
	return cmd
}

// numbered is an event with the line it came from.
type numbered struct {
	line  int
	event json.RawMessage
}

func (s *sender) sendFile(ctx context.Context, name string, in io.Reader) error {
	if s.key == "" && !s.dryRun {
		return wrongUsage("send needs an API key: --key, or the variable CAPILOOP_KEY. capiloop key NAME makes one")
	}
	if s.batch < 1 || s.batch > 1000 {
		return wrongUsage("--batch is 1 to 1000")
	}
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("read the events: %w", err)
		}
		defer f.Close()
		in = f
	}
	read := readJSONLines
	switch format := strings.ToLower(s.format + strings.TrimPrefix(filepath.Ext(name), ".")); {
	case strings.HasPrefix(format, "csv"):
		read = readCSV
	case s.format != "" && s.format != "jsonl":
		return wrongUsage("--format is jsonl or csv")
	}
	var waiting []numbered
	err := read(in, func(n numbered, fault error) error {
		if fault != nil {
			s.bad++
			fmt.Fprintf(s.errOut, "line %d: %v\n", n.line, fault)
			return nil
		}
		if waiting = append(waiting, n); len(waiting) < s.batch {
			return nil
		}
		err := s.post(ctx, waiting)
		waiting = waiting[:0]
		return err
	})
	if err == nil && len(waiting) > 0 {
		err = s.post(ctx, waiting)
	}
	fmt.Fprintf(s.out, "%d accepted, %d duplicates, %d rejected, %d lines unreadable\n", s.accepted, s.duplicates, s.rejected, s.bad)
	if err == nil && s.rejected+s.bad > 0 {
		err = errFound
	}
	return err
}

// post sends one request, again while the server is busy or away.
func (s *sender) post(ctx context.Context, events []numbered) error {
	if s.dryRun {
		for _, e := range events {
			fmt.Fprintf(s.out, "%s\n", e.event)
			s.accepted++
		}
		return nil
	}
	list := make([]json.RawMessage, len(events))
	for i, e := range events {
		list[i] = e.event
	}
	body, err := json.Marshal(map[string]any{"data": list})
	if err != nil {
		return fmt.Errorf("put the request together: %w", err)
	}
	for try := 1; ; try++ {
		again, err := s.try(ctx, body, events)
		if err == nil || !again || try == 8 || ctx.Err() != nil {
			return err
		}
		fmt.Fprintf(s.errOut, "%v; trying again\n", err)
		timer := time.NewTimer(time.Duration(try) * time.Second)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// answered is what the server says to a request.
type answered struct {
	Accepted   int `json:"accepted"`
	Duplicates int `json:"duplicates"`
	Rejected   []struct {
		Index  int    `json:"index"`
		Field  string `json:"field"`
		Reason string `json:"reason"`
		Fix    string `json:"fix"`
	} `json:"rejected"`
	Error *struct {
		Message string `json:"message"`
		Fix     string `json:"fix"`
	} `json:"error"`
}

func (s *sender) try(ctx context.Context, body []byte, events []numbered) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(s.url, "/")+"/v1/events", bytes.NewReader(body))
	if err != nil {
		return false, wrongUsage("--url %q is no address", s.url)
	}
	r.Header.Set("Authorization", "Bearer "+s.key)
	r.Header.Set("Content-Type", "application/json")
	res, err := s.client.Do(r)
	if err != nil {
		return true, fmt.Errorf("reach the server at %s: %w", s.url, errors.Unwrap(err))
	}
	defer res.Body.Close()
	var a answered
	if err := json.NewDecoder(io.LimitReader(res.Body, 16<<20)).Decode(&a); err != nil {
		return res.StatusCode >= 500, fmt.Errorf("%s answered %s, which is no answer of capiloop: check --url", s.url, res.Status)
	}
	switch {
	case res.StatusCode == http.StatusAccepted, res.StatusCode == http.StatusUnprocessableEntity && a.Error == nil:
	case a.Error != nil:
		return res.StatusCode == http.StatusServiceUnavailable || res.StatusCode == http.StatusTooManyRequests,
			fmt.Errorf("the server answered %s: %s %s", res.Status, a.Error.Message, a.Error.Fix)
	default:
		return res.StatusCode >= 500, fmt.Errorf("the server answered %s", res.Status)
	}
	s.accepted += a.Accepted
	s.duplicates += a.Duplicates
	s.rejected += len(a.Rejected)
	for _, x := range a.Rejected {
		line := 0
		if x.Index >= 0 && x.Index < len(events) {
			line = events[x.Index].line
		}
		fmt.Fprintf(s.errOut, "line %d: %s: %s; %s\n", line, x.Field, x.Reason, x.Fix)
	}
	return false, nil
}
