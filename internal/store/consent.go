package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// Consent is what a person decided, as it is kept: keyed hashes only.
type Consent struct {
	Workspace int64
	Granted   bool
	Hashes    [][]byte // of what the person's events carry
	IDs       [][]byte // that name one lead each, as in LeadRecording
	People    [][]byte // that name leads of the person, as in LeadRecording
	At        time.Time
}

// SetConsent writes a decision down and marks the person's leads. After a withdrawal
// the waiting events of these, and those whose payload is the person's, as carries tells,
// are skipped and emptied; leads on their way into a CRM have no payload and stay. It returns how many
// leads were marked and how many events were skipped.
func (s *Store) SetConsent(ctx context.Context, c *Consent, carries func(payload []byte) bool) (leads, events int, err error) {
	err = s.writer.do(ctx, func(ctx context.Context, tx *tx) (err error) {
		for _, hash := range c.Hashes {
			if _, err := tx.exec(ctx, `INSERT INTO consents (ws, hash, granted, at) VALUES ($1, $2, $3, $4)
				ON CONFLICT (ws, hash) DO UPDATE SET granted = excluded.granted, at = excluded.at`,
				c.Workspace, hash, flag(c.Granted), ledger.Micros(c.At)); err != nil {
				return err
			}
		}
		if _, err := tx.exec(ctx, `UPDATE installation SET value = CAST(CAST(value AS bigint) + 1 AS text) WHERE name = 'consents_version'`); err != nil {
			return err
		}
		leads, events, err = s.markLeads(ctx, tx, c)
		return err
	})
	if err == nil {
		s.withdrawals.forget(c.Workspace)
		s.withdrawals.settle()
		if !c.Granted && carries != nil {
			var more int
			more, err = s.skipWaiting(ctx, c.Workspace, carries)
			events += more
		}
	}
	if err != nil {
		return 0, 0, fmt.Errorf("write a decision about consent down: %w", err)
	}
	return leads, events, nil
}

// named are the leads that hash $2 names in workspace $1, be it one or a person's.
const named = `(SELECT lead FROM lead_ids WHERE ws = $1 AND hash = $2 UNION ALL SELECT lead FROM lead_people WHERE ws = $1 AND hash = $2)`

func (s *Store) markLeads(ctx context.Context, tx *tx, c *Consent) (leads, events int, err error) {
	consent := ledger.ConsentDenied
	if c.Granted {
		consent = ledger.ConsentGranted
	}
	marked := make(map[ledger.ID]bool)
	for _, hash := range slices.Concat(c.IDs, c.People) {
		rows, err := tx.query(ctx, `UPDATE leads SET consent = $3 WHERE ws = $1 AND id IN `+named+` RETURNING id`, c.Workspace, hash, int64(consent))
		ids, err := collect(rows, err, scanID[ledger.ID])
		if err != nil {
			return 0, 0, err
		}
		for _, id := range ids {
			marked[id] = true
		}
	}
	if c.Granted {
		return len(marked), 0, nil
	}
	// What a CRM has merged is one person.
	for _, id := range slices.Sorted(maps.Keys(marked)) {
		n, err := s.deny(ctx, tx, id, marked)
		if events += n; err != nil {
			return 0, 0, err
		}
	}
	return len(marked), events, nil
}

// deny marks a lead and all that it was merged with, and skips their events that wait.
// done are those that need not be followed again.
func (s *Store) deny(ctx context.Context, tx *tx, lead ledger.ID, done map[ledger.ID]bool) (events int, err error) {
	for list := []ledger.ID{lead}; len(list) > 0; list = list[1:] {
		id := list[0]
		if _, err := tx.exec(ctx, `UPDATE leads SET consent = $2 WHERE id = $1`, int64(id), int64(ledger.ConsentDenied)); err != nil {
			return events, err
		}
		n, err := s.denyEvents(ctx, tx, id)
		if events += n; err != nil {
			return events, err
		}
		rows, err := tx.query(ctx, `SELECT merged_into FROM leads WHERE id = $1 AND merged_into <> 0
			UNION SELECT id FROM leads WHERE merged_into = $1 AND merged_into <> 0`, int64(id))
		next, err := collect(rows, err, scanID[ledger.ID])
		if err != nil {
			return events, err
		}
		for _, id := range next {
			if !done[id] {
				done[id] = true
				list = append(list, id)
			}
		}
	}
	return events, nil
}

func (s *Store) denyEvents(ctx context.Context, tx *tx, lead ledger.ID) (n int, err error) {
	events, err := eventsOf(ctx, tx, lead)
	for _, id := range events {
		k, err := s.skipLead(ctx, tx, id, ledger.NoConsent)
		if err == nil && k > 0 {
			_, err = tx.exec(ctx, `UPDATE deliveries SET payload = NULL, kept = 0, notes = '' WHERE id > $1 AND id < CAST($1 AS bigint) + 64
				AND EXISTS (SELECT 1 FROM results r WHERE r.id = deliveries.id AND r.state = 'skipped')`, int64(id))
		}
		if n += k; err != nil {
			return n, err
		}
	}
	return n, err
}

// skipWaiting skips the waiting events of a workspace that a person's data is in. They
// are looked through outside the writer's transaction: there may be many.
func (s *Store) skipWaiting(ctx context.Context, ws int64, carries func([]byte) bool) (int, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT id FROM destinations WHERE ws = $1 ORDER BY id`, ws)
	destinations, err := collect(rows, err, scanID[int64])
	if err != nil {
		return 0, err
	}
	total := 0
	for _, destination := range destinations {
		for _, priority := range []ledger.Priority{ledger.Valuable, ledger.Ordinary, ledger.Parked} {
			n, err := s.skipInQueue(ctx, destination, priority, carries)
			if total += n; err != nil {
				return total, err
			}
		}
	}
	return total, nil
}

func (s *Store) skipInQueue(ctx context.Context, destination int64, priority ledger.Priority, carries func([]byte) bool) (int, error) {
	total := 0
	for after := ledger.ID(0); ; {
		found, err := s.read.QueryContext(ctx, `SELECT `+rowColumns+` FROM pending WHERE destination = $1 AND priority = $2 AND id > $3 ORDER BY id LIMIT $4`,
			destination, int64(priority), int64(after), tidyRows)
		page := &ledger.Batch{Destination: destination}
		if page.Rows, err = collect(found, err, scanRow); err != nil || len(page.Rows) == 0 {
			return total, err
		}
		if err := s.loadPayloads(ctx, page); err != nil {
			return total, err
		}
		var ids []ledger.ID
		for _, r := range page.Rows {
			if len(r.Payload) > 0 && carries(r.Payload) {
				ids = append(ids, r.ID)
			}
			after = r.ID
		}
		n, err := s.skipRows(ctx, destination, ids)
		if total += n; err != nil || len(page.Rows) < tidyRows {
			return total, err
		}
	}
}

// skipRows skips rows for want of consent, those that are still in the queue.
func (s *Store) skipRows(ctx context.Context, destination int64, ids []ledger.ID) (int, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	n := 0
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		rows, err := queryRows(ctx, tx, `SELECT `+rowColumns+` FROM pending WHERE id IN `+s.dialect.idList+` AND destination = $2 AND priority IN (1, 5, 9)`,
			idListArg(ids), destination)
		if err != nil {
			return err
		}
		n = len(rows)
		changes := make([]ledger.Change, n)
		for i, r := range rows {
			changes[i] = ledger.Change{Row: r, State: ledger.Skipped, Why: ledger.NoConsent}
			if _, err := tx.exec(ctx, `UPDATE deliveries SET payload = NULL, kept = 0, notes = '' WHERE id = $1`, int64(r.ID)); err != nil {
				return err
			}
		}
		return s.finish(ctx, tx, destination, 0, changes)
	})
	return n, err
}

// LeadsOf returns the leads that any of the hashes names, each once.
func (s *Store) LeadsOf(ctx context.Context, ws int64, ids, people [][]byte) ([]LeadRow, error) {
	var list []LeadRow
	seen := make(map[ledger.ID]bool)
	for _, hash := range slices.Concat(ids, people) {
		rows, err := s.read.QueryContext(ctx, `SELECT `+leadColumns+` FROM leads l LEFT JOIN lead_secrets x ON x.lead = l.id WHERE l.ws = $1 AND l.id IN `+named, ws, hash)
		found, err := collect(rows, err, scanLead)
		if err != nil {
			return nil, fmt.Errorf("look up the leads of a person: %w", err)
		}
		for _, r := range found {
			if !seen[r.Lead.ID] {
				seen[r.Lead.ID] = true
				list = append(list, r)
			}
		}
	}
	return list, nil
}

// Withdrawn holds the hashes of those who withdrew their consent. It never changes.
type Withdrawn map[string]struct{}

// Has tells whether a hash is among them.
func (w Withdrawn) Has(hash []byte) bool {
	_, ok := w[string(hash)]
	return ok
}

// withdrawalsAge is how long other nodes' withdrawals may stay unnoticed.
const withdrawalsAge = 3 * time.Second

// withdrawals keeps the sets of the workspaces in memory, for every event asks.
type withdrawals struct {
	mu      sync.RWMutex
	sets    map[int64]Withdrawn
	version string    // of the table, when it was looked at last
	looked  time.Time // when that was

	// recording is held by who asks and then records, so that a withdrawal can wait for
	// those that asked before it: what they record waits by then, and is found.
	recording sync.RWMutex
}

// settle waits until what was judged by an older set is on disk.
func (w *withdrawals) settle() {
	w.recording.Lock()
	defer w.recording.Unlock()
}

// HoldConsent is called before Withdrawn by who records what it judges by the answer;
// release is called once that is on disk.
func (s *Store) HoldConsent() (release func()) {
	s.withdrawals.recording.RLock()
	return s.withdrawals.recording.RUnlock
}

func (w *withdrawals) forget(ws int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sets, ws)
}

// Withdrawn returns the hashes that events of a workspace may not carry; nil if there
// are none. What this node has written is in it at once, what others have within
// seconds.
func (s *Store) Withdrawn(ctx context.Context, ws int64) (Withdrawn, error) {
	w := &s.withdrawals
	now := s.clock.Now()
	w.mu.RLock()
	set, ok := w.sets[ws]
	fresh := s.alone || now.Sub(w.looked) < withdrawalsAge
	w.mu.RUnlock()
	if ok && fresh {
		return set, nil
	}
	// Read under the lock: a set that was read before a decision cannot be put back
	// after that decision has made it be forgotten.
	w.mu.Lock()
	defer w.mu.Unlock()
	if !s.alone {
		var version string
		err := s.read.QueryRowContext(ctx, `SELECT value FROM installation WHERE name = 'consents_version'`).Scan(&version)
		if err != nil {
			return nil, fmt.Errorf("look for withdrawn consent: %w", err)
		}
		if version != w.version {
			clear(w.sets)
		}
		w.version, w.looked = version, now
	}
	if set, ok := w.sets[ws]; ok {
		return set, nil
	}
	rows, err := s.read.QueryContext(ctx, `SELECT hash FROM consents WHERE ws = $1 AND granted = 0`, ws)
	hashes, err := collect(rows, err, func(row scanner) (hash []byte, err error) {
		err = row.Scan(&hash)
		return hash, err
	})
	if err != nil {
		return nil, fmt.Errorf("look up withdrawn consent: %w", err)
	}
	if w.sets == nil {
		w.sets = make(map[int64]Withdrawn)
	}
	w.sets[ws] = nil
	if len(hashes) > 0 {
		set := make(Withdrawn, len(hashes))
		for _, hash := range hashes {
			set[string(hash)] = struct{}{}
		}
		w.sets[ws] = set
	}
	return w.sets[ws], nil
}
