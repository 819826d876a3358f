package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/capiloop/capiloop/internal/ledger"
)

// follower is a delivery that waits for another event of its lead.
type follower struct {
	id, destination, lead int64
	after                 string
}

func (s *Store) wait(ctx context.Context, tx *tx, f follower) error {
	// Who settles the predecessor has the lane locked, so that it cannot be done with
	// between our look at it and this row.
	if _, err := s.lockLane(ctx, tx, f.destination); err != nil {
		return err
	}
	_, err := tx.exec(ctx, `INSERT INTO sequences (id, destination, lead, after) VALUES ($1, $2, $3, $4)`, f.id, f.destination, f.lead, f.after)
	return err
}

// advance lets the deliveries of a lead go that wait for one of its events, if that was
// sent, and skips them if it never will be.
func (s *Store) advance(ctx context.Context, tx *tx, lead int64, after string) error {
	rows, err := tx.query(ctx, `SELECT id, destination, lead, after FROM sequences WHERE lead = $1 AND after = $2 ORDER BY id`, lead, after)
	list, err := collect(rows, err, scanFollower)
	if err != nil {
		return fmt.Errorf("look for events that wait for another: %w", err)
	}
	for _, f := range list {
		if err := s.follow(ctx, tx, f); err != nil {
			return fmt.Errorf("let an event follow another: %w", err)
		}
	}
	return nil
}

// advanceAll looks at all that waits of a lead.
func (s *Store) advanceAll(ctx context.Context, tx *tx, lead int64) error {
	rows, err := tx.query(ctx, `SELECT id, destination, lead, after FROM sequences WHERE lead = $1 ORDER BY id`, lead)
	list, err := collect(rows, err, scanFollower)
	if err != nil {
		return err
	}
	for _, f := range list {
		if err := s.follow(ctx, tx, f); err != nil {
			return err
		}
	}
	return nil
}

func scanFollower(row scanner) (f follower, err error) {
	err = row.Scan(&f.id, &f.destination, &f.lead, &f.after)
	return f, err
}

func (s *Store) follow(ctx context.Context, tx *tx, f follower) error {
	state, err := predecessor(ctx, tx, f)
	if err != nil || state == ledger.Waiting {
		return err
	}
	if _, err := tx.exec(ctx, `DELETE FROM sequences WHERE id = $1`, f.id); err != nil {
		return err
	}
	waiting, err := queryRows(ctx, tx, `SELECT `+rowColumns+` FROM pending WHERE destination = $1 AND priority = 9 AND id = $2`, f.destination, f.id)
	if err != nil || len(waiting) == 0 {
		return err
	}
	switch {
	case state != ledger.Sent:
		return s.finish(ctx, tx, f.destination, 0, []ledger.Change{{Row: waiting[0], State: ledger.Skipped, Why: ledger.SequenceBroken}})
	case waiting[0].Held == ledger.Sequence:
		return unpark(ctx, tx, f.destination, waiting)
	}
	return nil // it is held for another reason, too
}

// succeed follows up on rows that are done with: they wait for nothing any more, and
// others may have waited for them.
func (s *Store) succeed(ctx context.Context, tx *tx, destination int64, done []ledger.ID) error {
	var waits int64
	if err := tx.row(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM sequences WHERE destination = $1 LIMIT 1) AS one`, []any{destination}, &waits); err != nil || waits == 0 {
		return err
	}
	if _, err := tx.exec(ctx, `DELETE FROM sequences WHERE id IN `+s.dialect.idList, idListArg(done)); err != nil {
		return err
	}
	events := make([]ledger.ID, len(done))
	for i, id := range done {
		events[i] = id.Event()
	}
	rows, err := tx.query(ctx, `SELECT DISTINCT 0, s.destination, s.lead, s.after FROM fired f JOIN sequences s ON s.lead = f.lead AND s.after = f.name
		WHERE f.event IN `+s.dialect.idList+` AND f.event <> 0 AND s.destination = $2`, idListArg(events), destination)
	list, err := collect(rows, err, scanFollower)
	if err != nil {
		return fmt.Errorf("look for events that waited: %w", err)
	}
	for _, f := range list {
		if err := s.advance(ctx, tx, f.lead, f.after); err != nil {
			return err
		}
	}
	return nil
}

// catchUp looks at all that waits once more: what one node finished while another made
// what waits for it may have been seen by neither.
func (s *Store) catchUp(ctx context.Context) error {
	for after := int64(0); ; {
		n := 0
		err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
			rows, err := tx.query(ctx, `SELECT id, destination, lead, after FROM sequences WHERE id > $1 ORDER BY id LIMIT $2`, after, tidyRows)
			list, err := collect(rows, err, scanFollower)
			if err != nil {
				return err
			}
			n = len(list)
			for _, f := range list {
				if err := s.follow(ctx, tx, f); err != nil {
					return err
				}
			}
			if n > 0 {
				after = list[n-1].id
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("look at what waits for another event: %w", err)
		}
		if n < tidyRows {
			return nil
		}
	}
}

// predecessor tells how the event stands that must go before: Sent, Waiting, or Failed
// for what will never be sent.
func predecessor(ctx context.Context, tx *tx, f follower) (ledger.State, error) {
	var event int64
	err := tx.row(ctx, `SELECT event FROM fired WHERE lead = $1 AND name = $2 ORDER BY at LIMIT 1`, []any{f.lead, f.after}, &event)
	if errors.Is(err, sql.ErrNoRows) {
		return ledger.Waiting, nil
	}
	if err != nil {
		return "", err
	}
	if event == 0 { // it happened before the connection
		return ledger.Sent, nil
	}
	var state ledger.State
	err = tx.row(ctx, `SELECT COALESCE(r.state, '') FROM deliveries d LEFT JOIN results r ON r.id = d.id WHERE d.id > $1 AND d.id < CAST($1 AS bigint) + 64 AND d.destination = $2`,
		[]any{event, f.destination}, &state)
	switch {
	case errors.Is(err, sql.ErrNoRows): // it goes to other destinations only
		return ledger.Sent, nil
	case err != nil:
		return "", err
	case state == "":
		return ledger.Waiting, nil
	case state == ledger.Sent:
		return ledger.Sent, nil
	}
	return ledger.Failed, nil
}
