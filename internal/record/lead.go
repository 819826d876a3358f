package record

import (
	"context"
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
	return r.lead(ctx, ws, l, nil, nil)
}

// LeadOnce is Lead for a request with an Idempotency-Key: the same key and body again
// is the same lead, whatever it has for ids; the same key with another body is refused
// with store.ErrIdempotencyKeyReused.
func (r *Recorder) LeadOnce(ctx context.Context, ws *config.Workspace, l *ledger.Lead, key string, body [32]byte) (LeadResult, error) {
	return r.lead(ctx, ws, l, ws.Ring.Index("idempotency-key", key), ws.Ring.Index("idempotency-key and body", key+string(body[:])))
}

func (r *Recorder) lead(ctx context.Context, ws *config.Workspace, l *ledger.Lead, key, body []byte) (LeadResult, error) {
	now := r.c.Clock.Now()
	l.ID, l.Workspace = r.c.IDs.Next(), ws.ID
	if l.CreatedAt.IsZero() {
		l.CreatedAt = now
	}
	p := personOf(l, ws.Country)
	release := r.c.Store.HoldConsent()
	defer release()
	if err := r.withdrawn(ctx, ws, l, p); err != nil {
		return LeadResult{}, err
	}
	rec := &store.LeadRecording{At: now, MergeWindow: ws.MergeWindow, IDs: identities(ws.Ring, l), Key: key, Body: body}
	rec.People = ofKind(ws.Ring, "email", p.emails)
	rec.People = append(rec.People, ofKind(ws.Ring, "phone", p.phones)...)
	rec.Known = append(ofKind(ws.Ring, "external_id", []string{l.ExternalID}), ofKind(ws.Ring, eventKind, []string{l.EventID})...)
	open, plain, err := l.Split()
	if err != nil {
		return LeadResult{}, err
	}
	rec.Lead = open
	rec.Wrapped, rec.Sealed = ws.Ring.SealLead(int64(l.ID), plain)
	rec.Deliveries = leadDeliveries(ws, l, now)
	if rec.Events, err = r.receiptEvents(ctx, ws, l, rec.Wrapped, now); err != nil {
		return LeadResult{}, err
	}
	done, err := r.c.Store.RecordLead(ctx, rec)
	if err != nil {
		return LeadResult{}, fmt.Errorf("record for workspace %s: %w", ws.Name, err)
	}
	if done.Reused {
		return LeadResult{}, store.ErrIdempotencyKeyReused
	}
	if (done.Duplicate || done.Merged) && !l.History && !l.Test {
		other, err := r.enrich(ctx, ws, done.ID, l, now)
		if err == nil && other { // also where a CRM told of the lead first, or a crash came before this
			err = r.reconsider(ctx, ws, done.ID, now)
		}
		if err != nil {
			return LeadResult{}, fmt.Errorf("record for workspace %s: %w", ws.Name, err)
		}
	}
	if !done.Merged {
		if err := r.joinLead(ctx, ws, done.ID, l, now); err != nil {
			return LeadResult{}, fmt.Errorf("record for workspace %s: %w", ws.Name, err)
		}
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
	for _, key := range []string{l.DedupeKey, l.DedupeToo} {
		if key != "" {
			ids = append(ids, ring.Index("submission/"+l.Kind+"/"+l.Source, key))
		}
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
