package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
)

// ErrBusy says that more is waiting to be written than memory should hold; the
// caller should come back in a second.
var ErrBusy = errors.New("the writer's queue is full; try again in a second")

// ErrClosed says that the store is shutting down.
var ErrClosed = errors.New("the store is closed")

const (
	// maxGroupRows is how many rows one transaction takes. More would not be faster by
	// much, and lanes, which wait for two transactions a batch, would fall behind.
	maxGroupRows  = 150
	maxQueueBytes = 64 << 20 // payload bytes that may wait for the writer
)

// task is one request to the writer: either a recording or any other change.
type task struct {
	rec  *Recording
	run  func(ctx context.Context, tx *tx) error
	done chan error
}

// writer owns the connection that changes things. Requests that arrive while a
// transaction is committing form the next group.
type writer struct {
	s      *Store
	conn   *sql.Conn
	tx     *tx
	first  chan *task // lanes and people: few, and they go before recordings
	queue  chan *task
	queued atomic.Int64 // payload bytes in the queue
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once
}

func newWriter(ctx context.Context, s *Store, db *sql.DB) (*writer, error) {
	w := &writer{s: s, first: make(chan *task, 64), queue: make(chan *task, 4096), stop: make(chan struct{}), done: make(chan struct{})}
	if err := w.connect(ctx, db); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *writer) connect(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect for writing: %w", err)
	}
	w.conn, w.tx = conn, newTx(conn, w.s.dialect)
	return nil
}

// do runs f in the writer's transaction and returns after the commit.
func (w *writer) do(ctx context.Context, f func(ctx context.Context, tx *tx) error) error {
	return w.submit(ctx, w.first, &task{run: f, done: make(chan error, 1)})
}

// record hands a recording to the writer, unless too much is waiting already.
func (w *writer) record(ctx context.Context, r *Recording) error {
	size := r.size()
	if w.queued.Add(size) > maxQueueBytes && size < w.queued.Load() {
		w.queued.Add(-size)
		return ErrBusy
	}
	defer w.queued.Add(-size)
	return w.submit(ctx, w.queue, &task{rec: r, done: make(chan error, 1)})
}

// submit waits for the writer's answer even when ctx ends: what was handed over may
// be written, and the caller must know whether it was.
func (w *writer) submit(ctx context.Context, queue chan<- *task, t *task) error {
	select {
	case queue <- t:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.stop:
		return ErrClosed
	}
	select {
	case err := <-t.done:
		return err
	case <-w.done:
		select {
		case err := <-t.done:
			return err
		default:
			return ErrClosed
		}
	}
}

// loop runs until close; it then finishes what is queued. Lanes and recordings take
// turns: a lane waits for the transaction under way, not for everything that is
// queued, and recordings wait for one of the lanes' at most.
func (w *writer) loop(ctx context.Context) {
	defer close(w.done)
	for {
		lanes := w.turn(ctx, w.first)
		if recordings := w.turn(ctx, w.queue); lanes || recordings {
			continue
		}
		select {
		case t := <-w.first:
			w.commit(ctx, w.gather(t, w.first))
		case t := <-w.queue:
			w.commit(ctx, w.gather(t, w.queue))
		case <-w.stop:
			for w.turn(ctx, w.first) || w.turn(ctx, w.queue) {
			}
			return
		}
	}
}

// turn commits what waits in one of the queues, and tells whether anything did.
func (w *writer) turn(ctx context.Context, queue <-chan *task) bool {
	select {
	case t := <-queue:
		w.commit(ctx, w.gather(t, queue))
		return true
	default:
		return false
	}
}

// gather takes what is waiting, without waiting for more: under load the commit
// before has let a group form. It lets the goroutines run that could run, for they may
// bring more; on an idle machine there are none.
func (w *writer) gather(first *task, queue <-chan *task) []*task {
	runtime.Gosched()
	group := []*task{first}
	rows := first.rows()
	for rows < maxGroupRows {
		select {
		case t := <-queue:
			group = append(group, t)
			rows += t.rows()
		default:
			return group
		}
	}
	return group
}

// rows is about how many rows a task writes; what a lane settles is a batch.
func (t *task) rows() int {
	if t.rec != nil {
		return 1 + len(t.rec.Events) + len(t.rec.Sightings)
	}
	return 100
}

// commit writes the group in one transaction. If that fails, each request is tried
// by itself, so that one tenant's bad row never fails another's good one.
func (w *writer) commit(ctx context.Context, group []*task) {
	err := w.transact(ctx, group)
	if err != nil && (len(group) > 1 || crossed(err)) && !errors.Is(err, errConnection) {
		for _, t := range group {
			t.done <- w.single(ctx, t)
		}
		return
	}
	for _, t := range group {
		t.done <- err
	}
}

// single tries one request, again where another node's was in its way: the next time it
// finds what that one wrote.
func (w *writer) single(ctx context.Context, t *task) (err error) {
	for range 3 {
		if err = w.transact(ctx, []*task{t}); !crossed(err) {
			break
		}
	}
	return err
}

// crossed tells whether PostgreSQL gave a transaction up for the sake of another one.
func crossed(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains([]string{"23505", "40001", "40P01"}, e.Code) // unique, serialisation, deadlock
}

var errConnection = errors.New("database connection lost")

func (w *writer) transact(ctx context.Context, group []*task) (err error) {
	if err := w.begin(ctx); err != nil {
		return err
	}
	if err = w.run(ctx, group); err == nil {
		err = w.tx.flushCounts(ctx)
	}
	if err == nil {
		if err = errors.Join(w.tx.later(ctx, "COMMIT"), w.tx.flush(ctx)); err == nil {
			w.s.committed(group)
			return nil
		}
		err = fmt.Errorf("commit: %w", err)
	}
	w.tx.forget()
	if _, rollbackErr := w.conn.ExecContext(ctx, "ROLLBACK"); rollbackErr != nil {
		w.s.log.Warn("rollback failed, connecting again", "error", rollbackErr)
		w.reconnect(ctx)
	}
	return err
}

// begin starts the transaction, over a new connection if the old one is gone.
func (w *writer) begin(ctx context.Context) error {
	begin := "BEGIN"
	if w.s.dialect.name == sqliteDialect.name {
		begin = "BEGIN IMMEDIATE"
	}
	if _, err := w.tx.exec(ctx, begin); err == nil {
		return nil
	}
	w.reconnect(ctx)
	if _, err := w.tx.exec(ctx, begin); err != nil {
		return fmt.Errorf("begin: %w: %w", errConnection, err)
	}
	return nil
}

func (w *writer) reconnect(ctx context.Context) {
	// A connection that failed may hold a half-done transaction: it is thrown away.
	w.tx.close()
	_ = w.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = w.conn.Close()
	if err := w.connect(ctx, w.s.write); err != nil {
		w.s.log.Error("cannot connect to the database", "error", err)
	}
}

func (w *writer) run(ctx context.Context, group []*task) error {
	w.tx.counts = make(counts)
	var recs []*Recording
	for _, t := range group {
		if t.rec != nil {
			recs = append(recs, t.rec)
		}
	}
	if len(recs) > 0 {
		if err := w.s.recordAll(ctx, w.tx, recs); err != nil {
			return err
		}
	}
	for _, t := range group {
		if t.run == nil {
			continue
		}
		if err := t.run(ctx, w.tx); err != nil {
			return err
		}
	}
	return nil
}

// disconnect gives the connection back, without the statements that would keep
// SQLite from closing it and from clearing its log away.
func (w *writer) disconnect() {
	w.tx.close()
	_ = w.conn.Close()
}

func (w *writer) close() {
	w.once.Do(func() { close(w.stop) })
	<-w.done
}
