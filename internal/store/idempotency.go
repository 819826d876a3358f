package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// ErrIdempotencyKeyReused says that an Idempotency-Key came again with another body.
var ErrIdempotencyKeyReused = errors.New("this Idempotency-Key was used for another request within seven days; use a new key for a new request")

// Idempotent makes a request safe to repeat: the same key with the same body gets
// the first answer again and writes nothing.
type Idempotent struct {
	Key  string
	Body [32]byte // SHA-256 of the request
	At   time.Time
	// Answer makes the answer that is kept, from what became of the events; it runs
	// inside the transaction and must not block.
	Answer func([]Recorded) (status int, body []byte)

	// Replayed is set when the request was a repeat; Status and Saved then are the
	// first answer, otherwise the new one.
	Replayed bool
	Status   int
	Saved    []byte
	Err      error // ErrIdempotencyKeyReused
}

// replay looks a key up. True means that nothing is to be written.
func (s *Store) replay(ctx context.Context, tx *tx, ws int64, i *Idempotent) (bool, error) {
	if i == nil {
		return false, nil
	}
	i.Replayed, i.Err = false, nil
	var body, saved []byte
	var status int
	err := tx.row(ctx, `SELECT body, status, answer FROM idempotency WHERE ws = $1 AND key = $2 AND at > $3`,
		[]any{ws, i.Key, ledger.Micros(i.At.Add(-idempotencyAge))}, &body, &status, &saved)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look up the Idempotency-Key: %w", err)
	case !bytes.Equal(body, i.Body[:]):
		i.Replayed, i.Err = true, ErrIdempotencyKeyReused
	default:
		i.Replayed, i.Status, i.Saved = true, status, saved
	}
	return true, nil
}

// remember keeps the answer of a request with a key.
func (s *Store) remember(ctx context.Context, tx *tx, r *Recording) error {
	i := r.Idem
	if i == nil || i.Replayed {
		return nil
	}
	i.Status, i.Saved = i.Answer(r.result)
	_, err := tx.exec(ctx, `INSERT INTO idempotency (ws, key, body, status, answer, at) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (ws, key) DO UPDATE SET body = excluded.body, status = excluded.status, answer = excluded.answer, at = excluded.at`,
		r.Workspace, i.Key, i.Body[:], int64(i.Status), i.Saved, ledger.Micros(i.At))
	if err != nil {
		return fmt.Errorf("keep the answer for the Idempotency-Key: %w", err)
	}
	return nil
}
