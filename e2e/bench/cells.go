package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// bench is one run of all measurements.
type bench struct {
	o       *options
	dir     string
	self    string // this program
	graph   *sandbox
	cells   map[string][]float64 // what was measured, by name, a number a round
	skipped []string
	folders int
}

// group is a set of cells that are measured together.
type group struct {
	name string
	once bool // not in every round
	run  func(b *bench, ctx context.Context) error
}

func groups() []group {
	return []group{
		{"floor", false, (*bench).floors},
		{"single", false, (*bench).single},
		{"hundred", false, (*bench).hundred},
		{"latency", false, (*bench).latency},
		{"postgres", false, (*bench).postgresCells},
		{"start", false, (*bench).startCells},
		{"hash", false, (*bench).hash},
		{"leads", false, (*bench).leadCells},
		{"stages", false, (*bench).stageCells},
		{"peers", false, (*bench).peerCells},
		{"growth", true, (*bench).growth},
	}
}

func groupNames() []string {
	return []string{"floor", "single", "hundred", "latency", "postgres", "start", "hash", "leads", "stages", "peers", "growth"}
}

func (b *bench) measure(ctx context.Context) error {
	wanted := strings.Split(b.o.only, ",")
	for round := range b.o.rounds {
		for _, g := range groups() {
			if b.o.only != "" && !slices.Contains(wanted, g.name) || g.once && round != b.o.rounds-1 {
				continue
			}
			began := time.Now()
			if err := g.run(b, ctx); err != nil {
				return fmt.Errorf("%s, round %d: %w", g.name, round+1, err)
			}
			fmt.Fprintf(os.Stderr, "round %d of %d: %s, %.0f s\n", round+1, b.o.rounds, g.name, time.Since(began).Seconds())
		}
	}
	return nil
}

func (b *bench) add(name string, value float64) { b.cells[name] = append(b.cells[name], value) }

func (b *bench) skip(why string) {
	if !slices.Contains(b.skipped, why) {
		b.skipped = append(b.skipped, why)
	}
}

// folder makes a new one for a cell.
func (b *bench) folder() string {
	b.folders++
	return filepath.Join(b.dir, itoa(b.folders))
}

// keep notes what came of a load under a name.
func (b *bench) keep(name string, o outcome) {
	b.add(name+" accepted", o.Accepted)
	b.add(name+" cpu", o.CPU)
	b.add(name+" p50", o.P50)
	b.add(name+" p99", o.P99)
	b.add(name+" p99.9", o.P999)
	if o.Delivered > 0 {
		b.add(name+" delivered", o.Delivered)
	}
	if o.Refused > 0 {
		b.add(name+" refused", float64(o.Refused))
	}
}

// load is one against a process, with the stand-in watched.
func (b *bench) load(ctx context.Context, p *process, conns, events int) load {
	return load{
		addr: p.addr, path: "/v1/events", key: apiKey, conns: conns, events: events, warm: b.o.warm, length: b.o.length,
		probe: func() probe { return probe{delivered: b.graph.delivered(ctx), cpu: p.cpu()} },
	}
}

func (b *bench) floors(ctx context.Context) error {
	for _, role := range []string{"append", "encode", "decode"} {
		addr, err := freeAddr(ctx)
		if err != nil {
			return err
		}
		log := filepath.Join(b.dir, "append.log")
		p, err := start(ctx, addr, "/", b.self, "-role", role, "-addr", addr, "-file", log)
		if err != nil {
			return err
		}
		for _, c := range []struct{ conns, events int }{{64, 1}, {256, 1}, {16, 100}} {
			if role == "encode" && c.events > 1 {
				continue
			}
			l := b.load(ctx, p, c.conns, c.events)
			o, err := l.run(ctx)
			if err != nil {
				p.stop()
				return err
			}
			b.keep(fmt.Sprintf("%s %dx%d", role, c.conns, c.events), o)
		}
		p.stop()
		_ = os.Remove(log)
	}
	for _, wide := range []bool{false, true} {
		r, err := b.rawSQLite(ctx, 0, wide)
		if err != nil {
			return err
		}
		name := "sqlite four tables"
		if wide {
			name = "sqlite one wide row"
		}
		b.add(name, r.Fresh)
	}
	return nil
}

func (b *bench) rawSQLite(ctx context.Context, rows int, wide bool) (r floorResult, err error) {
	file := filepath.Join(b.dir, "floor.db")
	defer func() {
		for _, f := range []string{file, file + "-wal", file + "-shm"} {
			_ = os.Remove(f)
		}
	}()
	out, err := exec.CommandContext(ctx, b.self, "-role", "sqlite", "-file", file, "-rows", itoa(rows), fmt.Sprintf("-wide=%t", wide)).Output() //nolint:gosec // ourselves
	if err != nil {
		return r, fmt.Errorf("raw SQLite: %w", err)
	}
	return r, json.Unmarshal(out, &r)
}

// saturate runs one load on a fresh server and returns the server, still running,
// once everything has been delivered.
func (b *bench) saturate(ctx context.Context, name, database string, conns, events int) (*process, string, outcome, error) {
	dir := b.folder()
	p, err := serve(ctx, b.o.binary, dir, database, b.graph)
	if err != nil {
		return nil, "", outcome{}, err
	}
	before := b.graph.delivered(ctx)
	o, err := b.load(ctx, p, conns, events).run(ctx)
	if err != nil {
		p.stop()
		return nil, "", o, err
	}
	b.keep(name, o)
	b.add(name+" rss", p.memory("VmHWM"))
	began := time.Now()
	for b.graph.delivered(ctx)-before < float64(o.total) && time.Since(began) < 20*time.Second {
		pause(ctx, 20*time.Millisecond)
	}
	if got := b.graph.delivered(ctx) - before; got != float64(o.total) {
		p.stop()
		return nil, "", o, fmt.Errorf("%s: %d accepted, %.0f delivered", name, o.total, got)
	}
	b.add(name+" drained after s", time.Since(began).Seconds())
	return p, dir, o, nil
}

func (b *bench) single(ctx context.Context) error {
	for _, conns := range []int{64, 256} {
		p, dir, _, err := b.saturate(ctx, fmt.Sprintf("ours %dx1", conns), "", conns, 1)
		if err != nil {
			return err
		}
		p.stop()
		_ = os.RemoveAll(dir)
	}
	return nil
}

func (b *bench) hundred(ctx context.Context) error {
	p, dir, o, err := b.saturate(ctx, "ours 16x100", "", 16, 100)
	if err != nil {
		return err
	}
	p.stop()
	defer func() { _ = os.RemoveAll(dir) }()
	return b.size(ctx, filepath.Join(dir, "capiloop.db"), float64(o.total))
}

// latency runs at half of what saturates, from the scheduled time, first with all
// well, then while Graph hangs, then while the lane backs off.
func (b *bench) latency(ctx context.Context) error {
	rate := median(b.cells["ours 64x1 accepted"]) / 2
	if rate == 0 {
		rate = 2000
	}
	dir := b.folder()
	p, err := serve(ctx, b.o.binary, dir, "", b.graph)
	if err != nil {
		return err
	}
	defer func() {
		_ = b.graph.fault(ctx, "")
		p.stop()
		_ = os.RemoveAll(dir)
	}()
	pause(ctx, b.o.length/4)
	b.add("idle rss", p.memory("VmRSS"))
	for _, state := range []struct{ name, fault string }{
		{"half load", ""}, {"half load, Graph hangs", `{"mode":"hang"}`}, {"half load, lane backs off", `{"mode":"html"}`},
	} {
		if err := b.graph.fault(ctx, ""); err != nil { // lets go of what hangs
			return err
		}
		if state.fault != "" {
			if err := b.graph.fault(ctx, state.fault); err != nil {
				return err
			}
		}
		l := b.load(ctx, p, 64, 1)
		l.rate = rate
		o, err := l.run(ctx)
		if err != nil {
			return err
		}
		b.keep(state.name, o)
		b.add(state.name+" rss", p.memory("VmHWM"))
	}
	return nil
}

func (b *bench) hash(context.Context) error {
	us, err := normaliseCost()
	if err != nil {
		return err
	}
	b.add("normalise us", us)
	return nil
}
