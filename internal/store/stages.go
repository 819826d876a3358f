package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// StageWrite is one stage change on its way into the ledger.
type StageWrite struct {
	ID          ledger.ID
	Workspace   int64
	Source      string              // the connection, key or file that told of it
	Destination int64               // the CRM's; 0: it came by another way
	Change      *ledger.StageChange // At is set
	Hash        []byte              // keyed: what recognises a repeat
	IDs         [][]byte            // keyed hashes of what names exactly one lead, the first that is known wins
	People      [][]byte            // keyed hashes of e-mail, phone and external id, in this order
	NewLead     *LeadRecording      // made if none of them is known
	Most        int                 // changes at the same time are counted up to that
	// Decide says what the change brings about. It runs inside the transaction, maybe
	// twice, and must not call out.
	Decide func(f *StageFacts) (StageDecision, error)
}

// StageFacts is what a decision about a stage change rests on.
type StageFacts struct {
	Lead   *LeadRow       // of which the change tells
	Denied bool           // this lead or one that it was merged with is without consent
	Root   ledger.ID      // the lead that it was merged into, or itself: by it each event goes once
	MetaID string         // Meta's lead id, of the lead or of another touch of it
	Stages []ledger.Stage // of the source, this change's too
	Fired  []Fired        // what was made of the lead so far
	Around int            // changes of the source with an event within ten minutes
}

// Fired is an event of a lead that was made.
type Fired struct {
	Name, Part string
	Event      ledger.ID // 0: its moment lay before the connection
	At         time.Time // event_time
}

// StageDecision is what a stage change brings about.
type StageDecision struct {
	Effect ledger.Effect
	Events []LeadEvent
}

// LeadEvent is an event of a lead, to be made once.
type LeadEvent struct {
	Name, Part string
	At         time.Time
	Event      *ledger.Event // nil: a moment of history, which is never sent
	After      string        // waits until the lead's event of this name is sent; "": for none
	// Unclaimed leaves the name free: the event went nowhere, and another touch of the
	// lead may let it go.
	Unclaimed bool
	Shared    bool // its id is that of the tag's copy, too
}

// StageRecorded tells what became of a stage change.
type StageRecorded struct {
	ID        ledger.ID // of the change; of the first one, if it is a repeat
	Lead      ledger.ID
	NewLead   bool
	Duplicate bool
	Effect    ledger.Effect
	Events    []ledger.ID
}

// ChangeStage writes a stage change with the events that are decided of it, once. Who it
// is about is found by ids, then by the CRM's records, then by e-mail and phone; nobody
// found is a new lead.
func (s *Store) ChangeStage(ctx context.Context, w *StageWrite) (StageRecorded, error) {
	var out StageRecorded
	var wake []int64
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) (err error) {
		out, wake, err = s.changeStage(ctx, tx, w)
		return err
	})
	if err != nil {
		return StageRecorded{}, fmt.Errorf("record a stage change: %w", err)
	}
	for _, destination := range wake {
		s.wakes.wake(destination)
	}
	return out, nil
}

func (s *Store) changeStage(ctx context.Context, tx *tx, w *StageWrite) (out StageRecorded, wake []int64, err error) {
	c := w.Change
	err = tx.row(ctx, `SELECT id, lead, effect FROM stage_changes WHERE ws = $1 AND source = $2 AND hash = $3`,
		[]any{w.Workspace, w.Source, w.Hash}, &out.ID, &out.Lead, &out.Effect)
	if err == nil {
		out.Duplicate = true
		return out, nil, nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return out, nil, err
	}
	out.ID = w.ID
	if out.Lead, out.NewLead, err = s.leadOf(ctx, tx, w); err != nil {
		return out, nil, err
	}
	facts := &StageFacts{}
	if err := s.lockLead(ctx, tx, out.Lead, facts); err != nil {
		return out, nil, err
	}
	if err := toldBefore(ctx, tx, w, &out); err != nil || out.Duplicate {
		return out, nil, err
	}
	if err := noteStage(ctx, tx, w); err != nil {
		return out, nil, err
	}
	if err := stageFacts(ctx, tx, w, out.Lead, facts); err != nil {
		return out, nil, err
	}
	decision, err := w.Decide(facts)
	if err != nil {
		return out, nil, err
	}
	out.Effect = decision.Effect
	if _, err := tx.exec(ctx, `INSERT INTO stage_changes (id, ws, source, hash, lead, record, deal, pipeline, stage, field, from_stage, moved_by, amount, currency, at, effect)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
		int64(w.ID), w.Workspace, w.Source, w.Hash, int64(out.Lead), firstRecord(c), c.DealID, c.Pipeline, c.Stage, c.Field, c.From, c.By,
		c.Amount, c.Currency, ledger.Micros(c.At), string(out.Effect)); err != nil {
		return out, nil, err
	}
	switch out.Effect {
	case ledger.EffectHistory:
		tx.counts.beside(w.Workspace, w.ID.Time(), 0, w.Source, c.Stage, ledger.History)
	case ledger.EffectAlreadySent:
		tx.counts.beside(w.Workspace, w.ID.Time(), 0, w.Source, c.Stage, ledger.AlreadySent)
	case ledger.EffectEvent, ledger.EffectNoRule, ledger.EffectCondition, ledger.EffectTest, ledger.EffectUndone:
	}
	out.Events, wake, err = s.insertLeadEvents(ctx, tx, facts.Root, w.ID, decision.Events)
	return out, wake, err
}

// toldBefore recognises a move that came by another way already: by the hook, and again
// by the regular look at the CRM.
func toldBefore(ctx context.Context, tx *tx, w *StageWrite, out *StageRecorded) error {
	c := w.Change
	second := c.At.Truncate(time.Second)
	err := tx.row(ctx, `SELECT id, effect FROM stage_changes WHERE lead = $1 AND at >= $2 AND at < $3 AND source = $4 AND field = $5 AND pipeline = $6 AND stage = $7 AND deal = $8 AND effect <> 'undone'`,
		[]any{int64(out.Lead), ledger.Micros(second), ledger.Micros(second.Add(time.Second)), w.Source, c.Field, c.Pipeline, c.Stage, c.DealID}, &out.ID, &out.Effect)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	out.Duplicate = err == nil
	return err
}

func firstRecord(c *ledger.StageChange) string {
	if len(c.Records) == 0 {
		return ""
	}
	return c.Records[0]
}

// leadOf finds whose the change is, or makes the lead, and keeps what the CRM calls it.
func (s *Store) leadOf(ctx context.Context, tx *tx, w *StageWrite) (lead ledger.ID, fresh bool, err error) {
	if lead, err = s.findLead(ctx, tx, w); err != nil {
		return 0, false, err
	}
	if lead == 0 {
		if err := s.holdAll(ctx, tx, w.whose()); err != nil {
			return 0, false, err
		}
		lead, err = s.findLead(ctx, tx, w) // another node may just have made it
	}
	if err != nil {
		return 0, false, err
	}
	if lead == 0 {
		rec := w.NewLead
		done, err := s.recordLead(ctx, tx, rec)
		if err != nil {
			return 0, false, err
		}
		lead, fresh = done.ID, !done.Duplicate
	}
	if w.Destination == 0 {
		return lead, fresh, nil
	}
	for i, record := range w.Change.Records {
		if _, err := tx.exec(ctx, `INSERT INTO crm_records (destination, lead, record, rank) VALUES ($1, $2, $3, $4) ON CONFLICT (destination, lead, record) DO NOTHING`,
			w.Destination, int64(lead), record, learned+i); err != nil {
			return 0, false, err
		}
	}
	return lead, fresh, nil
}

// whose are hashes of all that a lead is found by.
func (w *StageWrite) whose() [][]byte {
	list := slices.Concat(w.IDs, w.People)
	for _, record := range w.Change.Records {
		h := sha256.Sum256([]byte(strconv.FormatInt(w.Destination, 10) + " " + record))
		list = append(list, h[:])
	}
	return list
}

// learned is the rank from which on records were told by the CRM, not made by us: a lead
// is found by them, but never written into them.
const learned = 100

func (s *Store) findLead(ctx context.Context, tx *tx, w *StageWrite) (ledger.ID, error) {
	one := func(query string, args ...any) (ledger.ID, error) {
		var id int64
		err := tx.row(ctx, query, args, &id)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, nil
		}
		return ledger.ID(id), err
	}
	if w.Change.Lead != 0 {
		id, err := one(`SELECT id FROM leads WHERE id = $1 AND ws = $2`, int64(w.Change.Lead), w.Workspace)
		if id == 0 && err == nil {
			err = ErrNotFound
		}
		return id, err
	}
	for _, hash := range w.IDs {
		if id, err := one(`SELECT lead FROM lead_ids WHERE ws = $1 AND hash = $2`, w.Workspace, hash); id != 0 || err != nil {
			return id, err
		}
	}
	// Of several leads of one record or person it is the newest that was there already.
	at := ledger.Micros(w.Change.At.Add(ledger.ClockSkew))
	const newest = ` ORDER BY CASE WHEN l.created_at <= $3 THEN 0 ELSE 1 END, l.test, l.created_at DESC, l.id DESC LIMIT 1`
	for _, record := range w.Change.Records {
		id, err := one(`SELECT l.id FROM crm_records r JOIN leads l ON l.id = r.lead WHERE r.destination = $1 AND r.record = $2`+newest, w.Destination, record, at)
		if id != 0 || err != nil {
			return id, err
		}
	}
	for _, hash := range w.People {
		id, err := one(`SELECT l.id FROM lead_people p JOIN leads l ON l.id = p.lead WHERE p.ws = $1 AND p.hash = $2`+newest, w.Workspace, hash, at)
		if id != 0 || err != nil {
			return id, err
		}
	}
	return 0, nil
}

// lockLead finds out what a lead was merged into. On PostgreSQL the rows are locked, so
// that two nodes cannot both find a move not told yet, or an event not made.
func (s *Store) lockLead(ctx context.Context, tx *tx, lead ledger.ID, f *StageFacts) error {
	for f.Root = lead; ; {
		var into, consent int64
		if err := tx.row(ctx, `SELECT merged_into, consent FROM leads WHERE id = $1`+s.dialect.lock, []any{int64(f.Root)}, &into, &consent); err != nil {
			return err
		}
		f.Denied = f.Denied || ledger.Consent(consent) == ledger.ConsentDenied
		if into == 0 {
			return nil
		}
		f.Root = ledger.ID(into)
	}
}

// stageFacts reads what the decision rests on.
func stageFacts(ctx context.Context, tx *tx, w *StageWrite, lead ledger.ID, f *StageFacts) error {
	rows, err := tx.query(ctx, `SELECT `+leadColumns+` FROM leads l LEFT JOIN lead_secrets x ON x.lead = l.id WHERE l.id = $1`, int64(lead))
	list, err := collect(rows, err, scanLead)
	if err != nil {
		return err
	}
	f.Lead = &list[0]
	if f.MetaID, err = metaID(ctx, tx, &f.Lead.Lead); err != nil {
		return err
	}
	if f.Stages, err = knownStages(ctx, tx, w.Workspace, w.Source); err != nil {
		return err
	}
	if f.Fired, err = firedOf(ctx, tx, f.Root); err != nil {
		return err
	}
	f.Around, err = around(ctx, tx, w)
	return err
}

// metaID returns Meta's id of a lead, also where Meta was only its second touch.
func metaID(ctx context.Context, tx *tx, l *ledger.Lead) (id string, err error) {
	if l.Platform == adKind {
		return l.LeadID, nil
	}
	err = tx.row(ctx, `SELECT lead_id FROM touches WHERE lead = $1 AND platform = $2 AND lead_id <> '' ORDER BY at LIMIT 1`, []any{int64(l.ID), adKind}, &id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return id, err
}

func firedOf(ctx context.Context, tx *tx, lead ledger.ID) ([]Fired, error) {
	rows, err := tx.query(ctx, `SELECT name, part, event, at FROM fired WHERE lead = $1`, int64(lead))
	return collect(rows, err, func(row scanner) (f Fired, err error) {
		var at int64
		err = row.Scan(&f.Name, &f.Part, &f.Event, &at)
		f.At = ledger.FromMicros(at)
		return f, err
	})
}

// burstWindow is the span within which changes count as made at once.
const burstWindow = 10 * time.Minute

// around counts the changes with an event that the source tells of for the ten minutes
// before or after this one, whichever has more: a file may run backwards in time.
func around(ctx context.Context, tx *tx, w *StageWrite) (int, error) {
	var before, after int
	at := w.Change.At
	err := tx.row(ctx, `SELECT
			(SELECT COUNT(*) FROM (SELECT 1 FROM stage_changes WHERE ws = $1 AND source = $2 AND at > $3 AND at <= $4 AND effect = $6 LIMIT $7) b),
			(SELECT COUNT(*) FROM (SELECT 1 FROM stage_changes WHERE ws = $1 AND source = $2 AND at >= $4 AND at < $5 AND effect = $6 LIMIT $7) a)`,
		[]any{w.Workspace, w.Source, ledger.Micros(at.Add(-burstWindow)), ledger.Micros(at), ledger.Micros(at.Add(burstWindow)), string(ledger.EffectEvent), w.Most}, &before, &after)
	return max(before, after), err
}

// Reconsider decides once more what the receipt of a lead brings about, for a lead that a
// second touch has told more about.
func (s *Store) Reconsider(ctx context.Context, ws int64, lead ledger.ID, decide func(f *StageFacts) (StageDecision, error)) error {
	var decision StageDecision
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		facts := &StageFacts{}
		err := s.lockLead(ctx, tx, lead, facts)
		if err == nil {
			err = stageFacts(ctx, tx, &StageWrite{Workspace: ws, Change: &ledger.StageChange{}}, lead, facts)
		}
		if err != nil {
			return err
		}
		if decision, err = decide(facts); err != nil {
			return err
		}
		_, _, err = s.insertLeadEvents(ctx, tx, facts.Root, 0, decision.Events)
		return err
	})
	if err != nil {
		return fmt.Errorf("look at lead %s again: %w", lead, err)
	}
	s.wakeFor(decision.Events)
	return nil
}

// wakeFor wakes the destinations of events that were just written.
func (s *Store) wakeFor(events []LeadEvent) {
	for _, e := range events {
		if e.Event == nil {
			continue
		}
		for i := range e.Event.Deliveries {
			s.wakes.wake(e.Event.Deliveries[i].Destination)
		}
	}
}

// insertLeadEvents writes the events of a lead and marks them as made. It returns their
// ids and the destinations to wake.
func (s *Store) insertLeadEvents(ctx context.Context, tx *tx, lead, change ledger.ID, events []LeadEvent) (ids []ledger.ID, wake []int64, err error) {
	for _, e := range events {
		var id ledger.ID
		if e.Event != nil {
			var more []int64
			if id, more, err = s.insertLeadEvent(ctx, tx, lead, &e); err != nil {
				return nil, nil, err
			}
			ids, wake = append(ids, id), append(wake, more...)
		}
		if !e.Unclaimed {
			if _, err := tx.exec(ctx, `INSERT INTO fired (lead, name, part, event, change, at) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (lead, name, part) DO NOTHING`,
				int64(lead), e.Name, e.Part, int64(id), int64(change), ledger.Micros(e.At)); err != nil {
				return nil, nil, err
			}
		}
		// Others may wait for it, and it may be one that will never be sent.
		if err := s.advance(ctx, tx, int64(lead), e.Name); err != nil {
			return nil, nil, err
		}
	}
	return ids, wake, nil
}

// insertLeadEvent writes an event of a lead and returns its id; that of the first copy, if
// it is the second one.
func (s *Store) insertLeadEvent(ctx context.Context, tx *tx, lead ledger.ID, e *LeadEvent) (id ledger.ID, wake []int64, err error) {
	recorded := &Recorded{ID: e.Event.ID}
	pairs := make([]pair, len(e.Event.Deliveries))
	for i := range e.Event.Deliveries {
		d := &e.Event.Deliveries[i]
		pairs[i] = pair{event: e.Event, delivery: d, recorded: recorded, key: seenKey(d.Destination, e.Event.Name, e.Event.EventID), shared: e.Shared}
	}
	fresh, err := s.recognise(ctx, tx, pairs)
	if err == nil {
		err = s.insert(ctx, tx, fresh)
	}
	if err != nil {
		return 0, nil, err
	}
	for _, p := range fresh {
		d := p.delivery
		if d.State == ledger.Held && e.After != "" {
			if err := s.wait(ctx, tx, follower{int64(d.ID), d.Destination, int64(lead), e.After}); err != nil {
				return 0, nil, err
			}
			wake = append(wake, d.Destination)
		}
		if d.State == ledger.Waiting {
			wake = append(wake, d.Destination)
		}
	}
	if e.After == "" {
		return recorded.ID, wake, nil
	}
	return recorded.ID, wake, s.advance(ctx, tx, int64(lead), e.After) // what goes before it may be sent already
}

// noteStage keeps that a move went to a stage, and what the stage is called now.
func noteStage(ctx context.Context, tx *tx, w *StageWrite) error {
	c := w.Change
	known := ledger.Stage{Pipeline: c.Pipeline, ID: c.Stage, Field: c.Field, PipelineLabel: c.PipelineLabel, Label: c.StageLabel, Meaning: c.Meaning}
	if _, err := saveStage(ctx, tx, w.Workspace, w.Source, known, ledger.Micros(w.ID.Time()), 0); err != nil {
		return err
	}
	_, err := tx.exec(ctx, `UPDATE crm_stages SET n = n + 1, last_at = CASE WHEN last_at < $6 THEN $6 ELSE last_at END
		WHERE ws = $1 AND source = $2 AND field = $3 AND pipeline = $4 AND stage = $5`,
		w.Workspace, w.Source, c.Field, c.Pipeline, c.Stage, ledger.Micros(c.At))
	return err
}

// saveStage writes a stage down. listed is when the CRM's list had it, 0 where only a move
// told of it: what that leaves out is kept. It returns the name that the stage had before,
// if it has another one now.
func saveStage(ctx context.Context, tx *tx, ws int64, source string, st ledger.Stage, now, listed int64) (renamed string, err error) {
	key := []any{ws, source, st.Field, st.Pipeline, st.ID}
	var label, former string
	err = tx.row(ctx, `SELECT label, labels FROM crm_stages WHERE ws = $1 AND source = $2 AND field = $3 AND pipeline = $4 AND stage = $5`, key, &label, &former)
	if errors.Is(err, sql.ErrNoRows) {
		_, err = tx.exec(ctx, `INSERT INTO crm_stages (ws, source, field, pipeline, stage, pipeline_label, label, labels, position, meaning, first_at, last_at, listed_at, gone_at, n)
			VALUES ($1, $2, $3, $4, $5, $6, $7, '[]', $8, $9, $10, 0, $11, 0, 0)`,
			append(key, st.PipelineLabel, st.Label, st.Position, string(st.Meaning), now, listed)...)
		return "", err
	}
	if err != nil {
		return "", err
	}
	if listed == 0 && (st.Label == "" || st.Label == label) {
		return "", nil
	}
	if label != "" && st.Label != "" && label != st.Label {
		if former, err = alsoCalled(former, label); err != nil {
			return "", err
		}
		renamed = label
	}
	_, err = tx.exec(ctx, `UPDATE crm_stages SET label = CASE WHEN $6 = '' THEN label ELSE $6 END, labels = $7,
			pipeline_label = CASE WHEN $8 = '' THEN pipeline_label ELSE $8 END,
			position = CASE WHEN CAST($11 AS bigint) = 0 THEN position ELSE $9 END, meaning = CASE WHEN $10 = '' THEN meaning ELSE $10 END,
			listed_at = CASE WHEN CAST($11 AS bigint) = 0 THEN listed_at ELSE $11 END, gone_at = CASE WHEN CAST($11 AS bigint) = 0 THEN gone_at ELSE 0 END
		WHERE ws = $1 AND source = $2 AND field = $3 AND pipeline = $4 AND stage = $5`,
		append(key, st.Label, former, st.PipelineLabel, st.Position, string(st.Meaning), listed)...)
	return renamed, err
}

// alsoCalled adds a name to those that a stage had.
func alsoCalled(list, label string) (string, error) {
	var names []string
	if err := json.Unmarshal([]byte(list), &names); err != nil {
		return "", fmt.Errorf("read the former names of a stage: %w", err)
	}
	if !slices.Contains(names, label) {
		names = append(names, label)
	}
	b, err := json.Marshal(names)
	return string(b), err
}

const stageColumns = `field, pipeline, stage, pipeline_label, label, labels, position, meaning, first_at, last_at, gone_at, n`

func scanStage(row scanner) (st ledger.Stage, err error) {
	var labels string
	var first, last, gone int64
	err = row.Scan(&st.Field, &st.Pipeline, &st.ID, &st.PipelineLabel, &st.Label, &labels, &st.Position, &st.Meaning, &first, &last, &gone, &st.Count)
	if err == nil {
		err = json.Unmarshal([]byte(labels), &st.Labels)
	}
	st.FirstSeen, st.LastSeen, st.GoneAt = ledger.FromMicros(first), ledger.FromMicros(last), ledger.FromMicros(gone)
	return st, err
}

// maxStages bounds what a key that makes up stages can have us read.
const maxStages = 1000

func knownStages(ctx context.Context, tx *tx, ws int64, source string) ([]ledger.Stage, error) {
	rows, err := tx.query(ctx, `SELECT `+stageColumns+` FROM crm_stages WHERE ws = $1 AND source = $2 ORDER BY field, pipeline, position, stage LIMIT $3`, ws, source, maxStages)
	return collect(rows, err, scanStage)
}
