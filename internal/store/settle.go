package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/capiloop/capiloop/internal/ledger"
)

// ErrLeaseLost says that another node took the lane over while a request was under
// way; the answer changes nothing any more, the new owner sends again.
var ErrLeaseLost = errors.New("the lane was taken over by another node")

// Settle writes down what became of a batch, its rows and its lane, if the lease
// under which it was claimed still stands. Rows that were dropped or skipped
// meanwhile keep that state.
func (s *Store) Settle(ctx context.Context, st *ledger.Settlement) error {
	lost := false
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		lost = false
		b := st.Batch
		lane, err := s.lockLane(ctx, tx, b.Destination)
		if err != nil {
			return err
		}
		if lane.Epoch != b.Epoch {
			lost = true
			return nil
		}
		if _, err := tx.exec(ctx, `UPDATE batches SET settled_at = $2, outcome = $3, status = $4, code = $5, subcode = $6, trace_id = $7, message = $8
			WHERE id = $1`, int64(b.ID), ledger.Micros(s.clock.Now()), st.Outcome,
			st.Answer.Status, st.Answer.Code, st.Answer.Subcode, st.Answer.TraceID, st.Answer.Message); err != nil {
			return err
		}
		if err := s.change(ctx, tx, b, st.Changes); err != nil {
			return err
		}
		if err := keepRecords(ctx, tx, b.Destination, st); err != nil {
			return err
		}
		if err := s.laneFindings(ctx, tx, lane, st); err != nil {
			return err
		}
		return updateLane(ctx, tx, st.Lane)
	})
	if err == nil && lost {
		err = ErrLeaseLost
	}
	if err != nil {
		return fmt.Errorf("settle batch %s: %w", st.Batch.ID, err)
	}
	return nil
}

// change applies what became of each row.
func (s *Store) change(ctx context.Context, tx *tx, b *ledger.Batch, changes []ledger.Change) error {
	var done []ledger.Change
	for _, c := range changes {
		if c.State.Final() {
			done = append(done, c)
			continue
		}
		kept, err := keepPending(ctx, tx, b.Destination, c)
		if err != nil {
			return err
		}
		if !kept || c.State == ledger.Waiting {
			continue
		}
		tx.counts.moved(cellOf(b.Destination, c.Row), ledger.Waiting, "", c.State, c.Why)
		if c.Why == ledger.MaybeSent {
			f := ledger.Finding{Workspace: c.Row.Workspace, Kind: ledger.FindingMaybeSent, Subject: c.Row.Name, At: s.clock.Now()}
			if err := raise(ctx, tx, f); err != nil {
				return err
			}
		}
	}
	return s.finish(ctx, tx, b.Destination, b.ID, done)
}

func cellOf(destination int64, r ledger.Row) cell {
	return cell{ws: r.Workspace, hour: hourOf(r.ID.Time()), destination: destination, source: r.Source, name: r.Name}
}

// finish takes rows out of the queue and writes down what became of them. A row
// that is not in the queue any more was dropped or skipped meanwhile and stays so.
func (s *Store) finish(ctx context.Context, tx *tx, destination int64, batch ledger.ID, done []ledger.Change) error {
	if len(done) == 0 {
		return nil
	}
	rows := make([]ledger.Row, len(done))
	for i, c := range done {
		rows[i] = c.Row
	}
	gone, err := s.deletePending(ctx, tx, destination, rows)
	if err != nil {
		return err
	}
	now := ledger.Micros(s.clock.Now())
	results := make([][]any, 0, len(done))
	for _, c := range done {
		if !gone[c.Row.ID] {
			continue
		}
		from, fromReason := ledger.Waiting, ledger.None
		if c.Row.Priority == ledger.Parked {
			from, fromReason = ledger.Held, c.Row.Held
		}
		tx.counts.moved(cellOf(destination, c.Row), from, fromReason, c.State, c.Why)
		tries := c.Row.Tries
		if batch != 0 {
			tries++
		}
		results = append(results, []any{int64(c.Row.ID), string(c.State), string(c.Why), int64(batch), int64(tries), now})
		if c.State != ledger.Sent && c.Why != ledger.Expired {
			if err := s.releaseKey(ctx, tx, destination, c.Row.ID); err != nil {
				return err
			}
		}
	}
	if err := s.dialect.bulk(ctx, tx, resultsTable, results); err != nil {
		return err
	}
	over := make([]ledger.ID, len(results))
	for i, r := range results {
		over[i] = ledger.ID(r[0].(int64)) //nolint:forcetypeassert // written above
	}
	return s.succeed(ctx, tx, destination, over)
}

// keepPending updates a row that stays in the queue, or parks it; false says that
// it is not there any more.
func keepPending(ctx context.Context, tx *tx, destination int64, c ledger.Change) (bool, error) {
	priority, held := c.Row.Priority, ""
	if c.State == ledger.Held {
		priority, held = ledger.Parked, string(c.Why)
	}
	res, err := tx.exec(ctx, `UPDATE pending SET priority = $4, due_at = $5, tries = tries + 1, unknown_since = $6, suspect_since = $7, held = $8
		WHERE destination = $1 AND priority = $2 AND id = $3`,
		destination, int64(c.Row.Priority), int64(c.Row.ID), int64(priority),
		ledger.Micros(c.DueAt), ledger.Micros(c.UnknownSince), ledger.Micros(c.SuspectSince), held)
	if err != nil {
		return false, fmt.Errorf("keep a row: %w", err)
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

// releaseKey lets an event that failed come again after it was repaired.
func (s *Store) releaseKey(ctx context.Context, tx *tx, destination int64, id ledger.ID) error {
	var name, eventID string
	err := tx.row(ctx, `SELECT name, event_id FROM events WHERE id = $1`, []any{int64(id.Event())}, &name, &eventID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // a lead: recognised by its own ids, whatever became of it
	}
	if err != nil {
		return fmt.Errorf("read the failed event: %w", err)
	}
	_, err = tx.exec(ctx, `UPDATE seen SET released = 1 WHERE key = $1 AND id = $2`, seenKey(destination, name, eventID), int64(id))
	if err != nil {
		return fmt.Errorf("release the event id: %w", err)
	}
	return nil
}

// keepRecords writes down what a CRM calls the records of the leads it took, in the
// transaction that says that it took them, and the sealed copies of what left.
func keepRecords(ctx context.Context, tx *tx, destination int64, st *ledger.Settlement) error {
	for id, records := range st.Records {
		for rank, record := range records {
			if _, err := tx.exec(ctx, `INSERT INTO crm_records (destination, lead, record, rank) VALUES ($1, $2, $3, $4)
				ON CONFLICT (destination, lead, record) DO UPDATE SET rank = excluded.rank`, destination, int64(id.Event()), record, rank); err != nil {
				return fmt.Errorf("keep the CRM's record: %w", err)
			}
		}
	}
	for id, sealed := range st.Copies {
		if _, err := tx.exec(ctx, `INSERT INTO lead_copies (id, sealed) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET sealed = excluded.sealed`, int64(id), sealed); err != nil {
			return fmt.Errorf("keep a copy of what left: %w", err)
		}
	}
	return nil
}

// adKind is the kind of destinations for events; all others are CRMs.
const adKind = "meta"

// laneFindings opens and closes the findings that follow from the lane's state.
func (s *Store) laneFindings(ctx context.Context, tx *tx, before ledger.Lane, st *ledger.Settlement) error {
	short := st.Outcome == "split" && st.Answer.Status == 200
	if before.Held == st.Lane.Held && !short {
		return nil
	}
	var ws int64
	var kind, name string
	if err := tx.row(ctx, `SELECT ws, kind, name FROM destinations WHERE id = $1`, []any{before.Destination}, &ws, &kind, &name); err != nil {
		return fmt.Errorf("read the destination: %w", err)
	}
	about := ledger.FindingAccess
	if kind != adKind {
		about = ledger.FindingCRM
	}
	f := ledger.Finding{Workspace: ws, Kind: about, Subject: name, Evidence: string(st.Lane.Held), At: s.clock.Now()}
	if short {
		f.Kind = ledger.FindingShortCount
		return raise(ctx, tx, f)
	}
	if st.Lane.Held == ledger.None {
		return fix(ctx, tx, f)
	}
	return raise(ctx, tx, f)
}
