package record

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// StageResult is what became of a stage change.
type StageResult struct {
	ID        ledger.ID // of the change; of the first one, if it is a repeat
	Lead      ledger.ID
	Effect    ledger.Effect
	Events    []ledger.ID
	Duplicate bool
	NewLead   bool // nobody knew the lead; it was made of what the change carries
}

// Stages records what a CRM, a file or a caller tells of leads' moves, in the order in
// which they happened: each once, with the events that the workspace's rules make of it,
// each of those once per lead. It returns when all of it is on disk; the results are in
// the order of changes. kind is the CRM's, "api" or "csv"; destination is the CRM's, 0
// for what is none.
func (r *Recorder) Stages(ctx context.Context, ws *config.Workspace, source, kind string, destination int64, changes []ledger.StageChange) ([]StageResult, error) {
	now := r.c.Clock.Now()
	connected := connectedAt(ws, destination)
	for i := range changes {
		c := &changes[i]
		fit(ws, c)
		if c.At.IsZero() {
			c.At = now
		}
		c.History = c.History || c.At.Before(connected)
	}
	order := make([]int, len(changes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return changes[a].At.Compare(changes[b].At) })
	results := make([]StageResult, len(changes))
	for _, i := range order {
		done, err := r.stage(ctx, ws, mover{source, kind, destination}, &changes[i], now)
		if err != nil {
			return nil, fmt.Errorf("record for workspace %s: %w", ws.Name, err)
		}
		results[i] = done
	}
	return results, nil
}

// maxText is how many bytes of an id or a name are kept.
const maxText = 500

// fit makes the texts of a change such that every database keeps them, and none of them
// says who somebody is: a record or deal that is called by an e-mail gets a keyed hash for
// a name, always the same.
func fit(ws *config.Workspace, c *ledger.StageChange) {
	for _, text := range []*string{
		&c.LeadID, &c.Platform, &c.Pipeline, &c.PipelineLabel, &c.Stage, &c.StageLabel, &c.Field, &c.From, &c.By, &c.DealID, &c.Currency, &c.Amount,
	} {
		*text = kept(*text)
	}
	c.Records = slices.Clone(c.Records)
	for i := range c.Records {
		c.Records[i] = nameless(ws, kept(c.Records[i]))
	}
	c.DealID = nameless(ws, c.DealID)
	if strings.Contains(c.By, "@") {
		c.By = ""
	}
	if n, err := strconv.ParseFloat(c.Amount, 64); err != nil || math.IsInf(n, 0) || n < 0 || strings.Trim(c.Amount, "0123456789.+eE-") != "" {
		c.Amount = ""
	}
}

func kept(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	return text
}

func nameless(ws *config.Workspace, record string) string {
	if !strings.Contains(record, "@") {
		return record
	}
	kind, id, ok := strings.Cut(record, ":")
	if !ok {
		kind, id = "record", record
	}
	return kind + ":" + hex.EncodeToString(ws.Ring.Index("record", id))
}

// connectedAt is when a CRM was connected: what it says of the time before is history.
// CRMs count whole seconds.
func connectedAt(ws *config.Workspace, destination int64) time.Time {
	for _, c := range ws.CRMs {
		if c.ID == destination {
			return c.CreatedAt.Truncate(time.Second)
		}
	}
	return time.Time{}
}

// Merge follows a merge of records in a CRM.
func (r *Recorder) Merge(ctx context.Context, ws *config.Workspace, destination int64, m ledger.Merge) error {
	if _, err := r.c.Store.MergeLeads(ctx, destination, m); err != nil {
		return fmt.Errorf("record for workspace %s: %w", ws.Name, err)
	}
	return nil
}

// mover is who tells of a move.
type mover struct {
	source, kind string
	destination  int64
}

func (r *Recorder) stage(ctx context.Context, ws *config.Workspace, m mover, c *ledger.StageChange, now time.Time) (StageResult, error) {
	release := r.c.Store.HoldConsent()
	defer release()
	withdrawn, err := r.c.Store.Withdrawn(ctx, ws.ID)
	if err != nil {
		return StageResult{}, err
	}
	g, err := r.guard(ctx, ws, m.source, c, now)
	if err != nil {
		return StageResult{}, err
	}
	if m.kind == ledger.KindMark {
		g.most = math.MaxInt // one lead at a time, by hand, and can be taken back
	}
	lead, p := newLeadOf(ws, m, c, r.c.IDs.Next())
	if err := r.withdrawn(ctx, ws, lead, p); err != nil {
		return StageResult{}, err
	}
	w := &store.StageWrite{
		ID: r.c.IDs.Next(), Workspace: ws.ID, Source: m.source, Destination: m.destination, Change: c,
		Hash: ws.Ring.Index("stage change", c.Identity()), IDs: leadIDs(ws, c), People: p.indexed(ws.Ring),
		Most: g.most,
	}
	if w.NewLead, err = newRecording(ws, lead, p, now); err != nil {
		return StageResult{}, err
	}
	w.Decide = func(f *store.StageFacts) (store.StageDecision, error) {
		return r.decide(ws, m, c, f, &judge{now: now, withdrawn: withdrawn, guard: g})
	}
	done, err := r.c.Store.ChangeStage(ctx, w)
	if err != nil {
		return StageResult{}, err
	}
	return StageResult{ID: done.ID, Lead: done.Lead, Effect: done.Effect, Events: done.Events, Duplicate: done.Duplicate, NewLead: done.NewLead}, nil
}

// newLeadOf is the lead as the change alone would make it: it is kept only if nobody is
// found, but what finds the person is read off it in any case.
func newLeadOf(ws *config.Workspace, m mover, c *ledger.StageChange, id ledger.ID) (*ledger.Lead, *person) {
	l := &ledger.Lead{
		ID: id, Workspace: ws.ID, Source: m.source, Kind: m.kind, Platform: c.Platform, LeadID: c.LeadID, Contact: c.Contact, ExternalID: c.ExternalID,
		History: c.History, Test: c.Test, CreatedAt: c.CreatedAt,
	}
	if l.Platform == "" && isMetaID(l.LeadID) {
		l.Platform = "meta"
	}
	if l.CreatedAt.IsZero() || l.CreatedAt.After(c.At) {
		l.CreatedAt = c.At.Add(-time.Second) // Meta drops a stage that is not later than its lead
	}
	return l, personOf(l, ws.Country)
}

// isMetaID tells whether a lead id of no named platform has the form of Meta's.
func isMetaID(id string) bool {
	return len(id) >= 15 && len(id) <= 17 && strings.Trim(id, "0123456789") == ""
}

// platformsOfIDs are those whose lead ids a CRM's field may hold, with "" for our own
// and for callers'.
var platformsOfIDs = []string{"meta", "google", "tiktok", "linkedin", ""}

func leadIDs(ws *config.Workspace, c *ledger.StageChange) [][]byte {
	if c.LeadID == "" {
		return nil
	}
	platforms := platformsOfIDs
	if c.Platform != "" {
		platforms = []string{c.Platform}
	}
	list := make([][]byte, 0, len(platforms))
	for _, p := range platforms {
		list = append(list, ws.Ring.Index("lead/"+p, c.LeadID))
	}
	return list
}

func newRecording(ws *config.Workspace, l *ledger.Lead, p *person, now time.Time) (*store.LeadRecording, error) {
	open, plain, err := l.Split()
	if err != nil {
		return nil, err
	}
	rec := &store.LeadRecording{
		Lead: open, At: now, IDs: identities(ws.Ring, l), People: append(ofKind(ws.Ring, "email", p.emails), ofKind(ws.Ring, "phone", p.phones)...),
		Known: ofKind(ws.Ring, "external_id", p.external),
	}
	rec.Wrapped, rec.Sealed = ws.Ring.SealLead(int64(l.ID), plain)
	return rec, nil
}
