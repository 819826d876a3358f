package main

import (
	"context"
	"crypto/sha256"
	"database/sql" //nolint:depguard // the floor is raw SQL
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"time"

	_ "modernc.org/sqlite" // the driver that the product has
)

// The tables of the floor: those that recording one event fills, with the same
// columns, keys and index as the product's.
var narrowTables = []string{
	`CREATE TABLE events (id INTEGER PRIMARY KEY, ws bigint, source text, name text, event_id text, time bigint, action_source text, came bigint, person bigint)`,
	`CREATE TABLE deliveries (id INTEGER PRIMARY KEY, destination bigint, kept bigint, priority smallint, deadline bigint, test_code text, notes text, payload BLOB)`,
	`CREATE TABLE pending (destination bigint, priority smallint, id bigint, ws bigint, source text, name text, size bigint, due_at bigint, deadline bigint,
		tries bigint, unknown_since bigint, suspect_since bigint, held text, test_code text, PRIMARY KEY (destination, priority, id)) WITHOUT ROWID`,
	`CREATE INDEX pending_deadline ON pending (destination, deadline)`,
	`CREATE TABLE seen (key BLOB PRIMARY KEY, id bigint, person bigint, released smallint) WITHOUT ROWID`,
}

var narrowInserts = []string{
	`INSERT INTO seen VALUES ($1, $2, $3, 0) ON CONFLICT (key) DO NOTHING`,
	`INSERT INTO events VALUES ($1, 1, 'bench', 'Lead', $2, $3, 'website', 32767, $4)`,
	`INSERT INTO deliveries VALUES ($1, 1, 32767, 5, $2, '', '', $3)`,
	`INSERT INTO pending VALUES (1, 5, $1, 1, 'bench', 'Lead', 1614, 0, $2, 0, 0, 0, '', '')`,
}

// The other floor is one wide row an event: what a log with a unique key would need.
var wideTables = []string{
	`CREATE TABLE events (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, name text, event_id text, time bigint, payload BLOB)`,
}

const wideInsert = `INSERT INTO events VALUES ($1, $2, 'Lead', $3, $4, $5) ON CONFLICT (key) DO NOTHING`

// floorResult is what rawSQLite prints.
type floorResult struct {
	Fresh  float64 `json:"fresh"`  // events/s of the first two seconds
	Stored float64 `json:"stored"` // events/s of the last two, once rows are stored
}

// rawSQLite writes made-up rows in groups, one transaction each, for two seconds or
// until so many rows are stored.
func rawSQLite(ctx context.Context, file string, rows, group int, wide bool) (err error) {
	q := url.Values{"_pragma": {"page_size(8192)", "synchronous(FULL)", "wal_autocheckpoint(4000)", "cache_size(-16000)"}, "_journal_mode": {"WAL"}}
	db, err := sql.Open("sqlite", "file:"+file+"?"+q.Encode())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	f := &floorWriter{ctx: ctx, conn: conn, payload: make([]byte, 1614), wide: wide}
	for i := range f.payload {
		f.payload[i] = "0123456789abcdef"[i*7%16]
	}
	if err := f.prepare(); err != nil {
		return err
	}
	var out floorResult
	if out.Fresh, err = f.rate(group); err != nil {
		return err
	}
	for f.n < int64(rows) {
		if err := f.commit(1000); err != nil {
			return err
		}
	}
	if rows > 0 {
		if out.Stored, err = f.rate(group); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

type floorWriter struct {
	ctx     context.Context //nolint:containedctx // lives as long as the program
	conn    *sql.Conn
	inserts []*sql.Stmt
	payload []byte
	wide    bool
	n       int64
}

func (f *floorWriter) prepare() error {
	tables, inserts := narrowTables, narrowInserts
	if f.wide {
		tables, inserts = wideTables, []string{wideInsert}
	}
	for _, t := range tables {
		if _, err := f.conn.ExecContext(f.ctx, t); err != nil {
			return err
		}
	}
	for _, text := range inserts {
		st, err := f.conn.PrepareContext(f.ctx, text) //nolint:sqlclosecheck // used until the program ends
		if err != nil {
			return err
		}
		f.inserts = append(f.inserts, st)
	}
	return nil
}

// rate writes for two seconds and returns events a second.
func (f *floorWriter) rate(group int) (float64, error) {
	began, from := time.Now(), f.n
	for time.Since(began) < 2*time.Second {
		if err := f.commit(group); err != nil {
			return 0, err
		}
	}
	return float64(f.n-from) / time.Since(began).Seconds(), nil
}

func (f *floorWriter) commit(rows int) error {
	if _, err := f.conn.ExecContext(f.ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	first := f.n
	f.n += int64(rows)
	if f.wide {
		for n := first; n < f.n; n++ {
			key, id, at := f.keys(n)
			if _, err := f.inserts[0].ExecContext(f.ctx, n, key, id, at, f.payload); err != nil {
				return err
			}
		}
	} else if err := f.narrow(first); err != nil {
		return err
	}
	_, err := f.conn.ExecContext(f.ctx, "COMMIT")
	return err
}

// narrow fills table after table, as the product does.
func (f *floorWriter) narrow(first int64) error {
	for t, st := range f.inserts {
		for n := first; n < f.n; n++ {
			key, eventID, at := f.keys(n)
			id := n << 6 // ids leave room for an event's deliveries
			args := []any{id, at}
			switch t {
			case 0:
				args = []any{key, id, n}
			case 1:
				args = []any{id, eventID, at, n}
			case 2:
				args = []any{id, at, f.payload}
			}
			if _, err := st.ExecContext(f.ctx, args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// keys makes up an event's unique key, its id and its time.
func (f *floorWriter) keys(n int64) (key []byte, eventID string, at int64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n)) //nolint:gosec // from 0
	sum := sha256.Sum256(b[:])
	return sum[:16], "7f3c2a90-5b1e-4d7c-8a6b-0123456789ab", 1_796_000_000_000_000 + n
}
