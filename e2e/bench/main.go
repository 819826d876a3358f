// Command bench measures the built binary from outside, beside floors and peers of
// the same run, and prints a table of ratios: absolute numbers of a shared machine
// mean little. See docs/performance.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

type options struct {
	rounds              int
	seconds             float64
	only                string
	quick, asJSON       bool
	million, tenMillion bool
	peers               bool
	role, addr, file    string
	rows, group         int
	wide                bool
	binary, peersFolder string
	postgres            string
	warm, length        time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "how often each cell is measured; the cells take turns")
	flag.Float64Var(&o.seconds, "seconds", 3, "length of a cell")
	flag.StringVar(&o.only, "only", "", "only the groups of these names: "+strings.Join(groupNames(), ","))
	flag.BoolVar(&o.quick, "quick", false, "each once and short, without what takes minutes: to see that it works")
	flag.BoolVar(&o.asJSON, "json", false, "print JSON instead of a table")
	flag.BoolVar(&o.million, "million", true, "measure once a million events are stored")
	flag.BoolVar(&o.tenMillion, "tenmillion", false, "and once ten million are: takes 25 GB and half an hour")
	flag.BoolVar(&o.peers, "peers", true, "measure relays made with Meta's Node SDK; needs npm")
	flag.StringVar(&o.peersFolder, "peers-folder", "", "where the peers' packages are or come to be (default: a temporary folder)")
	flag.StringVar(&o.binary, "binary", "", "measure this binary instead of building one")
	flag.StringVar(&o.role, "role", "", "used by this program itself")
	flag.StringVar(&o.addr, "addr", "", "used by this program itself")
	flag.StringVar(&o.file, "file", "", "used by this program itself")
	flag.IntVar(&o.rows, "rows", 0, "used by this program itself")
	flag.IntVar(&o.group, "group", 100, "used by this program itself")
	flag.BoolVar(&o.wide, "wide", false, "used by this program itself")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, &o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options) (err error) {
	if o.role != "" {
		return runRole(ctx, o.role, o.addr, o.file, o.rows, o.group, o.wide)
	}
	if o.quick {
		o.rounds, o.seconds, o.million, o.tenMillion, o.peers = 1, 0.5, false, false, false
	}
	o.length = time.Duration(o.seconds * float64(time.Second))
	o.warm = o.length / 4
	o.postgres = os.Getenv("CAPILOOP_TEST_POSTGRES")
	dir, err := os.MkdirTemp("", "capiloop-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if o.binary == "" {
		o.binary = filepath.Join(dir, "capiloop")
		if err := build(ctx, o.binary); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b := &bench{o: o, dir: dir, self: self, cells: make(map[string][]float64)}
	counter.Store(uint64(time.Now().UnixNano())) // new in each run
	if b.graph, err = startSandbox(ctx, o.binary); err != nil {
		return err
	}
	defer b.graph.stop()
	if err := b.measure(ctx); err != nil {
		return err
	}
	if o.asJSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(b.report())
	}
	return b.report().table(os.Stdout)
}
