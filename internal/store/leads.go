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

// LeadRecording is one lead to be written. The lead carries only what may stand open;
// who it is comes sealed.
type LeadRecording struct {
	Lead            ledger.Lead // Contact, Answers, Clicks, IP and UserAgent are ignored
	Wrapped, Sealed []byte      // the lead's key, and what it seals
	IDs             [][]byte    // keyed hashes of what names exactly this lead
	People          [][]byte    // keyed hashes of e-mail and phone, by which one person's leads merge
	Known           [][]byte    // keyed hashes of what else finds the person
	Key, Body       []byte      // keyed hashes of an Idempotency-Key, and of it with the request; nil: there is none
	MergeWindow     time.Duration
	Deliveries      []ledger.Delivery // to CRMs
	Events          []LeadEvent       // at its receipt
	At              time.Time         // receipt
}

// LeadRecorded tells what became of it.
type LeadRecorded struct {
	ID        ledger.ID // of the lead that is kept
	Duplicate bool      // the same lead came again
	Merged    bool      // the same person by another source within the window
	Reused    bool      // the Idempotency-Key came before with another request; nothing was written
}

// RecordLead writes a lead, once. The same lead again changes nothing; the same
// person by another source within the merge window becomes a touch of the first one.
func (s *Store) RecordLead(ctx context.Context, r *LeadRecording) (LeadRecorded, error) {
	var out LeadRecorded
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) (err error) {
		out, err = s.recordLead(ctx, tx, r)
		return err
	})
	if err != nil {
		return LeadRecorded{}, fmt.Errorf("record a lead: %w", err)
	}
	for i := range r.Deliveries {
		s.wakes.wake(r.Deliveries[i].Destination)
	}
	s.wakeFor(r.Events)
	return out, nil
}

func (s *Store) recordLead(ctx context.Context, tx *tx, r *LeadRecording) (LeadRecorded, error) {
	l := &r.Lead
	ids := r.IDs
	if r.Key != nil {
		reused, err := keyReused(ctx, tx, r)
		if err != nil || reused {
			return LeadRecorded{Reused: reused}, err
		}
		ids = append(slices.Clip(ids), r.Key, r.Body)
	}
	first, err := s.claimIDs(ctx, tx, l.Workspace, l.ID, ids)
	if err != nil {
		return LeadRecorded{}, err
	}
	if first != l.ID {
		tx.counts.beside(l.Workspace, r.At, 0, l.Source, ledger.LeadName, ledger.Duplicate)
		return LeadRecorded{ID: first, Duplicate: true}, nil
	}
	same, err := s.samePerson(ctx, tx, r)
	if err != nil {
		return LeadRecorded{}, err
	}
	if same != 0 {
		if err := hand(ctx, tx, l.Workspace, ids, l.ID, same); err != nil {
			return LeadRecorded{}, err
		}
		return LeadRecorded{ID: same, Merged: true}, s.touch(ctx, tx, same, r)
	}
	return LeadRecorded{ID: l.ID}, s.insertLead(ctx, tx, r)
}

// keyReused tells whether an Idempotency-Key came before with another request.
func keyReused(ctx context.Context, tx *tx, r *LeadRecording) (bool, error) {
	var known, same int64
	err := tx.row(ctx, `SELECT COUNT(*), COALESCE(SUM(CASE WHEN hash = $3 THEN 1 ELSE 0 END), 0) FROM lead_ids WHERE ws = $1 AND hash IN ($2, $3)`,
		[]any{r.Lead.Workspace, r.Key, r.Body}, &known, &same)
	return known > 0 && same == 0, err
}

// claimIDs takes the ids for a lead and returns whose they are: if any of them was an
// earlier one's, they all are, so that none is left with a lead that is not kept.
func (s *Store) claimIDs(ctx context.Context, tx *tx, ws int64, lead ledger.ID, ids [][]byte) (ledger.ID, error) {
	owner := lead
	for _, hash := range ids {
		res, err := tx.exec(ctx, `INSERT INTO lead_ids (ws, hash, lead) VALUES ($1, $2, $3) ON CONFLICT (ws, hash) DO NOTHING`, ws, hash, int64(lead))
		if err != nil {
			return 0, err
		}
		if n, err := res.RowsAffected(); err != nil || n == 1 {
			if err != nil {
				return 0, err
			}
			continue
		}
		var first int64
		if err := tx.row(ctx, `SELECT lead FROM lead_ids WHERE ws = $1 AND hash = $2`, []any{ws, hash}, &first); err != nil {
			return 0, err
		}
		if owner == lead {
			owner = ledger.ID(first)
		}
	}
	if owner == lead {
		return lead, nil
	}
	return owner, hand(ctx, tx, ws, ids, lead, owner)
}

// hand gives the ids of one lead to another.
func hand(ctx context.Context, tx *tx, ws int64, ids [][]byte, from, to ledger.ID) error {
	for _, hash := range ids {
		if _, err := tx.exec(ctx, `UPDATE lead_ids SET lead = $4 WHERE ws = $1 AND hash = $2 AND lead = $3`, ws, hash, int64(from), int64(to)); err != nil {
			return err
		}
	}
	return nil
}

// samePerson looks for a lead of the same e-mail or phone by another source within
// the window. Two ids of one platform are two leads, whoever they are of.
func (s *Store) samePerson(ctx context.Context, tx *tx, r *LeadRecording) (ledger.ID, error) {
	l := &r.Lead
	if r.MergeWindow <= 0 || l.Test || l.History {
		return 0, nil
	}
	if err := s.holdAll(ctx, tx, r.People); err != nil {
		return 0, err
	}
	for _, hash := range r.People {
		var id int64
		err := tx.row(ctx, `SELECT p.lead FROM lead_people p JOIN leads l ON l.id = p.lead
			WHERE p.ws = $1 AND p.hash = $2 AND l.source <> $3 AND l.created_at >= $4 AND l.created_at <= $5
				AND l.test = 0 AND l.history = 0 AND l.cleared_at = 0 AND ($6 = '' OR l.lead_id = '' OR l.platform <> $7)
			ORDER BY p.lead LIMIT 1`,
			[]any{
				l.Workspace, hash, l.Source, ledger.Micros(l.CreatedAt.Add(-r.MergeWindow)), ledger.Micros(l.CreatedAt.Add(r.MergeWindow)),
				l.LeadID, l.Platform,
			}, &id)
		if err == nil {
			return ledger.ID(id), nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return 0, err
		}
	}
	return 0, nil
}

func (s *Store) touch(ctx context.Context, tx *tx, lead ledger.ID, r *LeadRecording) error {
	l := &r.Lead
	_, err := tx.exec(ctx, `INSERT INTO touches (lead, at, source, kind, platform, lead_id, campaign, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (lead, at, source) DO NOTHING`,
		int64(lead), ledger.Micros(r.At), l.Source, l.Kind, l.Platform, l.LeadID, l.Origin.CampaignID, ledger.Micros(l.CreatedAt))
	return err
}

func (s *Store) insertLead(ctx context.Context, tx *tx, r *LeadRecording) error {
	l, o := &r.Lead, &r.Lead.Origin
	if _, err := tx.exec(ctx, `INSERT INTO leads (id, ws, source, kind, platform, lead_id, form_id, form_name, ad_id, ad_name, adset_id, adset_name,
			campaign_id, campaign_name, channel, organic, consent, history, test, event_id, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)`,
		int64(l.ID), l.Workspace, l.Source, l.Kind, l.Platform, l.LeadID, o.FormID, o.FormName, o.AdID, o.AdName, o.AdSetID, o.AdSetName,
		o.CampaignID, o.CampaignName, o.Channel, flag(o.Organic), int64(l.Consent), flag(l.History), flag(l.Test), l.EventID, ledger.Micros(l.CreatedAt)); err != nil {
		return err
	}
	if _, err := tx.exec(ctx, `INSERT INTO lead_secrets (lead, wrapped, sealed) VALUES ($1, $2, $3)`, int64(l.ID), r.Wrapped, r.Sealed); err != nil {
		return err
	}
	for _, hash := range slices.Concat(r.People, r.Known) {
		if _, err := tx.exec(ctx, `INSERT INTO lead_people (ws, hash, lead) VALUES ($1, $2, $3) ON CONFLICT (ws, hash, lead) DO NOTHING`,
			l.Workspace, hash, int64(l.ID)); err != nil {
			return err
		}
	}
	if err := s.touch(ctx, tx, l.ID, r); err != nil {
		return err
	}
	// The deliveries stand in the same tables as those of events; what is sent is made
	// when it leaves, for who the lead is must not be stored a second time.
	e := &ledger.Event{ID: l.ID, Workspace: l.Workspace, Source: l.Source, Name: ledger.LeadName}
	pairs := make([]pair, len(r.Deliveries))
	for i := range r.Deliveries {
		pairs[i] = pair{event: e, delivery: &r.Deliveries[i]}
	}
	if err := s.insertDeliveries(ctx, tx, pairs); err != nil {
		return err
	}
	_, _, err := s.insertLeadEvents(ctx, tx, l.ID, 0, r.Events)
	return err
}

// LeadRow is a lead as the store has it: what is open, and what is sealed.
type LeadRow struct {
	Lead            ledger.Lead
	Wrapped, Sealed []byte   // nil after the contact was cleared
	Records         []string // the CRM's ids, of the destination asked for
	ClearedAt       time.Time
}

const leadColumns = `l.id, l.ws, l.source, l.kind, l.platform, l.lead_id, l.form_id, l.form_name, l.ad_id, l.ad_name, l.adset_id, l.adset_name,
	l.campaign_id, l.campaign_name, l.channel, l.organic, l.consent, l.history, l.test, l.event_id, l.created_at, l.cleared_at, x.wrapped, x.sealed`

func scanLead(row scanner) (r LeadRow, err error) {
	l, o := &r.Lead, &r.Lead.Origin
	var organic, history, test, created, cleared int64
	err = row.Scan(&l.ID, &l.Workspace, &l.Source, &l.Kind, &l.Platform, &l.LeadID, &o.FormID, &o.FormName, &o.AdID, &o.AdName, &o.AdSetID, &o.AdSetName,
		&o.CampaignID, &o.CampaignName, &o.Channel, &organic, &l.Consent, &history, &test, &l.EventID, &created, &cleared, &r.Wrapped, &r.Sealed)
	o.Organic, l.History, l.Test = organic == 1, history == 1, test == 1
	l.CreatedAt, r.ClearedAt = ledger.FromMicros(created), ledger.FromMicros(cleared)
	return r, err
}

// LeadFor returns a lead with what a CRM calls it, for being sent there.
func (s *Store) LeadFor(ctx context.Context, destination int64, id ledger.ID) (*LeadRow, error) {
	r, err := scanLead(s.read.QueryRowContext(ctx, `SELECT `+leadColumns+` FROM leads l LEFT JOIN lead_secrets x ON x.lead = l.id WHERE l.id = $1`, int64(id.Event())))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read lead %s: %w", id, err)
	}
	rows, err := s.read.QueryContext(ctx, `SELECT record FROM crm_records WHERE destination = $1 AND lead = $2 AND rank < $3 ORDER BY rank`, destination, int64(r.Lead.ID), learned)
	r.Records, err = collect(rows, err, func(row scanner) (record string, err error) {
		err = row.Scan(&record)
		return record, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the records of lead %s: %w", id, err)
	}
	return &r, nil
}

// FindLead returns the id of the lead that a hash names, ErrNotFound if none.
func (s *Store) FindLead(ctx context.Context, ws int64, hash []byte) (ledger.ID, error) {
	var id int64
	err := s.read.QueryRowContext(ctx, `SELECT lead FROM lead_ids WHERE ws = $1 AND hash = $2`, ws, hash).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, ErrNotFound
	}
	if err != nil {
		return 0, fmt.Errorf("find a lead: %w", err)
	}
	return ledger.ID(id), nil
}

// Leads lists a workspace's leads, newest first, with what is sealed still sealed.
func (s *Store) Leads(ctx context.Context, ws int64, before ledger.ID, limit int) ([]LeadRow, error) {
	if before == 0 {
		before = 1<<63 - 1
	}
	rows, err := s.read.QueryContext(ctx, `SELECT `+leadColumns+` FROM leads l LEFT JOIN lead_secrets x ON x.lead = l.id
		WHERE l.ws = $1 AND l.id < $2 ORDER BY l.id DESC LIMIT $3`, ws, int64(before), limit)
	list, err := collect(rows, err, scanLead)
	if err != nil {
		return nil, fmt.Errorf("list leads: %w", err)
	}
	return list, nil
}

// Touch is one way on which a lead came.
type Touch struct {
	At, CreatedAt                            time.Time
	Source, Kind, Platform, LeadID, Campaign string
}

// LeadLife is what happened to a lead.
type LeadLife struct {
	Touches    []Touch
	Deliveries []DeliveryView
}

// LeadLife returns the touches and the deliveries of a lead.
func (s *Store) LeadLife(ctx context.Context, id ledger.ID) (*LeadLife, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT at, source, kind, platform, lead_id, campaign, created_at FROM touches WHERE lead = $1 ORDER BY at, source`, int64(id.Event()))
	var life LeadLife
	life.Touches, err = collect(rows, err, func(row scanner) (t Touch, err error) {
		var at, created int64
		err = row.Scan(&at, &t.Source, &t.Kind, &t.Platform, &t.LeadID, &t.Campaign, &created)
		t.At, t.CreatedAt = ledger.FromMicros(at), ledger.FromMicros(created)
		return t, err
	})
	if err == nil {
		rows, err = s.read.QueryContext(ctx, viewQuery, int64(id.Event()))
		life.Deliveries, err = collect(rows, err, scanDelivery)
	}
	if err != nil {
		return nil, fmt.Errorf("read the life of lead %s: %w", id, err)
	}
	return &life, nil
}
