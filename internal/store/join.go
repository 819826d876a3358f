package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// Join brings the two copies of a form's event together: the tag's, which knows the
// browser, and the lead's, which knows the person.
type Join struct {
	Workspace     int64
	Lead          ledger.ID
	Name, EventID string
	Destinations  []int64
	Now           time.Time
	// Merge makes the event of both. It runs inside the transaction, maybe twice, and must
	// not call out; nothing is changed where it returns nil.
	Merge func(f *StageFacts, waiting []WaitingCopy) (*Joined, error)
}

// WaitingCopy is a delivery that waits for the other copy of its event.
type WaitingCopy struct {
	ID          ledger.ID
	Destination int64
	Payload     []byte // of the tag's copy; nil: it is the lead's own

	row ledger.Row
}

// Joined is the event of both copies. Its deliveries have the ids of those that wait: one
// that waits to be sent takes the place of the other copy there, one that is skipped for
// want of consent skips it, and any other leaves it alone.
type Joined struct {
	LeadEvent
	Sealed []byte // what is sealed of the lead from now on; nil: as before
}

// JoinCopies merges the copies of a form's event that wait, unless one was claimed or sent
// meanwhile. The lead's row and the lanes are locked, in this order: nobody else sends or
// merges what is merged here.
func (s *Store) JoinCopies(ctx context.Context, j *Join) error {
	if waits, err := s.anyWaits(ctx, j); err != nil || !waits {
		return err
	}
	var wake []int64
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) (err error) {
		wake, err = s.joinCopies(ctx, tx, j)
		return err
	})
	if err != nil {
		return fmt.Errorf("join the copies of an event of lead %s: %w", j.Lead, err)
	}
	for _, destination := range wake {
		s.wakes.wake(destination)
	}
	return nil
}

// anyWaits looks, without writing, whether there is anything to join: mostly there is not.
func (s *Store) anyWaits(ctx context.Context, j *Join) (bool, error) {
	for _, destination := range j.Destinations {
		var n int64
		err := s.read.QueryRowContext(ctx, `SELECT COUNT(*) FROM seen s JOIN pending p ON p.destination = $1 AND p.priority IN (1, 5) AND p.id = s.id
			WHERE s.key = $2 AND p.due_at > $3`, destination, seenKey(destination, j.Name, j.EventID), ledger.Micros(j.Now)).Scan(&n)
		if err != nil {
			return false, fmt.Errorf("look for the other copy of an event: %w", err)
		}
		if n > 0 {
			return true, nil
		}
	}
	return false, nil
}

func (s *Store) joinCopies(ctx context.Context, tx *tx, j *Join) (wake []int64, err error) {
	facts := &StageFacts{}
	if err := s.lockLead(ctx, tx, j.Lead, facts); err != nil {
		return nil, err
	}
	if err := stageFacts(ctx, tx, &StageWrite{Workspace: j.Workspace, Change: &ledger.StageChange{}}, j.Lead, facts); err != nil {
		return nil, err
	}
	var waiting []WaitingCopy
	for _, destination := range slices.Sorted(slices.Values(j.Destinations)) {
		c, err := s.waitingCopy(ctx, tx, destination, j, facts)
		if err != nil {
			return nil, err
		}
		if c != nil {
			waiting = append(waiting, *c)
		}
	}
	if len(waiting) == 0 {
		return nil, nil
	}
	joined, err := j.Merge(facts, waiting)
	if err != nil || joined == nil {
		return nil, err
	}
	for i := range waiting {
		c := &waiting[i]
		changed, err := s.joinCopy(ctx, tx, j, facts.Root, c, joined)
		if err != nil {
			return nil, err
		}
		if changed {
			wake = append(wake, c.Destination)
		}
	}
	if len(wake) > 0 && joined.Sealed != nil {
		if _, err := tx.exec(ctx, `UPDATE lead_secrets SET sealed = $3 WHERE lead = $1 AND sealed = $2`, int64(facts.Lead.Lead.ID), facts.Lead.Sealed, joined.Sealed); err != nil {
			return nil, err
		}
	}
	return wake, s.notify(ctx, tx, asRows(wake))
}

// asRows are destinations as rows of pending begin.
func asRows(destinations []int64) [][]any {
	rows := make([][]any, len(destinations))
	for i, d := range destinations {
		rows[i] = []any{d}
	}
	return rows
}

// waitingCopy returns the delivery to a destination that waits for the other copy of its
// event; nil: there is none, it was in a request already, or it is another lead's.
func (s *Store) waitingCopy(ctx context.Context, tx *tx, destination int64, j *Join, f *StageFacts) (*WaitingCopy, error) {
	c := &WaitingCopy{Destination: destination}
	err := tx.row(ctx, `SELECT id FROM seen WHERE key = $1`, []any{seenKey(destination, j.Name, j.EventID)}, &c.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if c.row, err = s.untried(ctx, tx, destination, c.ID); errors.Is(err, ErrTooLate) || c.row.Priority == ledger.Parked {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var due int64
	if err := tx.row(ctx, `SELECT p.due_at, d.payload FROM pending p JOIN deliveries d ON d.id = p.id WHERE p.destination = $1 AND p.priority = $2 AND p.id = $3`,
		[]any{destination, int64(c.row.Priority), int64(c.ID)}, &due, &c.Payload); err != nil {
		return nil, err
	}
	if due <= ledger.Micros(j.Now) {
		return nil, nil
	}
	if lead, _, sealed := splitPayload(c.Payload); sealed {
		if c.Payload = nil; lead != f.Lead.Lead.ID {
			return nil, nil
		}
	}
	if other, err := wentBefore(ctx, tx, f.Fired, j, c.ID.Event()); err != nil || other {
		return nil, err
	}
	return c, nil
}

// wentBefore tells whether the lead's event went under another id, or is history.
func wentBefore(ctx context.Context, tx *tx, fired []Fired, j *Join, waiting ledger.ID) (bool, error) {
	for _, made := range fired {
		if made.Name != j.Name || made.Part != "" || made.Event == waiting {
			continue
		}
		var same int64
		err := tx.row(ctx, `SELECT COUNT(*) FROM events WHERE id = $1 AND event_id = $2`, []any{int64(made.Event), j.EventID}, &same)
		return same == 0, err
	}
	return false, nil
}

// joinCopy puts the event of both into the place of the copy that waits.
func (s *Store) joinCopy(ctx context.Context, tx *tx, j *Join, root ledger.ID, c *WaitingCopy, joined *Joined) (changed bool, err error) {
	i := slices.IndexFunc(joined.Event.Deliveries, func(d ledger.Delivery) bool { return d.ID == c.ID })
	if i < 0 {
		return false, nil
	}
	d := &joined.Event.Deliveries[i]
	switch {
	case d.State == ledger.Skipped && d.Reason == ledger.NoConsent:
		if _, err := tx.exec(ctx, `UPDATE deliveries SET payload = NULL, kept = 0, notes = '' WHERE id = $1`, int64(c.ID)); err != nil {
			return false, err
		}
		return false, s.finish(ctx, tx, c.Destination, 0, []ledger.Change{{Row: c.row, State: d.State, Why: d.Reason}})
	case d.State != ledger.Waiting:
		return false, nil
	}
	if _, err := tx.exec(ctx, `UPDATE deliveries SET kept = $2, priority = $3, deadline = $4, notes = $5, payload = $6 WHERE id = $1`,
		int64(c.ID), int64(d.Kept), int64(d.Priority), ledger.Micros(d.Deadline), notes(d.Notes), d.Payload); err != nil { //nolint:gosec // a bit set keeps its bits
		return false, err
	}
	if _, err := tx.exec(ctx, `UPDATE pending SET priority = $4, size = $5, due_at = $6, deadline = $7 WHERE destination = $1 AND priority = $2 AND id = $3`,
		c.Destination, int64(c.row.Priority), int64(c.ID), int64(d.Priority), len(d.Payload), ledger.Micros(d.DueAt), ledger.Micros(d.Deadline)); err != nil {
		return false, err
	}
	e := joined.Event
	if _, err := tx.exec(ctx, `UPDATE events SET time = $2, action_source = $3, came = $4, person = $5 WHERE id = $1`,
		int64(c.ID.Event()), ledger.Micros(e.Time), e.ActionSource, int64(e.Came), e.Person); err != nil { //nolint:gosec // a bit set keeps its bits
		return false, err
	}
	_, err = tx.exec(ctx, `INSERT INTO fired (lead, name, part, event, change, at) VALUES ($1, $2, '', $3, 0, $4) ON CONFLICT (lead, name, part) DO NOTHING`,
		int64(root), j.Name, int64(c.ID.Event()), ledger.Micros(joined.At))
	return true, err
}

// LeadOfEvent returns the newest lead that a hash of its event's id names; 0: there is none.
func (s *Store) LeadOfEvent(ctx context.Context, ws int64, hash []byte) (ledger.ID, error) {
	var id int64
	err := s.read.QueryRowContext(ctx, `SELECT COALESCE(MAX(lead), 0) FROM lead_people WHERE ws = $1 AND hash = $2`, ws, hash).Scan(&id)
	if err != nil {
		return 0, fmt.Errorf("look for the lead of an event: %w", err)
	}
	return ledger.ID(id), nil
}
