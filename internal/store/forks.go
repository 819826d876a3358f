package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/capiloop/capiloop/internal/ledger"
)

// dialect is everything in which the two databases differ.
type dialect struct {
	name string
	// words replace {{…}} in the migrations.
	words *strings.Replacer
	// lock is appended to the SELECT of a row that the transaction will change.
	// SQLite has one writer; its transactions need no row locks.
	lock string
	// hold is what takes a lock of a number until the end of the transaction; "" where
	// there is no need.
	hold string
	// idList turns parameter $1, made by idListArg, into a set of ids.
	idList string
	bulk   func(ctx context.Context, tx *tx, t *table, rows [][]any) error
}

var sqliteDialect = dialect{
	name:   "sqlite3",
	words:  strings.NewReplacer("{{key}}", "INTEGER PRIMARY KEY", "{{blob}}", "BLOB", "{{narrow}}", "WITHOUT ROWID"),
	idList: "(SELECT value FROM json_each($1))",
	bulk:   insertEach,
}

var postgresDialect = dialect{
	name:   "postgres",
	words:  strings.NewReplacer("{{key}}", "bigint PRIMARY KEY", "{{blob}}", "bytea", "{{narrow}}", ""),
	lock:   " FOR UPDATE",
	hold:   "SELECT pg_advisory_xact_lock($1)",
	idList: "(SELECT value::bigint FROM json_array_elements_text($1::json))",
	bulk:   insertUnnest,
}

// holdAll keeps other nodes from the same hashes until the end of the transaction: who
// looks for a person and finds nobody must be the only one to make the lead.
func (s *Store) holdAll(ctx context.Context, tx *tx, hashes [][]byte) error {
	if s.dialect.hold == "" {
		return nil
	}
	keys := make([]int64, len(hashes))
	for i, h := range hashes {
		keys[i] = int64(binary.BigEndian.Uint64(h)) //nolint:gosec // any number will do
	}
	slices.Sort(keys) // so that two nodes never wait for each other
	for _, k := range slices.Compact(keys) {
		if _, err := tx.exec(ctx, s.dialect.hold, k); err != nil {
			return fmt.Errorf("keep others away: %w", err)
		}
	}
	return nil
}

// idListArg writes ids as the JSON list that idList takes.
func idListArg(ids []ledger.ID) string {
	var b strings.Builder
	b.WriteByte('[')
	for i, id := range ids {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, int64(id))
	}
	b.WriteByte(']')
	return b.String()
}

// table describes the columns of rows that are inserted by the hundred.
type table struct {
	name    string
	columns []string
	types   []string // PostgreSQL's, for unnest
	suffix  string   // ON CONFLICT …
	each    string   // INSERT of one row, for SQLite
	unnest  string   // INSERT of many rows from arrays
}

func newTable(name, columns, suffix string) *table {
	t := &table{name: name, suffix: suffix}
	for c := range strings.FieldsSeq(columns) {
		column, typ, _ := strings.Cut(c, ":")
		t.columns, t.types = append(t.columns, column), append(t.types, typ)
	}
	params, arrays := make([]string, 0, len(t.types)), make([]string, 0, len(t.types))
	for i, typ := range t.types {
		params = append(params, "?")
		arrays = append(arrays, fmt.Sprintf("$%d::%s[]", i+1, typ))
	}
	head := "INSERT INTO " + name + " (" + strings.Join(t.columns, ", ") + ") "
	t.each = head + "VALUES (" + strings.Join(params, ", ") + ") " + suffix
	t.unnest = head + "SELECT * FROM unnest(" + strings.Join(arrays, ", ") + ") " + suffix
	return t
}

// insertEach inserts row by row: in SQLite a statement of many rows is no faster.
func insertEach(ctx context.Context, tx *tx, t *table, rows [][]any) error {
	if err := tx.each(ctx, t.each, rows, nil); err != nil {
		return fmt.Errorf("insert into %s: %w", t.name, err)
	}
	return nil
}

// insertUnnest inserts all rows by one statement.
func insertUnnest(ctx context.Context, tx *tx, t *table, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	return tx.later(ctx, t.unnest, arrays(t, rows)...)
}

// arrays turns rows into one typed slice per column.
func arrays(t *table, rows [][]any) []any {
	args := make([]any, len(t.columns))
	for c, typ := range t.types {
		switch typ {
		case "text":
			list := make([]string, len(rows))
			for r := range rows {
				list[r], _ = rows[r][c].(string)
			}
			args[c] = list
		case "bytea":
			list := make([][]byte, len(rows))
			for r := range rows {
				list[r], _ = rows[r][c].([]byte)
			}
			args[c] = list
		default:
			list := make([]int64, len(rows))
			for r := range rows {
				list[r], _ = rows[r][c].(int64)
			}
			args[c] = list
		}
	}
	return args
}

// insertNew inserts rows whose last column is the id and returns the ids that were
// new, for a table with ON CONFLICT DO NOTHING.
func (s *Store) insertNew(ctx context.Context, tx *tx, t *table, rows [][]any, idColumn int) (map[int64]bool, error) {
	fresh := make(map[int64]bool, len(rows))
	if s.dialect.name == sqliteDialect.name {
		if err := tx.each(ctx, t.each, rows, func(row int) { fresh[rows[row][idColumn].(int64)] = true }); err != nil {
			return nil, fmt.Errorf("insert into %s: %w", t.name, err)
		}
		return fresh, nil
	}
	if len(rows) == 0 {
		return fresh, nil
	}
	found, err := tx.query(ctx, t.unnest+" RETURNING "+t.columns[idColumn], arrays(t, rows)...)
	ids, err := collect(found, err, scanID[int64])
	if err != nil {
		return nil, fmt.Errorf("insert into %s: %w", t.name, err)
	}
	for _, id := range ids {
		fresh[id] = true
	}
	return fresh, nil
}

// deletePending removes rows from the queue by their whole key and returns those
// that were there.
func (s *Store) deletePending(ctx context.Context, tx *tx, destination int64, rows []ledger.Row) (map[ledger.ID]bool, error) {
	gone := make(map[ledger.ID]bool, len(rows))
	if s.dialect.name == sqliteDialect.name {
		keys := make([][]any, len(rows))
		for i, r := range rows {
			keys[i] = []any{destination, int64(r.Priority), int64(r.ID)}
		}
		err := tx.each(ctx, `DELETE FROM pending WHERE destination = ? AND priority = ? AND id = ?`, keys, func(row int) { gone[rows[row].ID] = true })
		if err != nil {
			return nil, fmt.Errorf("delete from pending: %w", err)
		}
		return gone, nil
	}
	ids, priorities := make([]int64, len(rows)), make([]int64, len(rows))
	for i, r := range rows {
		ids[i], priorities[i] = int64(r.ID), int64(r.Priority)
	}
	found, err := tx.query(ctx, `DELETE FROM pending p USING unnest($2::bigint[], $3::bigint[]) AS d (priority, id)
		WHERE p.destination = $1 AND p.priority = d.priority AND p.id = d.id RETURNING p.id`, destination, priorities, ids)
	list, err := collect(found, err, scanID[ledger.ID])
	if err != nil {
		return nil, fmt.Errorf("delete from pending: %w", err)
	}
	for _, id := range list {
		gone[id] = true
	}
	return gone, nil
}

// tx is the writer's transaction, with statements prepared once per connection.
type tx struct {
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
	direct   map[string]driver.Stmt // SQLite's, of each
	queued   *pgx.Batch             // PostgreSQL's, of later; nil for SQLite
	counts   counts                 // what the transaction changes in the book
}

func newTx(conn *sql.Conn, d *dialect) *tx {
	t := &tx{conn: conn, prepared: make(map[string]*sql.Stmt), direct: make(map[string]driver.Stmt)}
	if d.name == postgresDialect.name {
		t.queued = &pgx.Batch{}
	}
	return t
}

// close closes the statements: those of a connection of one's own are not closed
// with it.
func (t *tx) close() {
	for _, st := range t.prepared {
		_ = st.Close()
	}
	for _, st := range t.direct {
		_ = st.Close()
	}
	clear(t.prepared)
	clear(t.direct)
}

// later runs a statement whose result nobody waits for. PostgreSQL gets it together
// with those that follow, before the next one that is waited for, in one round trip.
func (t *tx) later(ctx context.Context, query string, args ...any) error {
	if t.queued == nil {
		_, err := t.exec(ctx, query, args...)
		return err
	}
	t.queued.Queue(query, args...)
	return nil
}

// flush sends what is queued. The first error ends the transaction: PostgreSQL skips
// what comes behind it.
func (t *tx) flush(ctx context.Context) error {
	if t.queued == nil || t.queued.Len() == 0 {
		return nil
	}
	batch := t.queued
	t.queued = &pgx.Batch{}
	return t.conn.Raw(func(c any) error {
		results := c.(*stdlib.Conn).Conn().SendBatch(ctx, batch)
		for _, q := range batch.QueuedQueries {
			if _, err := results.Exec(); err != nil {
				_ = results.Close()
				return fmt.Errorf("%s: %w", firstWords(q.SQL), err)
			}
		}
		return results.Close()
	})
}

// forget drops what is queued for a transaction that will not be.
func (t *tx) forget() {
	if t.queued != nil {
		t.queued = &pgx.Batch{}
	}
}

func (t *tx) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if err := t.flush(ctx); err != nil {
		return nil, err
	}
	if st := t.prepared[query]; st != nil {
		return st, nil
	}
	st, err := t.conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", firstWords(query), err)
	}
	t.prepared[query] = st
	return st, nil
}

func (t *tx) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	st, err := t.stmt(ctx, query) //nolint:sqlclosecheck // it stays prepared as long as the connection lives
	if err != nil {
		return nil, err
	}
	return st.ExecContext(ctx, args...)
}

// each runs a statement of SQLite's once per row and calls changed, if it is not nil,
// for those that changed something. It asks the driver itself: database/sql would copy
// the arguments and take its locks for every row.
func (t *tx) each(ctx context.Context, query string, rows [][]any, changed func(row int)) error {
	if len(rows) == 0 {
		return nil
	}
	return t.conn.Raw(func(c any) (err error) {
		st := t.direct[query] // it stays prepared as long as the connection lives
		if st == nil {
			if st, err = c.(driver.ConnPrepareContext).PrepareContext(ctx, query); err != nil {
				return err
			}
			t.direct[query] = st
		}
		args := make([]driver.NamedValue, len(rows[0]))
		for i, row := range rows {
			for j, v := range row {
				args[j] = driver.NamedValue{Ordinal: j + 1, Value: v}
			}
			done, err := st.(driver.StmtExecContext).ExecContext(ctx, args)
			if err != nil {
				return err
			}
			if n, err := done.RowsAffected(); changed != nil && err == nil && n == 1 {
				changed(i)
			}
		}
		return nil
	})
}

func (t *tx) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	st, err := t.stmt(ctx, query) //nolint:sqlclosecheck // it stays prepared as long as the connection lives
	if err != nil {
		return nil, err
	}
	return st.QueryContext(ctx, args...)
}

// row runs a query of at most one row; sql.ErrNoRows comes from Scan.
func (t *tx) row(ctx context.Context, query string, args []any, dest ...any) error {
	st, err := t.stmt(ctx, query) //nolint:sqlclosecheck // it stays prepared as long as the connection lives
	if err != nil {
		return err
	}
	return st.QueryRowContext(ctx, args...).Scan(dest...)
}

func firstWords(query string) string {
	return strings.Join(strings.Fields(query)[:min(6, len(strings.Fields(query)))], " ")
}
