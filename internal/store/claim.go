package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// ErrLeased says that another node sends for this destination.
var ErrLeased = errors.New("another node holds the lane")

// ClaimRequest says what a lane wants to send next.
type ClaimRequest struct {
	Destination int64
	Node        string // who asks; a new name at each start of a process
	Batch       ledger.ID
	Now         time.Time
	Lease       time.Duration
	MaxRows     int
	MaxBytes    int
	IDs         []ledger.ID // these rows only (a part of a refused batch); nil: whoever is due
	Probe       bool        // one row, to see whether a held lane is well again
	// Leads: each row is a call of its own. Two rows of one lead never go together, and
	// while the lane is held or in trouble for long those go first that were tried least,
	// so that a few which the CRM will not have cannot stand before all others for ever.
	Leads bool
}

// urgent is how close to its deadline a row goes before all others.
const urgent = 24 * time.Hour

// patience is how many failures in a row, some 25 minutes of them, are taken for an
// outage, after which leads arrive in order, before it is tried whether only the first
// ones are at fault.
const patience = 8

// Claim takes the rows that a destination gets next and writes the batch down
// before a byte of it leaves: money and what is about to expire first, then in order
// of receipt. It takes or renews the lane's lease; a batch that the owner before
// left unsettled may have arrived, and its rows are marked so.
//
// It returns no batch when nothing is due, and ErrLeased when another node has the
// lane.
func (s *Store) Claim(ctx context.Context, r ClaimRequest) (*ledger.Batch, ledger.Lane, error) {
	var batch *ledger.Batch
	var lane ledger.Lane
	leased := false
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) (err error) {
		batch, leased = nil, false
		if lane, err = s.lockLane(ctx, tx, r.Destination); err != nil {
			return err
		}
		if lane.Owner != r.Node && lane.LeaseUntil.After(r.Now) && !s.alone {
			leased = true
			return nil
		}
		if lane.Owner != r.Node {
			lane.Owner = r.Node
			lane.Epoch++
			if err := s.recover(ctx, tx, r.Destination, r.Now); err != nil {
				return err
			}
		}
		lane.LeaseUntil = r.Now.Add(r.Lease)
		if _, err := tx.exec(ctx, `UPDATE lanes SET owner = $2, epoch = $3, lease_until = $4 WHERE destination = $1`,
			r.Destination, lane.Owner, lane.Epoch, ledger.Micros(lane.LeaseUntil)); err != nil {
			return err
		}
		if r.IDs == nil && lane.DueAt.After(r.Now) {
			return nil
		}
		batch, err = s.claimRows(ctx, tx, r, lane)
		return err
	})
	switch {
	case err != nil:
		return nil, lane, fmt.Errorf("claim for destination %d: %w", r.Destination, err)
	case leased:
		return nil, lane, ErrLeased
	case batch == nil:
		return nil, lane, nil
	}
	if err := s.loadPayloads(ctx, batch); err != nil {
		return nil, lane, err
	}
	return batch, lane, nil
}

func (s *Store) claimRows(ctx context.Context, tx *tx, r ClaimRequest, lane ledger.Lane) (*ledger.Batch, error) {
	rows, err := s.dueRows(ctx, tx, r, lane)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	b := &ledger.Batch{ID: r.Batch, Destination: r.Destination, Epoch: lane.Epoch, ClaimedAt: r.Now, Envelope: rows[0].Envelope}
	bytes := 0
	for _, row := range rows {
		if row.Envelope != b.Envelope {
			continue // a batch has one envelope for all; the others come next
		}
		if len(b.Rows) >= r.MaxRows || len(b.Rows) > 0 && bytes+row.Size > r.MaxBytes {
			break
		}
		bytes += row.Size + 1
		b.Rows = append(b.Rows, row)
	}
	_, err = tx.exec(ctx, `INSERT INTO batches (id, destination, epoch, claimed_at, settled_at, outcome, events, status, code, subcode, trace_id, message, members)
		VALUES ($1, $2, $3, $4, 0, '', $5, 0, 0, 0, '', '', $6)`,
		int64(b.ID), b.Destination, lane.Epoch, ledger.Micros(r.Now), len(b.Rows), packIDs(b.Rows))
	if err != nil {
		return nil, fmt.Errorf("write the batch down: %w", err)
	}
	return b, nil
}

const rowColumns = `id, ws, source, name, size, priority, deadline, tries, unknown_since, suspect_since, test_code, agent, held`

// dueRows chooses the rows of the next batch.
func (s *Store) dueRows(ctx context.Context, tx *tx, r ClaimRequest, lane ledger.Lane) ([]ledger.Row, error) {
	now := ledger.Micros(r.Now)
	if r.IDs != nil {
		return queryRows(ctx, tx, `SELECT `+rowColumns+` FROM pending WHERE id IN `+s.dialect.idList+
			` AND destination = $2 AND priority IN (1, 5) AND deadline > $3 ORDER BY priority, id`, idListArg(r.IDs), r.Destination, now)
	}
	// What has been in doubt for too long may not go again by itself; see ParkDoubtful.
	const due = ` FROM pending WHERE destination = $1 AND priority < 9 AND due_at <= $2 AND deadline > $2 AND (unknown_since = 0 OR unknown_since > $3) `
	doubt := ledger.Micros(r.Now.Add(-ledger.DedupWindow))
	if r.Leads {
		order := `ORDER BY id LIMIT $4`
		if lane.Failures >= patience || lane.Held != ledger.None {
			order = `ORDER BY tries, id LIMIT $4`
		}
		rows, err := queryRows(ctx, tx, `SELECT `+rowColumns+due+order, r.Destination, now, doubt, r.MaxRows+ledger.MaxDeliveries)
		return oneOfEach(rows), err
	}
	// A suspect, refused alone without a clear reason, never travels with others.
	suspect := `SELECT ` + rowColumns + due + `AND suspect_since > 0 ORDER BY priority, id LIMIT 1`
	if r.Probe {
		rows, err := queryRows(ctx, tx, `SELECT `+rowColumns+due+`AND suspect_since = 0 ORDER BY priority, id LIMIT 1`, r.Destination, now, doubt)
		if err != nil || len(rows) > 0 {
			return rows, err
		}
		return queryRows(ctx, tx, suspect, r.Destination, now, doubt)
	}
	closing, err := queryRows(ctx, tx, `SELECT `+rowColumns+due+`AND suspect_since = 0 AND deadline < $4 ORDER BY deadline LIMIT $5`,
		r.Destination, now, doubt, ledger.Micros(r.Now.Add(urgent)), max(r.MaxRows/2, 1))
	if err != nil {
		return nil, err
	}
	rest, err := queryRows(ctx, tx, `SELECT `+rowColumns+due+`AND suspect_since = 0 ORDER BY priority, id LIMIT $4`, r.Destination, now, doubt, r.MaxRows)
	if err != nil {
		return nil, err
	}
	if len(rest) == 0 {
		return queryRows(ctx, tx, suspect, r.Destination, now, doubt)
	}
	return ahead(closing, rest, r.MaxRows), nil
}

// oneOfEach keeps the first row of each lead.
func oneOfEach(rows []ledger.Row) []ledger.Row {
	seen := make(map[ledger.ID]bool, len(rows))
	return slices.DeleteFunc(rows, func(r ledger.Row) bool {
		again := seen[r.ID.Event()]
		seen[r.ID.Event()] = true
		return again
	})
}

// ahead puts money first, then what is about to expire, then the rest in order. Both
// lists are due; closing is at most half a batch.
func ahead(closing, rest []ledger.Row, limit int) []ledger.Row {
	if len(closing) == 0 {
		return rest
	}
	first := make(map[ledger.ID]bool, len(closing))
	for _, row := range closing {
		first[row.ID] = true
	}
	var rows []ledger.Row
	for _, row := range rest {
		if row.Priority == ledger.Valuable && !first[row.ID] && len(rows) < limit-len(closing) {
			rows = append(rows, row)
			first[row.ID] = true
		}
	}
	rows = append(rows, closing...)
	for _, row := range rest {
		if !first[row.ID] {
			rows = append(rows, row)
		}
	}
	return rows
}

func queryRows(ctx context.Context, tx *tx, query string, args ...any) ([]ledger.Row, error) {
	rows, err := tx.query(ctx, query, args...)
	list, err := collect(rows, err, scanRow)
	if err != nil {
		return nil, fmt.Errorf("choose rows: %w", err)
	}
	return list, nil
}

func scanRow(row scanner) (r ledger.Row, err error) {
	var deadline, unknown, suspect int64
	err = row.Scan(&r.ID, &r.Workspace, &r.Source, &r.Name, &r.Size, &r.Priority, &deadline, &r.Tries, &unknown, &suspect, &r.Envelope.TestCode, &r.Envelope.Agent, &r.Held)
	r.Deadline, r.UnknownSince, r.SuspectSince = ledger.FromMicros(deadline), ledger.FromMicros(unknown), ledger.FromMicros(suspect)
	return r, err
}

// loadPayloads reads what the rows will carry. A payload never changes, so this
// happens outside the writer.
func (s *Store) loadPayloads(ctx context.Context, b *ledger.Batch) error {
	ids := make([]ledger.ID, len(b.Rows))
	at := make(map[ledger.ID]int, len(b.Rows))
	for i, r := range b.Rows {
		ids[i], at[r.ID] = r.ID, i
	}
	query := `SELECT id, payload FROM deliveries WHERE id IN ` + s.dialect.idList //nolint:gosec // a constant of forks.go
	rows, err := s.read.QueryContext(ctx, query, idListArg(ids))
	_, err = collect(rows, err, func(row scanner) (id ledger.ID, err error) {
		var payload []byte
		err = row.Scan(&id, &payload)
		b.Rows[at[id]].Payload = payload
		return id, err
	})
	if err != nil {
		return fmt.Errorf("read payloads: %w", err)
	}
	var sealed []sealedPayload
	for i := range b.Rows {
		r := &b.Rows[i]
		if lead, part, ok := splitPayload(r.Payload); ok {
			sealed = append(sealed, sealedPayload{r.Workspace, lead, r.ID, part, func(plain []byte) { r.Payload = plain }})
		}
	}
	return s.openPayloads(ctx, sealed)
}

// recover settles the batches that an owner before us left open: they may have
// arrived, so each row remembers since when it is in doubt.
func (s *Store) recover(ctx context.Context, tx *tx, destination int64, now time.Time) error {
	type open struct {
		id, claimed int64
		members     []byte
	}
	rows, err := tx.query(ctx, `SELECT id, claimed_at, members FROM batches WHERE destination = $1 AND settled_at = 0`, destination)
	batches, err := collect(rows, err, func(row scanner) (o open, err error) {
		err = row.Scan(&o.id, &o.claimed, &o.members)
		return o, err
	})
	if err != nil {
		return fmt.Errorf("find open batches: %w", err)
	}
	for _, o := range batches {
		if _, err := tx.exec(ctx, `UPDATE pending SET unknown_since = $3, tries = tries + 1
			WHERE id IN `+s.dialect.idList+` AND destination = $2 AND priority IN (1, 5) AND unknown_since = 0`, idListArg(unpackIDs(o.members)), destination, o.claimed); err != nil {
			return fmt.Errorf("mark rows of an open batch: %w", err)
		}
		if _, err := tx.exec(ctx, `UPDATE batches SET settled_at = $2, outcome = 'lost', message = 'stopped before the answer was written down' WHERE id = $1`,
			o.id, ledger.Micros(now)); err != nil {
			return fmt.Errorf("close an open batch: %w", err)
		}
	}
	return nil
}

// packIDs writes the ids of a batch as differences: about three bytes each.
func packIDs(rows []ledger.Row) []byte {
	var b []byte
	last := int64(0)
	for _, r := range rows {
		b = binary.AppendVarint(b, int64(r.ID)-last)
		last = int64(r.ID)
	}
	return b
}

func unpackIDs(b []byte) []ledger.ID {
	var ids []ledger.ID
	last := int64(0)
	for len(b) > 0 {
		d, n := binary.Varint(b)
		if n <= 0 {
			return ids
		}
		last += d
		ids = append(ids, ledger.ID(last))
		b = b[n:]
	}
	return ids
}
