// Package app wires the parts into a running server: New, Start, Stop, Addr. It is
// the only package that knows them all, and it decides nothing but who is connected
// to whom and in which order they start and stop.
package app

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capiloop/capiloop/capi/capitest"
	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/deliver"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/platform"
	"github.com/capiloop/capiloop/internal/platform/meta"
	"github.com/capiloop/capiloop/internal/pull"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
	"github.com/capiloop/capiloop/internal/watch"
)

// Options say what to run.
type Options struct {
	File    *config.File
	Log     *slog.Logger
	Clock   ledger.Clock // a test's clock refuses to send to the real Graph
	Version string
	// Pages shows the book without a login; only for a server that nobody else can
	// reach, such as the demo's.
	Pages bool
	// SandboxURL is where the stand-in for Graph can be looked at, for the pages'
	// link; "": nowhere.
	SandboxURL string
	// Sandbox serves the dataset "sandbox"; nil: one is made.
	Sandbox *capitest.Graph
	// Env looks an environment variable up, for the master key; nil: os.LookupEnv.
	Env func(string) (string, bool)
}

// App is a server.
type App struct {
	o         Options
	log       *slog.Logger
	store     *store.Store
	settings  *config.Live
	platforms map[string]platform.Platform
	kinds     *Kinds
	master    *secret.Master
	ids       *ledger.IDs
	admin     *admin.Admin
	recorder  *record.Recorder
	prints    ledger.Fingerprints
	metrics   *prometheus.Registry
	web       *webServer
	socket    *http.Server

	applying        sync.Mutex // one reload at a time; guards the three below
	file            *config.File
	settingsVersion int64
	rings           map[int64]*secret.Ring // by workspace

	cancel   context.CancelFunc
	running  sync.WaitGroup
	stopOnce sync.Once
	stopErr  error
}

// New returns a server that is not started.
func New(o Options) (*App, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock.IsTest() {
		for _, w := range o.File.Workspaces {
			for _, d := range w.Datasets {
				if u := cmpOr(d.URL, o.File.Graph.URL); d.ID != config.Sandbox && isRealGraph(u) {
					return nil, fmt.Errorf("a test clock is set, and dataset %s goes to the real Graph: give graph a url of a stand-in, or leave --test-clock out", d.ID)
				}
			}
		}
	}
	if o.Sandbox == nil {
		o.Sandbox = NewSandbox(o.Clock)
	}
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	a := &App{o: o, log: o.Log, kinds: NewKinds(o.File.Graph, o.Clock), rings: make(map[int64]*secret.Ring)}
	if err := a.kinds.check(o.File); err != nil {
		return nil, err
	}
	return a, nil
}

// NewSandbox returns the stand-in for Graph as the sandbox uses it: leads that are
// not its own are taken, for they come from real forms.
func NewSandbox(clock ledger.Clock) *capitest.Graph {
	return capitest.New(capitest.Options{Now: clock.Now, Rules: capitest.Rules{UnknownLead: capitest.Warn}})
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func isRealGraph(address string) bool {
	u, err := url.Parse(address)
	return err != nil || strings.HasSuffix(strings.ToLower(u.Hostname()), "facebook.com")
}

// Start opens the database, begins to deliver and then listens. Whatever was
// started is stopped again if something fails.
func (a *App) Start(ctx context.Context) error {
	if err := a.start(ctx); err != nil {
		return errors.Join(err, a.Stop(ctx))
	}
	return nil
}

// Open opens the database and the settings only, for a command that does its work
// without a running server. Stop closes them.
func (a *App) Open(ctx context.Context) error {
	if err := a.open(ctx); err != nil {
		return errors.Join(err, a.Stop(ctx))
	}
	return nil
}

func (a *App) open(ctx context.Context) (err error) {
	if a.store, err = store.Open(ctx, store.Config{Database: a.o.File.Database.Reveal(), Log: a.log, Clock: a.o.Clock}); err != nil {
		return err
	}
	a.ids = ledger.NewIDs(a.store.Node(), a.o.Clock.Now)
	a.platforms = map[string]platform.Platform{meta.Kind: meta.New(meta.Config{
		Transport: transport(), Sandbox: capitest.Transport(a.o.Sandbox), URL: a.o.File.Graph.URL, Version: a.o.File.Graph.Version,
	})}
	if err := a.openMaster(ctx); err != nil {
		return err
	}
	if err := a.applySettings(ctx, a.o.File); err != nil {
		return err
	}
	a.store.UseOpener(a.openPayload)
	key, err := a.fingerprintKey(ctx)
	if err != nil {
		return err
	}
	a.prints = ledger.NewFingerprints(key)
	a.recorder = record.New(record.Config{Store: a.store, Platforms: a.platforms, IDs: a.ids, Clock: a.o.Clock, Fingerprint: key})
	a.admin = admin.New(admin.Config{
		Sources: a.kinds.Sources, CRMs: a.kinds.CRMs, Account: a.crmAccount, Recorder: a.recorder, Backfiller: a.puller(),
		Store: a.store, Settings: a.settings, Platforms: a.platforms, Clock: a.o.Clock, Log: a.log, Reload: a.reload,
		RotateMaster: a.rotateMaster, URL: a.publicURL, Prints: a.prints,
	})
	return nil
}

func (a *App) start(ctx context.Context) error {
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.cancel = cancel
	a.metrics = prometheus.NewRegistry()
	if err := a.open(ctx); err != nil {
		return err
	}
	a.warn(a.o.File)
	deliverer := deliver.New(deliver.Config{
		Store: a.store, Settings: a.settings, Platforms: a.platforms, CRMs: a.kinds.CRMs, Account: a.crmAccount, IDs: a.ids, Clock: a.o.Clock, Log: a.log,
		Node: nodeName(), Observe: newDeliveryMetrics(a.metrics, a.settings, a.o.Clock),
	})
	a.running.Go(func() {
		if err := deliverer.Run(background); err != nil {
			a.log.Error("delivering ended badly", "error", err)
		}
	})
	a.running.Go(func() { a.puller().Run(background) })
	a.running.Go(func() { a.tidy(background) })
	a.running.Go(func() {
		watch.New(watch.Config{Store: a.store, Settings: a.settings, Clock: a.o.Clock, Log: a.log, Prints: a.prints}).Run(background)
	})
	a.running.Go(func() { a.followSettings(background) })
	if err := a.listen(ctx); err != nil {
		return err
	}
	return a.listenForCommands(ctx)
}

// openPayload opens the payload of an event that was made of a lead.
func (a *App) openPayload(ws int64, lead, delivery ledger.ID, wrapped, sealed []byte) ([]byte, error) {
	w := a.settings.Get().WorkspaceByID(ws)
	if w == nil || w.Ring == nil {
		return nil, fmt.Errorf("there is no workspace %d", ws)
	}
	return w.Ring.ReadCopy(int64(lead), int64(delivery), wrapped, sealed)
}

// puller returns what fetches leads.
func (a *App) puller() *pull.Puller {
	return pull.New(pull.Config{
		Store: a.store, Settings: a.settings, Recorder: a.recorder, Kinds: a.kinds.Sources, CRMs: a.kinds.CRMs, Account: a.crmAccount, Clock: a.o.Clock, Log: a.log,
	})
}

// nodeName is new at each start, so that a lease of the last one is never mistaken
// for ours.
func nodeName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, by its documentation
	return hex.EncodeToString(b[:])
}

// fingerprintKey is the installation's, made once.
func (a *App) fingerprintKey(ctx context.Context) ([]byte, error) {
	var b [32]byte
	_, _ = rand.Read(b[:])
	key, err := a.store.Value(ctx, "fingerprint_key", hex.EncodeToString(b[:]))
	return []byte(key), err
}

// transport keeps connections to Graph open between requests.
func transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 16
	t.IdleConnTimeout = 90 * time.Second
	return t
}

// tidy clears away what has served its time, at the start and then once an hour.
func (a *App) tidy(ctx context.Context) {
	for {
		if err := a.tidyOnce(ctx); err != nil && ctx.Err() == nil {
			a.log.Error("tidying up failed; it is tried again in an hour", "error", err)
		}
		if a.o.Clock.Sleep(ctx, time.Hour) != nil {
			return
		}
	}
}

func (a *App) tidyOnce(ctx context.Context) error {
	now := a.o.Clock.Now()
	if err := a.store.Tidy(ctx, now); err != nil {
		return err
	}
	for _, w := range a.settings.Get().Workspaces {
		n, err := a.store.PurgePayloads(ctx, w.ID, now.Add(-w.Retention.Payload))
		if err != nil {
			return err
		}
		if n > 0 {
			a.log.Info("cleared old payloads", "workspace", w.Name, "payloads", n)
		}
		if n, err = a.store.PurgeContacts(ctx, w.ID, now.Add(-w.Retention.Contact), now); err != nil {
			return err
		}
		if n > 0 {
			a.log.Info("cleared contacts of old leads", "workspace", w.Name, "leads", n)
		}
	}
	return nil
}

// Stop finishes the requests that are under way, then what is being sent, then
// closes the database. It may be called twice.
func (a *App) Stop(ctx context.Context) error {
	a.stopOnce.Do(func() { a.stopErr = a.stop(ctx) })
	return a.stopErr
}

func (a *App) stop(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	if a.web != nil {
		errs = append(errs, a.web.shutdown(ctx))
	}
	if a.socket != nil {
		errs = append(errs, a.socket.Close())
	}
	if a.cancel != nil {
		a.cancel()
	}
	a.running.Wait()
	if a.store != nil {
		errs = append(errs, a.store.Close())
	}
	return errors.Join(errs...)
}

// Addr returns the address that the server listens on, "127.0.0.1:8080".
func (a *App) Addr() string {
	if a.web == nil {
		return ""
	}
	return a.web.addr
}

// Actions returns what a person may do here.
func (a *App) Actions() admin.Actions { return a.admin }

// Recount compares the book's counters with the rows of a workspace.
func (a *App) Recount(ctx context.Context, workspace string) (*ledger.Book, error) {
	return a.store.Recount(ctx, a.settings.Get().Workspace(workspace).ID)
}

// SocketPath returns where commands reach a running server: in the data folder.
func SocketPath(dataDir string) string { return filepath.Join(dataDir, "capiloop.sock") }
