package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// client is one kept connection that speaks just enough HTTP/1.1: the usual client
// costs as much as the server that it measures.
type client struct {
	net.Conn
	buf  []byte
	body []byte // of the last answer
}

func dial(ctx context.Context, addr string) (*client, error) {
	c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &client{Conn: c, buf: make([]byte, 64<<10)}, nil
}

var contentLength = []byte("\r\nContent-Length: ")

// do sends a request and reads the whole answer.
func (c *client) do(raw []byte) (status int, err error) {
	if _, err := c.Write(raw); err != nil {
		return 0, err
	}
	have, end, want := 0, -1, 0
	for end < 0 || have < want {
		if have == len(c.buf) {
			c.buf = append(c.buf, make([]byte, len(c.buf))...)
		}
		n, err := c.Read(c.buf[have:])
		if err != nil {
			return 0, err
		}
		have += n
		if end >= 0 {
			continue
		}
		if end = bytes.Index(c.buf[:have], []byte("\r\n\r\n")); end < 0 {
			continue
		}
		head := c.buf[:end+2]
		_, digits, _ := bytes.Cut(head, contentLength)
		digits, _, _ = bytes.Cut(digits, []byte("\r"))
		length, err := strconv.Atoi(string(digits))
		if err != nil {
			return 0, fmt.Errorf("an answer without Content-Length: %w", err)
		}
		want = end + 4 + length
	}
	c.body = c.buf[end+4 : want]
	return strconv.Atoi(string(c.buf[9:12]))
}

// load is what to send and for how long.
type load struct {
	addr, path, key string
	conns, events   int     // events of one request
	rate            float64 // requests a second, open loop; 0: as fast as the answers come
	warm, length    time.Duration
	probe           func() probe // looks at the others at both ends of the window
}

// probe is what is read at one moment.
type probe struct {
	delivered float64       // events that the stand-in has counted
	cpu       time.Duration // of the server
}

// outcome is what came of a load.
type outcome struct {
	Accepted  float64 `json:"accepted_per_s"`
	Delivered float64 `json:"delivered_per_s"`
	CPU       float64 `json:"cpu_us_per_event"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	P999      float64 `json:"p999_ms"`
	Refused   int64   `json:"refused"`
	total     int64   // events accepted from beginning to end
}

// generator is a load under way.
type generator struct {
	load
	start    time.Time
	slots    atomic.Int64
	accepted atomic.Int64
	refused  atomic.Int64
	open     atomic.Bool // the window
	mu       sync.Mutex
	samples  []time.Duration
	err      error
}

// run sends until the window is over. An error is one of the connections'.
func (l load) run(ctx context.Context) (outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g := &generator{load: l, start: time.Now()}
	var all sync.WaitGroup
	for range l.conns {
		all.Go(func() {
			if err := g.connection(ctx); err != nil && ctx.Err() == nil {
				g.mu.Lock()
				g.err = err
				g.mu.Unlock()
			}
		})
	}
	look := l.probe
	if look == nil {
		look = func() probe { return probe{} }
	}
	pause(ctx, l.warm)
	from, accepted, began := look(), g.accepted.Load(), time.Now()
	g.open.Store(true)
	pause(ctx, l.length)
	g.open.Store(false)
	took := time.Since(began).Seconds()
	n := float64(g.accepted.Load() - accepted)
	to := look()
	cancel()
	all.Wait()
	o := outcome{
		Accepted: n / took, Delivered: (to.delivered - from.delivered) / took,
		CPU: float64((to.cpu - from.cpu).Microseconds()) / max(n, 1), Refused: g.refused.Load(), total: g.accepted.Load(),
	}
	slices.Sort(g.samples)
	o.P50, o.P99, o.P999 = quantile(g.samples, 0.5), quantile(g.samples, 0.99), quantile(g.samples, 0.999)
	return o, g.err
}

// connection sends one request after the other. It finishes the one under way
// before it ends, so that what the server took is counted.
func (g *generator) connection(ctx context.Context) error {
	c, err := dial(ctx, g.addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now().Add(5 * time.Second)) })
	defer stop()
	req := newRequest(g.path, g.key, g.events)
	var mine []time.Duration
	for ctx.Err() == nil {
		from := time.Now()
		if g.rate > 0 {
			from = g.start.Add(time.Duration(float64(g.slots.Add(1)) / g.rate * float64(time.Second)))
			pause(ctx, time.Until(from))
			if ctx.Err() != nil {
				break
			}
		}
		req.next()
		status, err := c.do(req.raw)
		if err != nil {
			return fmt.Errorf("send: %w", err)
		}
		if status < 200 || status > 299 {
			if g.refused.Add(1) == 1 && status != 503 {
				return fmt.Errorf("answer %d: %.300s", status, c.body)
			}
			continue
		}
		g.accepted.Add(int64(g.events))
		if g.open.Load() {
			mine = append(mine, time.Since(from))
		}
	}
	g.mu.Lock()
	g.samples = append(g.samples, mine...)
	g.mu.Unlock()
	return nil
}

func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[int(q*float64(len(sorted)-1))].Microseconds()) / 1000
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
