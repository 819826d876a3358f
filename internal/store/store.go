package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/gofrs/flock"

	"github.com/capiloop/capiloop/internal/ledger"
)

// Config says which database to open.
type Config struct {
	// Database is the path of an SQLite file, or a postgres:// URL.
	Database string
	Log      *slog.Logger
	Clock    ledger.Clock
}

// Store is an open ledger. It is safe for concurrent use.
type Store struct {
	dialect     *dialect
	log         *slog.Logger
	clock       ledger.Clock
	write       *sql.DB // one connection, the writer's
	read        *sql.DB
	writer      *writer
	wakes       *wakes
	withdrawals withdrawals
	alone       bool // no other process can use this database (SQLite)
	lock        *flock.Flock
	node        int
	open        Opener // of sealed payloads; nil: they stay closed
	path        string // of the SQLite file
	stop        context.CancelFunc
	running     sync.WaitGroup
}

// Open opens the database, brings its tables up to date and starts the writer. A
// second process on the same SQLite file is refused.
func Open(ctx context.Context, c Config) (*Store, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{log: c.Log, clock: c.Clock, wakes: newWakes(), stop: func() {}}
	postgres := strings.HasPrefix(c.Database, "postgres://") || strings.HasPrefix(c.Database, "postgresql://")
	var err error
	if postgres {
		err = s.openPostgres(ctx, c.Database)
	} else {
		err = s.openSQLite(ctx, c.Database)
	}
	if err == nil {
		err = s.start(ctx, c.Database, postgres)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) start(ctx context.Context, url string, postgres bool) error {
	if err := s.migrate(ctx); err != nil {
		return err
	}
	// The writer outlives the context that Open was called with; Close ends it.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	w, err := newWriter(background, s, s.write)
	if err != nil {
		return err
	}
	s.writer = w
	// Its context never ends: the SQLite driver watches one that can with a goroutine
	// for each statement.
	s.running.Go(func() { w.loop(context.WithoutCancel(ctx)) })
	if postgres {
		s.running.Go(func() { s.listen(background, url) })
	}
	return s.takeNode(ctx)
}

// takeNode gives this start of the process a number for its ids.
func (s *Store) takeNode(ctx context.Context) error {
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		return tx.row(ctx, `UPDATE installation SET value = CAST(CAST(value AS bigint) + 1 AS text) WHERE name = 'starts' RETURNING CAST(value AS bigint)`, nil, &s.node)
	})
	if err != nil {
		return fmt.Errorf("number this start: %w", err)
	}
	s.node %= ledger.MaxNodes
	return nil
}

// Node returns the number of this start, from 0 to ledger.MaxNodes-1.
func (s *Store) Node() int { return s.node }

// IsSQLite tells whether the database is an SQLite file.
func (s *Store) IsSQLite() bool { return s.alone }

// Ping tells whether the database can be written; it is what /readyz asks.
func (s *Store) Ping(ctx context.Context) error {
	return s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		_, err := tx.exec(ctx, `UPDATE installation SET value = $1 WHERE name = 'last_ping'`, s.clock.Now().UTC().Format("2006-01-02T15:04:05Z"))
		return err
	})
}

// Close finishes what is queued, then closes the database.
func (s *Store) Close() error {
	if s.writer != nil {
		s.writer.close()
		s.writer.disconnect()
	}
	s.stop()
	s.running.Wait()
	var errs []error
	for _, db := range []*sql.DB{s.read, s.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Unlock())
	}
	return errors.Join(errs...)
}
