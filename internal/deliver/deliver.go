package deliver

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/platform"
	"github.com/capiloop/capiloop/internal/store"
)

// Config is what a Deliverer works with.
type Config struct {
	Store     *store.Store
	Settings  *config.Live
	Platforms map[string]platform.Platform // by kind
	CRMs      map[string]crm.CRM           // by kind
	// Account puts together what a CRM is reached with; needed where there are CRMs.
	Account func(context.Context, *config.Workspace, *config.CRM) crm.Account
	IDs     *ledger.IDs
	Clock   ledger.Clock
	Log     *slog.Logger
	Node    string        // unlike that of every other process, and of this one's last start
	Grace   time.Duration // for a request under way when the process stops; default 5 s
	Observe Observer      // nil: nobody looks
}

// Observer is told of every request, for the metrics.
type Observer interface {
	Delivered(st *ledger.Settlement, took time.Duration)
}

// Deliverer runs a lane for each destination.
type Deliverer struct {
	store      *store.Store
	settings   *config.Live
	platforms  map[string]platform.Platform
	crms       map[string]crm.CRM
	crmAccount func(context.Context, *config.Workspace, *config.CRM) crm.Account
	ids        *ledger.IDs
	clock      ledger.Clock
	log        *slog.Logger
	node       string
	grace      time.Duration
	observer   Observer
	poll       time.Duration
}

// New returns a Deliverer.
func New(c Config) *Deliverer {
	d := &Deliverer{
		store: c.Store, settings: c.Settings, platforms: c.Platforms, crms: c.CRMs, crmAccount: c.Account, ids: c.IDs, clock: c.Clock,
		log: c.Log, node: c.Node, grace: c.Grace, observer: c.Observe,
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.grace == 0 {
		d.grace = 5 * time.Second
	}
	d.poll = pollShared
	if c.Store.IsSQLite() {
		d.poll = pollAlone
	}
	return d
}

// Run sends until ctx is done, then finishes or returns what is under way and gives
// the lanes up. New destinations in the settings get their lane within seconds.
func (d *Deliverer) Run(ctx context.Context) error {
	var lanes sync.WaitGroup
	running := make(map[int64]bool)
	lanes.Go(func() { d.remind(ctx) })
	for ctx.Err() == nil {
		for _, ds := range d.settings.Get().Datasets() {
			id := ds.ID
			if running[id] {
				continue
			}
			running[id] = true
			l := d.adLane(id)
			lanes.Go(func() { l.run(ctx) })
		}
		for _, c := range d.settings.Get().CRMs() {
			if running[c.ID] {
				continue
			}
			running[c.ID] = true
			l := d.crmLane(c.ID)
			lanes.Go(func() { l.run(ctx) })
		}
		_ = d.clock.Sleep(ctx, pollShared)
	}
	lanes.Wait()
	return d.store.ReleaseLeases(context.WithoutCancel(ctx), d.node)
}

// adLane returns the lane of a destination for events.
func (d *Deliverer) adLane(id int64) *lane {
	l := &lane{d: d, destination: id, log: d.log}
	l.ready = func() (func(context.Context, bool) time.Duration, bool) {
		account, ok := d.account(id)
		return func(ctx context.Context, probe bool) time.Duration { return l.send(ctx, account, probe) }, ok
	}
	return l
}

// account returns a destination as the settings have it now: token, version and
// proof apply at send.
func (d *Deliverer) account(destination int64) (platform.Account, bool) {
	ds := d.settings.Get().Destination(destination)
	if ds == nil {
		return platform.Account{}, false
	}
	return platform.Account{
		Destination: ds.Destination, Token: ds.Token, AppSecret: ds.AppSecret, URL: ds.URL, Version: ds.APIVersion,
	}, true
}

func (d *Deliverer) platform(a platform.Account) platform.Platform {
	return d.platforms[a.Destination.Kind]
}

// lease is leaseFor in real time: a test clock that runs fast must not let a lease
// end while a request is under way.
func (d *Deliverer) lease() time.Duration { return d.clock.Scale(leaseFor) }

func (d *Deliverer) observe(st *ledger.Settlement, took time.Duration) {
	if d.observer != nil {
		d.observer.Delivered(st, took)
	}
}
