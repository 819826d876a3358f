package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// goal is a line of the table: a number or ratio and what it is to reach.
type goal struct {
	What  string   `json:"what"`
	Goal  string   `json:"goal"`
	Value *float64 `json:"value"` // median; nil: not measured in this run
	Low   float64  `json:"low"`
	High  float64  `json:"high"`
	Met   bool     `json:"met"`
}

// cell is one thing measured.
type cell struct {
	Median float64   `json:"median"`
	Rounds []float64 `json:"rounds"`
}

type report struct {
	Rounds    int             `json:"rounds"`
	Seconds   float64         `json:"seconds"`
	EventSize int             `json:"event_bytes"`
	Goals     []goal          `json:"goals"`
	Cells     map[string]cell `json:"cells"`
	Skipped   []string        `json:"skipped,omitempty"`
}

func (b *bench) report() report {
	r := report{Rounds: b.o.rounds, Seconds: b.o.seconds, EventSize: eventSize(), Cells: make(map[string]cell), Skipped: b.skipped}
	for name, values := range b.cells {
		r.Cells[name] = cell{median(values), values}
	}
	r.Goals = b.goals()
	return r
}

func (b *bench) goals() []goal {
	list := []goal{ //nolint:prealloc // a table
		b.ratio("single events, 64 connections: accepted ÷ append log", "ours 64x1 accepted", "append 64x1 accepted", 0.60),
		b.ratio("the same ÷ append log of encoded events (read, normalised, hashed, written)", "ours 64x1 accepted", "encode 64x1 accepted", 0.60),
		b.ratio("single events, 256 connections: accepted ÷ append log", "ours 256x1 accepted", "append 256x1 accepted", 0),
		b.ratio("the same ÷ append log of encoded events", "ours 256x1 accepted", "encode 256x1 accepted", 0),
		b.ratio("100-event requests: accepted ÷ raw SQLite, the same four rows", "ours 16x100 accepted", "sqlite four tables", 0.45),
		b.ratio("100-event requests: accepted ÷ raw SQLite, one wide row", "ours 16x100 accepted", "sqlite one wide row", 0),
		b.ratio("single events: accepted ÷ HTTP with JSON decode, no store", "ours 64x1 accepted", "decode 64x1 accepted", 0),
		b.ratio("100-event requests: accepted ÷ HTTP with JSON decode, no store", "ours 16x100 accepted", "decode 16x100 accepted", 0),
		b.ratio("delivered ÷ accepted, saturated, single", "ours 64x1 delivered", "ours 64x1 accepted", 0.95),
		b.ratio("delivered ÷ accepted, saturated, 100-event", "ours 16x100 delivered", "ours 16x100 accepted", 0.95),
		b.ratio("delivered ÷ accepted, half load", "half load delivered", "half load accepted", 0.995),
		b.ratio("delivered ÷ Node SDK, one call an event", "ours 64x1 delivered", "peer sync delivered", 10),
		b.ratio("delivered, 100-event requests ÷ Node SDK, one call an event", "ours 16x100 delivered", "peer sync delivered", 25),
		b.ratio("delivered ÷ Node SDK, one call an event, Graph 100 ms away", "far ours 64x1 delivered", "far peer sync delivered", 14),
		b.ratio("delivered ÷ Node SDK batching in memory (not durable)", "ours 64x1 delivered", "peer memory delivered", 1.1),
		b.ratio("the same, 100-event requests", "ours 16x100 delivered", "peer memory 100 delivered", 0),
		b.ratio("delivered ÷ durable Node relay", "ours 64x1 delivered", "peer durable delivered", 5),
		b.ratio("processor time an event: Node SDK, one call an event ÷ ours", "peer sync cpu", "ours 64x1 cpu", 0),
		b.ratio("processor time an event: Node SDK, one call an event ÷ ours, 100-event requests", "peer sync cpu", "ours 16x100 cpu", 0),
		b.ratio("processor time an event: durable Node relay ÷ ours", "peer durable cpu", "ours 64x1 cpu", 0),
		b.ratio("processor time an event: ours ÷ append log of encoded events", "ours 64x1 cpu", "encode 64x1 cpu", 0),
		b.ratio("PostgreSQL ÷ SQLite, single", "postgres 64x1 accepted", "ours 64x1 accepted", 1.0),
		b.ratio("PostgreSQL ÷ SQLite, 100-event", "postgres 16x100 accepted", "ours 16x100 accepted", 0.75),
		b.least("accept p99 at half load, ms", "half load p99", 15),
		b.atMost(b.ratio("p99 while Graph hangs ÷ half load", "half load, Graph hangs p99", "half load p99", 0), 1.5),
		b.atMost(b.ratio("p99 while the lane backs off ÷ half load", "half load, lane backs off p99", "half load p99", 0), 1.5),
		b.least("RSS idle, MB", "idle rss", 30),
		b.least("RSS half load, MB", "half load rss", 90),
		b.least("RSS saturated, single, MB", "ours 64x1 rss", 150),
		b.least("RSS saturated, 100-event, MB", "ours 16x100 rss", 150),
		b.least("start to ready, fresh, ms", "start fresh ms", 100),
		b.least("start to ready, 1 million stored, ms", "start with 1 million ms", 100),
		b.least("start to ready, after SIGKILL under load, ms", "start after SIGKILL ms", 150),
		b.atMost(b.ratio("file ÷ stored JSON", "file bytes per event", "stored JSON bytes per event", 0), 1.40),
		b.least("lead in to CRM request out, p95 with 50 leads a second over 8 workspaces, ms", "leads p95 ms", 2000),
		b.least("stage hook in to the request to Meta, p95 with 20 changes a second, ms", "stages p95 ms", 3000),
		b.least("normalise and 11 hashes, µs an event", "normalise us", 8),
	}
	for _, size := range []string{"1 million", "10 million"} {
		beside := " (beside " + size + ")"
		list = append(list,
			b.ratio("insert rate at "+size+" stored ÷ fresh, 100-event", "insert 16x100 at "+size+beside, "insert 16x100 at fresh"+beside, 0),
			b.ratio("accept rate at "+size+" stored ÷ fresh, single", "insert 64x1 at "+size+beside, "insert 64x1 at fresh"+beside, 0),
			b.ratio("insert rate at "+size+" ÷ accept rate of single events", "insert 16x100 at "+size+beside, "insert 64x1 at fresh"+beside, 1))
	}
	return list
}

// ratio is the median of the rounds' ratios; want 0: no goal is set.
func (b *bench) ratio(what, above, below string, want float64) goal {
	var each []float64
	for i, v := range b.cells[above] {
		if i < len(b.cells[below]) && b.cells[below][i] > 0 {
			each = append(each, v/b.cells[below][i])
		}
	}
	g := goalOf(what, each)
	if want > 0 {
		g.Goal = fmt.Sprintf("≥ %.4g", want)
		g.Met = g.Value != nil && *g.Value >= want
	}
	return g
}

// least is a number that is to be at most so large.
func (b *bench) least(what, name string, most float64) goal {
	return b.atMost(goalOf(what, b.cells[name]), most)
}

func (b *bench) atMost(g goal, most float64) goal {
	g.Goal, g.Met = fmt.Sprintf("≤ %.4g", most), g.Value != nil && *g.Value <= most
	return g
}

func goalOf(what string, values []float64) goal {
	g := goal{What: what}
	if len(values) > 0 {
		m := median(values)
		g.Value, g.Low, g.High = &m, slices.Min(values), slices.Max(values)
	}
	return g
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// table writes the report as Markdown.
func (r report) table(w io.Writer) error {
	var t strings.Builder
	fmt.Fprintf(&t, "%d rounds of %.1f s a cell, in turns; median (lowest to highest) of the rounds. Event: %d bytes.\n\n", r.Rounds, r.Seconds, r.EventSize)
	t.WriteString("| what | goal | measured | |\n|---|---|---|---|\n")
	for _, g := range r.Goals {
		if g.Value == nil {
			continue
		}
		met := ""
		if g.Goal != "" {
			met = map[bool]string{true: "met", false: "missed"}[g.Met]
		}
		fmt.Fprintf(&t, "| %s | %s | %s (%s to %s) | %s |\n", g.What, g.Goal, short(*g.Value), short(g.Low), short(g.High), met)
	}
	t.WriteString("\n| measured | median | rounds |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(r.Cells)) {
		var each []string
		for _, v := range r.Cells[name].Rounds {
			each = append(each, short(v))
		}
		fmt.Fprintf(&t, "| %s | %s | %s |\n", name, short(r.Cells[name].Median), strings.Join(each, " "))
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(&t, "\nNot measured: %s.\n", s)
	}
	_, err := io.WriteString(w, t.String())
	return err
}

func short(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
