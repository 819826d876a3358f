package main

import (
	"context"
	"database/sql" //nolint:depguard // looks at the file that a stopped server left, and makes databases
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" //nolint:depguard // makes a database for each cell
)

// size compares the file of a stopped server with the JSON in it.
func (b *bench) size(ctx context.Context, file string, events float64) (err error) {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+file+"?mode=ro")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var stored float64
	if err := db.QueryRowContext(ctx, `SELECT SUM(LENGTH(payload)) FROM deliveries`).Scan(&stored); err != nil {
		return err
	}
	b.add("file bytes per event", float64(info.Size())/events)
	b.add("stored JSON bytes per event", stored/events)
	return nil
}

// postgresCells are the two loads on a database of PostgreSQL each.
func (b *bench) postgresCells(ctx context.Context) error {
	if b.o.postgres == "" {
		b.skip("PostgreSQL: CAPILOOP_TEST_POSTGRES is not set; run it through scripts/with-postgres.sh")
		return nil
	}
	for _, c := range []struct {
		name          string
		conns, events int
	}{{"postgres 64x1", 64, 1}, {"postgres 16x100", 16, 100}} {
		if err := b.onPostgres(ctx, c.name, c.conns, c.events); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) onPostgres(ctx context.Context, name string, conns, events int) (err error) {
	db, err := sql.Open("pgx", b.o.postgres)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	database := fmt.Sprintf("capiloop_bench_%d", time.Now().UnixNano())
	if _, err := db.ExecContext(ctx, "CREATE DATABASE "+database); err != nil {
		return err
	}
	defer func() {
		_, e := db.ExecContext(context.WithoutCancel(ctx), "DROP DATABASE "+database+" WITH (FORCE)")
		err = errors.Join(err, e)
	}()
	u, err := url.Parse(b.o.postgres)
	if err != nil {
		return err
	}
	u.Path = "/" + database
	p, dir, _, err := b.saturate(ctx, name, u.String(), conns, events)
	if err != nil {
		return err
	}
	p.stop()
	return os.RemoveAll(dir)
}

// startCells measure from the start of the process to its first good answer.
func (b *bench) startCells(ctx context.Context) error {
	dir := b.folder()
	defer func() { _ = os.RemoveAll(dir) }()
	p, err := serve(ctx, b.o.binary, dir, "", b.graph)
	if err != nil {
		return err
	}
	b.add("start fresh ms", milliseconds(p.ready))
	l := b.load(ctx, p, 16, 100)
	l.warm, l.length = 0, 10*time.Second
	under, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = l.run(under) // ends with an error: the server is killed
	}()
	pause(ctx, 2*b.o.length)
	p.kill()
	cancel()
	<-done
	if p, err = serve(ctx, b.o.binary, dir, "", b.graph); err != nil {
		return err
	}
	b.add("start after SIGKILL ms", milliseconds(p.ready))
	p.stop()
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// growth fills a database and compares its insert rate with a fresh one's, in turns.
func (b *bench) growth(ctx context.Context) error {
	if !b.o.million && !b.o.tenMillion {
		b.skip("growth: -million and -tenmillion are off")
		return nil
	}
	dir := b.folder()
	defer func() { _ = os.RemoveAll(dir) }()
	stored := 0.0
	for _, size := range []struct {
		name string
		rows float64
		on   bool
	}{{"1 million", 1e6, b.o.million}, {"10 million", 1e7, b.o.tenMillion}} {
		if !size.on {
			continue
		}
		n, err := b.fill(ctx, dir, size.rows-stored)
		if err != nil {
			return err
		}
		stored += n
		for range b.o.rounds {
			if err := b.grown(ctx, dir, size.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// fill sends so many events in requests of a thousand, until all are delivered.
func (b *bench) fill(ctx context.Context, dir string, events float64) (float64, error) {
	p, err := serve(ctx, b.o.binary, dir, "", b.graph)
	if err != nil {
		return 0, err
	}
	defer p.stop()
	if _, err := b.repeat(ctx, p); err != nil { // the first event of all
		return 0, err
	}
	before, total := b.graph.delivered(ctx), 0.0
	for total < events {
		l := b.load(ctx, p, 8, 1000)
		l.warm, l.length = 0, 2*time.Second
		o, err := l.run(ctx)
		if err != nil {
			return total, err
		}
		total += float64(o.total)
	}
	for b.graph.delivered(ctx)-before < total && ctx.Err() == nil {
		pause(ctx, 50*time.Millisecond)
	}
	return total, ctx.Err()
}

// grown measures the filled database beside a fresh one, and that it still knows
// its first events.
func (b *bench) grown(ctx context.Context, dir, name string) error {
	for _, c := range []struct{ name, dir string }{{"fresh", b.folder()}, {name, dir}} {
		p, err := serve(ctx, b.o.binary, c.dir, "", b.graph)
		if err != nil {
			return err
		}
		if c.name != "fresh" {
			b.add("start with "+c.name+" ms", milliseconds(p.ready))
		}
		for _, l := range []load{b.load(ctx, p, 16, 100), b.load(ctx, p, 64, 1)} {
			o, err := l.run(ctx)
			if err != nil {
				p.stop()
				return err
			}
			b.add(fmt.Sprintf("insert %dx%d at %s (beside %s)", l.conns, l.events, c.name, name), o.Accepted)
		}
		known, err := b.repeat(ctx, p)
		p.stop()
		if err != nil {
			return err
		}
		if c.dir == dir && !known {
			return fmt.Errorf("an event sent before the first of %s is not recognised any more", name)
		}
		if c.dir != dir {
			_ = os.RemoveAll(c.dir)
		}
	}
	return nil
}

// repeat sends one and the same event, stamped anew each time, and tells whether it
// was known before. The second time it must be.
func (b *bench) repeat(ctx context.Context, p *process) (known bool, err error) {
	c, err := dial(ctx, p.addr)
	if err != nil {
		return false, err
	}
	defer func() { _ = c.Close() }()
	for i := range 2 {
		body := strings.ReplaceAll(newEvent(time.Now().Add(time.Duration(-b.folders-i)*time.Minute)), mark, "the-first-event-")
		raw := fmt.Appendf(nil, "POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", apiKey, len(body), body)
		if _, err := c.do(raw); err != nil {
			return false, err
		}
		again := strings.Contains(string(c.body), `"duplicates":1`)
		if i == 0 {
			known = again
		} else if !again {
			return known, fmt.Errorf("a repeat with another event_time was not recognised: %.300s", c.body)
		}
	}
	return known, nil
}
