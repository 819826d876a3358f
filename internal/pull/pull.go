// Package pull fetches what is not sent to us: the leads that a webhook only
// announces, what a CRM's hook leaves out of a stage change, and in a regular sweep the
// leads and moves whose webhook never came.
//
// Takes notices from the store's inbox and the sources and CRMs of the settings, gives
// leads and stage changes to record; may fail by the platform or the database, and then
// tries again by itself. It is the only part that reads from lead platforms and CRMs.
package pull

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/store"
)

// Config is what a Puller works with.
type Config struct {
	Store    *store.Store
	Settings *config.Live
	Recorder *record.Recorder
	Kinds    map[string]leadform.Kind
	CRMs     map[string]crm.CRM
	// Account puts together what a CRM is reached with; needed where there are CRMs.
	Account func(context.Context, *config.Workspace, *config.CRM) crm.Account
	Clock   ledger.Clock
	Log     *slog.Logger
	Sweep   time.Duration // between two sweeps; default 15 min
}

// Puller fetches.
type Puller struct {
	c Config
}

// New returns a Puller.
func New(c Config) *Puller {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Sweep == 0 {
		c.Sweep = 15 * time.Minute
	}
	return &Puller{c}
}

const (
	poll     = 5 * time.Second
	lease    = time.Minute // a fetch takes less
	atOnce   = 20          // notices per round
	parallel = 4
)

// Run fetches and sweeps until ctx is done.
func (p *Puller) Run(ctx context.Context) {
	var wg sync.WaitGroup
	if err := p.c.Store.ReleaseNotices(ctx, p.c.Clock.Now()); err != nil && ctx.Err() == nil {
		p.c.Log.Error("what the last process was reading comes when its lease ends", "error", err)
	}
	wg.Go(func() { p.readInbox(ctx) })
	wg.Go(func() { p.sweepRegularly(ctx) })
	wg.Go(func() { p.followCRMs(ctx) })
	wg.Wait()
}

// readInbox reads the leads that were announced.
func (p *Puller) readInbox(ctx context.Context) {
	wake := p.c.Store.Wakes(store.InboxLane)
	for ctx.Err() == nil {
		n, err := p.round(ctx)
		if err != nil && ctx.Err() == nil {
			p.c.Log.Error("announced leads could not be looked up; it is tried again", "error", err)
		}
		if n == atOnce {
			continue
		}
		timer := p.c.Clock.After(poll)
		select {
		case <-ctx.Done():
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (p *Puller) round(ctx context.Context) (int, error) {
	notices, err := p.c.Store.ClaimNotices(ctx, p.c.Clock.Now(), p.c.Clock.Scale(lease), atOnce)
	if err != nil {
		return 0, err
	}
	slots := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for _, n := range notices {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := p.fetch(ctx, n); err != nil && ctx.Err() == nil {
				p.c.Log.Error("an announced lead could not be settled; it is tried again", "error", err)
			}
		})
	}
	wg.Wait()
	return len(notices), nil
}

// fetch reads what one notice tells of, and records it.
func (p *Puller) fetch(ctx context.Context, n store.Notice) error {
	if n.Source < 0 {
		return p.completeChange(ctx, n)
	}
	ws, source := p.source(n.Workspace, n.Source)
	if source == nil {
		return p.c.Store.SettleNotice(ctx, n, store.NoticeFailed, ledger.DestinationGone, time.Time{}, "", false)
	}
	if n.Deleted {
		return p.erase(ctx, ws, source, n)
	}
	kind, ok := p.c.Kinds[source.Kind].(leadform.Fetcher)
	if !ok {
		return p.c.Store.SettleNotice(ctx, n, store.NoticeFailed, ledger.None, time.Time{}, source.Name, false)
	}
	lead, err := kind.Fetch(ctx, FormSource(ws, source), leadform.Notice{Key: n.Key, Body: n.Body})
	if err == nil {
		if _, err = p.record(ctx, ws, source, &lead); err == nil {
			return p.c.Store.SettleNotice(ctx, n, store.NoticeDone, ledger.None, time.Time{}, source.Name, false)
		}
		return err // the lease ends and it comes again
	}
	return p.failed(ctx, n, source.Name, err)
}

// platformOf says which platform's lead ids a kind of source has.
var platformOf = map[string]string{"meta_leads": "meta", "linkedin_leads": "linkedin", "google_leads": "google", "tiktok_leads": "tiktok"}

// eraseTries is how often a lead is looked for that was taken back: its own notice may
// be on its way at the same moment.
const eraseTries = 3

// erase forgets a lead that the person took back at the platform.
func (p *Puller) erase(ctx context.Context, ws *config.Workspace, source *config.Source, n store.Notice) error {
	id, err := p.c.Store.FindLead(ctx, ws.ID, ws.Ring.Index("lead/"+platformOf[source.Kind], n.Key))
	if err == nil {
		err = p.c.Store.EraseLead(ctx, ws.ID, id, p.c.Clock.Now())
	}
	if missing := errors.Is(err, store.ErrNotFound); missing && n.Tries < eraseTries {
		again := p.c.Clock.Now().Add(ledger.Backoff(n.Tries+1, 0))
		return p.c.Store.SettleNotice(ctx, n, store.NoticeWaiting, ledger.Backlog, again, source.Name, false)
	} else if err != nil && !missing {
		return err
	}
	return p.c.Store.SettleNotice(ctx, n, store.NoticeDone, ledger.None, time.Time{}, source.Name, false)
}

// giveUp is how long an announced lead is asked for: Graph keeps leads for 90 days.
const giveUp = 89 * 24 * time.Hour

func (p *Puller) failed(ctx context.Context, n store.Notice, source string, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // we are stopping; the notice comes again after the start
	}
	now := p.c.Clock.Now()
	outcome := outcomeOf(err)
	p.c.Log.Warn("what was announced could not be read", "source", source, "tries", n.Tries+1, "error", err)
	if _, refused := outcome.(ledger.Refusal); refused || now.Sub(n.At) > giveUp {
		return p.c.Store.SettleNotice(ctx, n, store.NoticeFailed, ledger.Refused, time.Time{}, source, false)
	}
	if o, held := outcome.(ledger.Hold); held {
		return p.c.Store.SettleNotice(ctx, n, store.NoticeWaiting, o.Reason, now.Add(ledger.ProbeAfter(n.Tries+1)), source, true)
	}
	wait := ledger.Backoff(n.Tries+1, 0)
	if o, ok := outcome.(ledger.RetryAt); ok {
		wait = max(wait, o.Wait)
	}
	return p.c.Store.SettleNotice(ctx, n, store.NoticeWaiting, ledger.Backlog, now.Add(wait), source, false)
}

// record writes a lead that was read; one from before the connection is history.
func (p *Puller) record(ctx context.Context, ws *config.Workspace, source *config.Source, l *ledger.Lead) (record.LeadResult, error) {
	l.Source, l.Kind = source.Name, source.Kind
	if l.CreatedAt.Before(source.CreatedAt.Truncate(time.Second)) { // platforms count whole seconds
		l.History = true
	}
	return p.c.Recorder.Lead(ctx, ws, l)
}

func (p *Puller) source(ws, id int64) (*config.Workspace, *config.Source) {
	w := p.c.Settings.Get().WorkspaceByID(ws)
	if w == nil {
		return nil, nil
	}
	for _, s := range w.Sources {
		if s.ID == id {
			return w, s
		}
	}
	return w, nil
}

// FormSource returns a source of the settings as its kind takes it.
func FormSource(ws *config.Workspace, s *config.Source) leadform.Source {
	return leadform.Source{
		ID: s.ID, Workspace: ws.ID, Kind: s.Kind, Name: s.Name, Country: ws.Country, CreatedAt: s.CreatedAt, Options: s.Options,
	}
}

// overlap is swept again each time: platforms list leads a little late.
const overlap = 10 * time.Minute

// sweepRegularly looks at the start and then every quarter of an hour for leads whose
// webhook never came.
func (p *Puller) sweepRegularly(ctx context.Context) {
	for ctx.Err() == nil {
		for _, ws := range p.c.Settings.Get().Workspaces {
			for _, s := range ws.Sources {
				if kind, ok := p.c.Kinds[s.Kind].(leadform.Sweeper); ok && ctx.Err() == nil {
					p.sweep(ctx, kind, ws, s)
				}
			}
		}
		_ = p.c.Clock.Sleep(ctx, p.c.Sweep)
	}
}

func (p *Puller) sweep(ctx context.Context, kind leadform.Sweeper, ws *config.Workspace, s *config.Source) {
	now := p.c.Clock.Now()
	since, err := p.c.Store.SweptTo(ctx, s.ID)
	if err == nil {
		if since = since.Add(-overlap); since.Before(s.CreatedAt) {
			since = s.CreatedAt
		}
		var seen, caught int
		if seen, caught, err = p.list(ctx, kind, ws, s, since, false); err == nil {
			if caught > 0 {
				p.c.Log.Warn("leads swept: their webhook never came", "source", s.Name, "swept", caught, "seen", seen)
			}
			err = p.c.Store.Swept(ctx, ws.ID, s.ID, s.Name, now)
		}
	}
	if err != nil && ctx.Err() == nil {
		p.sweepFailed(ctx, ws, s, err)
	}
}

// list records the leads of a source since a time and counts those that were new.
func (p *Puller) list(ctx context.Context, kind leadform.Sweeper, ws *config.Workspace, s *config.Source, since time.Time, history bool) (seen, fresh int, err error) {
	for lead, err := range kind.Sweep(ctx, FormSource(ws, s), since) {
		if err != nil {
			return seen, fresh, err
		}
		seen++
		lead.History = lead.History || history
		done, err := p.record(ctx, ws, s, &lead)
		if err != nil {
			return seen, fresh, err
		}
		if !done.Duplicate {
			fresh++
		}
	}
	return seen, fresh, nil
}

func (p *Puller) sweepFailed(ctx context.Context, ws *config.Workspace, s *config.Source, err error) {
	p.c.Log.Warn("sweep failed; the next one looks from the same time", "source", s.Name, "error", err)
	var f *leadform.FetchError
	if !errors.As(err, &f) {
		return
	}
	if o, held := f.Outcome.(ledger.Hold); held {
		finding := ledger.Finding{Workspace: ws.ID, Kind: ledger.FindingSource, Subject: s.Name, Evidence: string(o.Reason), At: p.c.Clock.Now()}
		if err := p.c.Store.Raise(ctx, finding); err != nil {
			p.c.Log.Error("a finding could not be noted", "error", err)
		}
	}
}

// BackfillLimit is how far back leads can be read: platforms keep them for 90 days.
const BackfillLimit = 90 * 24 * time.Hour

// Backfill records the leads of a source since a time as history: they are kept and
// counted, and nothing that they reached before now is ever sent.
func (p *Puller) Backfill(ctx context.Context, workspace, source string, since time.Time) (seen, fresh int, err error) {
	ws := p.c.Settings.Get().Workspace(workspace)
	if ws == nil {
		return 0, 0, fmt.Errorf("there is no workspace %s", workspace)
	}
	for _, s := range ws.Sources {
		if s.Name != source {
			continue
		}
		kind, ok := p.c.Kinds[s.Kind].(leadform.Sweeper)
		if !ok {
			return 0, 0, fmt.Errorf("the leads of %s cannot be listed: its kind %s has no such call", source, s.Kind)
		}
		return p.list(ctx, kind, ws, s, since, true)
	}
	return 0, 0, fmt.Errorf("workspace %s has no source %s", workspace, source)
}
