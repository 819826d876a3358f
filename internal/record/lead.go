package record

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
)

// leadDeadline is how long a lead waits for a CRM that does not take it.
const leadDeadline = 90 * 24 * time.Hour

// LeadResult is what became of a lead.
type LeadResult struct {
	ID        ledger.ID // of the lead that is kept
	Duplicate bool      // the same lead came before
	Merged    bool      // the same person by another source: one lead, one more touch
}

// Lead records a lead: once by its platform's id, merged with the same person's by
// another source within the workspace's window, sealed under a key of its own, and
// queued for the workspace's CRMs. It returns when all of that is on disk.
func (r *Recorder) Lead(ctx context.Context, ws *config.Workspace, l *ledger.Lead) (LeadResult, error) {
	return r.lead(ctx, ws, l, nil)
}

// LeadOnce is Lead for a request with an Idempotency-Key: the same key and body again
// is the same lead, whatever it has for ids; the same key with another body is refused
// with store.ErrIdempotencyKeyReused.
func (r *Recorder) LeadOnce(ctx context.Context, ws *config.Workspace, l *ledger.Lead, key string, body [32]byte) (LeadResult, error) {
	whole := ws.Ring.Index("idempotency-key and body", key+string(body[:]))
	byKey := ws.Ring.Index("idempotency-key", key)
	_, known := r.c.Store.FindLead(ctx, ws.ID, byKey)
	_, same := r.c.Store.FindLead(ctx, ws.ID, whole)
	switch {
	case known == nil && errors.Is(same, store.ErrNotFound):
		return LeadResult{}, store.ErrIdempotencyKeyReused
	case known != nil && !errors.Is(known, store.ErrNotFound):
		return LeadResult{}, known
	}
	return r.lead(ctx, ws, l, [][]byte{byKey, whole})
}

// lead records a lead that further hashes name, too.
func (r *Recorder) lead(ctx context.Context, ws *config.Workspace, l *ledger.Lead, further [][]byte) (LeadResult, error) {
	now := r.c.Clock.Now()
	l.ID, l.Workspace = r.c.IDs.Next(), ws.ID
	if l.CreatedAt.IsZero() {
		l.CreatedAt = now
	}
	rec := &store.LeadRecording{At: now, MergeWindow: ws.MergeWindow, IDs: append(identities(ws.Ring, l), further...)}
	email, phone := l.Normalised(ws.Country)
	for kind, value := range map[string]string{"email": email, "phone": phone} {
		if hash := ws.Ring.Index(kind, value); hash != nil {
			rec.People = append(rec.People, hash)
		}
	}
	if hash := ws.Ring.Index("external_id", l.ExternalID); hash != nil {
		rec.Known = append(rec.Known, hash)
	}
	open, plain, err := l.Split()
	if err != nil {
		return LeadResult{}, err
	}
	rec.Lead = open
	rec.Wrapped, rec.Sealed = ws.Ring.SealLead(int64(l.ID), plain)
	rec.Deliveries = leadDeliveries(ws, l, now)
	done, err := r.c.Store.RecordLead(ctx, rec)
	if err != nil {
		return LeadResult{}, fmt.Errorf("record for workspace %s: %w", ws.Name, err)
	}
	return LeadResult{ID: done.ID, Duplicate: done.Duplicate, Merged: done.Merged}, nil
}

// identities are the hashes of what names exactly this lead: the platform's id, or
// what recognises the same submission.
func identities(ring *secret.Ring, l *ledger.Lead) [][]byte {
	var ids [][]byte
	if l.LeadID != "" {
		ids = append(ids, ring.Index("lead/"+l.Platform, l.LeadID))
	}
	if l.DedupeKey != "" {
		ids = append(ids, ring.Index("submission/"+l.Kind+"/"+l.Source, l.DedupeKey))
	}
	return ids
}

// leadDeliveries queues a lead for each CRM. History came from somewhere and is not
// carried into a CRM unasked; test leads go where the CRM is said to want them.
func leadDeliveries(ws *config.Workspace, l *ledger.Lead, now time.Time) []ledger.Delivery {
	var list []ledger.Delivery
	for _, c := range ws.CRMs {
		if l.History || l.Test && !c.TestLeads {
			continue
		}
		list = append(list, ledger.Delivery{
			ID: l.ID.Delivery(len(list) + 1), Destination: c.ID, State: ledger.Waiting, Priority: ledger.Ordinary, Deadline: now.Add(leadDeadline),
		})
	}
	return list
}

// RecordLead is Lead for who wants to know only whether it was new.
func (r *Recorder) RecordLead(ctx context.Context, ws *config.Workspace, l *ledger.Lead) (duplicate, merged bool, err error) {
	done, err := r.Lead(ctx, ws, l)
	return done.Duplicate, done.Merged, err
}
