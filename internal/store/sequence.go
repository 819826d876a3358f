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
	id, lead int64
	after    string
}

// advance lets the deliveries go whose predecessor was sent, and skips those whose
// predecessor never will be. It is called whenever rows of the destination are done with.
func (s *Store) advance(ctx context.Context, tx *tx, destination int64) error {
	rows, err := tx.query(ctx, `SELECT id, lead, after FROM sequences WHERE destination = $1 ORDER BY id`, destination)
	list, err := collect(rows, err, func(row scanner) (f follower, err error) {
		err = row.Scan(&f.id, &f.lead, &f.after)
		return f, err
	})
	if err != nil {
		return fmt.Errorf("look for events that wait for another: %w", err)
	}
	for _, f := range list {
		state, err := predecessor(ctx, tx, destination, f)
		if err != nil {
			return fmt.Errorf("look for the event before another: %w", err)
		}
		if state == ledger.Waiting {
			continue
		}
		if _, err := tx.exec(ctx, `DELETE FROM sequences WHERE id = $1`, f.id); err != nil {
			return fmt.Errorf("let an event follow: %w", err)
		}
		waiting, err := queryRows(ctx, tx, `SELECT `+rowColumns+` FROM pending WHERE destination = $1 AND priority = 9 AND id = $2 AND held = $3`,
			destination, f.id, string(ledger.Sequence))
		if err != nil {
			return err
		}
		if state == ledger.Sent {
			err = unpark(ctx, tx, destination, waiting)
		} else {
			changes := make([]ledger.Change, len(waiting))
			for i, r := range waiting {
				changes[i] = ledger.Change{Row: r, State: ledger.Skipped, Why: ledger.SequenceBroken}
			}
			err = s.finish(ctx, tx, destination, 0, changes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// predecessor tells how the event stands that must go before: Sent, Waiting, or Failed
// for what will never be sent.
func predecessor(ctx context.Context, tx *tx, destination int64, f follower) (ledger.State, error) {
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
		[]any{event, destination}, &state)
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
