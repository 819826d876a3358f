package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// ErrTooLate says that a stage change can no longer be taken back: its time is over, or
// its event has left.
var ErrTooLate = errors.New("the events of the stage change have left, or its time is over")

// Undoing says which changes of a lead are taken back, all or none.
type Undoing struct {
	Workspace int64
	Lead      ledger.ID
	Changes   []ledger.ID
	Now       time.Time
}

// UndoStages takes stage changes back whose events still wait: they are skipped, the
// lead's names are free again, and the same change can be made anew. A change that was
// taken back before is left as it is.
func (s *Store) UndoStages(ctx context.Context, u *Undoing) error {
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		for _, id := range u.Changes {
			if err := s.undoStage(ctx, tx, u, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("take a stage change back: %w", err)
	}
	return nil
}

func (s *Store) undoStage(ctx context.Context, tx *tx, u *Undoing, change ledger.ID) error {
	var hash []byte
	var source, pipeline, stage, field string
	var effect ledger.Effect
	err := tx.row(ctx, `SELECT source, hash, pipeline, stage, field, effect FROM stage_changes WHERE id = $1 AND ws = $2 AND lead = $3`,
		[]any{int64(change), u.Workspace, int64(u.Lead)}, &source, &hash, &pipeline, &stage, &field, &effect)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return ErrNotFound
	case err != nil:
		return err
	case effect == ledger.EffectUndone:
		return nil
	case !u.Now.Before(change.Time().Add(ledger.MarkUndo)):
		return ErrTooLate
	}
	if err := s.takeBack(ctx, tx, change); err != nil {
		return err
	}
	// With another hash the row stays for ever and stands in nobody's way.
	other := binary.BigEndian.AppendUint64(hash, uint64(change)) //nolint:gosec // ids are never negative
	if _, err := tx.exec(ctx, `UPDATE stage_changes SET effect = $2, hash = $3 WHERE id = $1`, int64(change), string(ledger.EffectUndone), other); err != nil {
		return err
	}
	_, err = tx.exec(ctx, `UPDATE crm_stages SET n = n - 1 WHERE ws = $1 AND source = $2 AND field = $3 AND pipeline = $4 AND stage = $5 AND n > 0`,
		u.Workspace, source, field, pipeline, stage)
	return err
}

// takeBack skips what was made of a change, if nothing of it was ever tried.
func (s *Store) takeBack(ctx context.Context, tx *tx, change ledger.ID) error {
	rows, err := tx.query(ctx, `SELECT f.event, d.destination, d.id FROM fired f JOIN deliveries d ON d.id > f.event AND d.id < f.event + 64
		WHERE f.change = $1 AND f.event <> 0 AND NOT EXISTS (SELECT 1 FROM results r WHERE r.id = d.id AND r.state IN ('skipped', 'failed'))
		ORDER BY d.destination, d.id`, int64(change))
	type made struct{ event, destination, id int64 }
	list, err := collect(rows, err, func(row scanner) (m made, err error) {
		err = row.Scan(&m.event, &m.destination, &m.id)
		return m, err
	})
	if err != nil {
		return err
	}
	waiting := make([]ledger.Row, len(list))
	for i, m := range list {
		if waiting[i], err = s.untried(ctx, tx, m.destination, ledger.ID(m.id)); err != nil {
			return err
		}
	}
	// First the names: an event that waits for this one goes on waiting, until it is made again.
	if _, err := tx.exec(ctx, `DELETE FROM fired WHERE change = $1`, int64(change)); err != nil {
		return err
	}
	for i, m := range list {
		if _, err := tx.exec(ctx, `DELETE FROM sequences WHERE id = $1`, m.id); err != nil {
			return err
		}
		if err := s.finish(ctx, tx, m.destination, 0, []ledger.Change{{Row: waiting[i], State: ledger.Skipped, Why: ledger.Undone}}); err != nil {
			return err
		}
	}
	return nil
}

// untried returns a row that waits and was in no request yet. The lane is locked, so that
// no other node can claim the row meanwhile.
func (s *Store) untried(ctx context.Context, tx *tx, destination int64, id ledger.ID) (r ledger.Row, err error) {
	if _, err := s.lockLane(ctx, tx, destination); err != nil {
		return r, err
	}
	found, err := queryRows(ctx, tx, `SELECT `+rowColumns+` FROM pending WHERE destination = $1 AND priority IN (1, 5, 9) AND id = $2 AND tries = 0 AND unknown_since = 0`,
		destination, int64(id))
	if err != nil {
		return r, err
	}
	rows, err := tx.query(ctx, `SELECT members FROM batches WHERE destination = $1 AND settled_at = 0`, destination)
	open, err := collect(rows, err, func(row scanner) (members []byte, err error) {
		err = row.Scan(&members)
		return members, err
	})
	if err != nil {
		return r, err
	}
	underWay := slices.ContainsFunc(open, func(members []byte) bool { return slices.Contains(unpackIDs(members), id) })
	if len(found) == 0 || underWay {
		return r, ErrTooLate
	}
	return found[0], nil
}
