package store

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// wakes tells lanes that there is something to do. It is a hint only: a lane that
// misses it finds out by its slow poll.
type wakes struct {
	mu    sync.Mutex
	lanes map[int64]chan struct{}
}

func newWakes() *wakes { return &wakes{lanes: make(map[int64]chan struct{})} }

func (w *wakes) channel(destination int64) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.lanes[destination]
	if c == nil {
		c = make(chan struct{}, 1)
		w.lanes[destination] = c
	}
	return c
}

func (w *wakes) wake(destination int64) {
	select {
	case w.channel(destination) <- struct{}{}:
	default:
	}
}

func (w *wakes) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.lanes {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Wakes returns the channel on which a destination's lane is woken.
func (s *Store) Wakes(destination int64) <-chan struct{} { return s.wakes.channel(destination) }

// committed wakes the lanes of what a group has put into the queue.
func (s *Store) committed(group []*task) {
	for _, t := range group {
		if t.rec == nil {
			continue
		}
		for _, e := range t.rec.Events {
			for i := range e.Deliveries {
				s.wakes.wake(e.Deliveries[i].Destination)
			}
		}
	}
}

const wakeChannel = "capiloop_wake"

// notify tells the other nodes which destinations have new rows; PostgreSQL passes
// it on when the transaction commits.
func (s *Store) notify(ctx context.Context, tx *tx, pending [][]any) error {
	if s.dialect.name != postgresDialect.name {
		return nil
	}
	told := make(map[int64]bool)
	for _, row := range pending {
		destination, _ := row[0].(int64)
		if told[destination] {
			continue
		}
		told[destination] = true
		if err := tx.later(ctx, `SELECT pg_notify('`+wakeChannel+`', $1)`, strconv.FormatInt(destination, 10)); err != nil {
			return fmt.Errorf("notify the other nodes: %w", err)
		}
	}
	return nil
}

// listen passes the other nodes' wake-ups on until ctx is done, over a connection
// of its own that is made again when it breaks.
func (s *Store) listen(ctx context.Context, url string) {
	for ctx.Err() == nil {
		if err := s.listenOnce(ctx, url); err != nil && ctx.Err() == nil {
			s.log.Warn("listening for other nodes broke off, trying again", "error", err)
			_ = s.clock.Sleep(ctx, 5*time.Second)
		}
	}
}

func (s *Store) listenOnce(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "LISTEN "+wakeChannel); err != nil {
		return err
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if id, err := strconv.ParseInt(n.Payload, 10, 64); err == nil {
			s.wakes.wake(id)
		}
	}
}
