// Package watch looks at the ledger by the clock and notes what a person should act on
// before it costs something: what is soon too late, and what Meta is told too little of.
//
// Takes settings and the store, gives findings, which close by themselves. It calls
// nobody and changes nothing else.
package watch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

const (
	lookEvery = 10 * time.Minute // for deadlines
	perAdvice = 6                // looks for one at what Meta is told: once an hour
)

// Config is what a Watcher works with.
type Config struct {
	Store    *store.Store
	Settings *config.Live
	Clock    ledger.Clock
	Log      *slog.Logger        // nil: nothing is logged
	Prints   ledger.Fingerprints // those that sightings are written with
}

// Watcher looks at the ledger by the clock.
type Watcher struct{ c Config }

// New returns a Watcher.
func New(c Config) *Watcher {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Watcher{c}
}

// Run looks at once and then every ten minutes, until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		for _, ws := range w.c.Settings.Get().Workspaces {
			err := w.deadlines(ctx, ws)
			if err == nil && n%perAdvice == 0 {
				err = errors.Join(w.advise(ctx, ws), w.dedup(ctx, ws), w.silence(ctx, ws))
			}
			if err != nil && ctx.Err() == nil {
				w.c.Log.Error("a look at the ledger failed; it is repeated in ten minutes", "workspace", ws.Name, "error", err)
			}
		}
		_ = w.c.Clock.Sleep(ctx, lookEvery)
	}
}

// settle opens the findings of some kinds that are so, and closes those that are not so
// any more.
func (w *Watcher) settle(ctx context.Context, ws *config.Workspace, open []ledger.Finding, kinds ...ledger.FindingKind) error {
	known, err := w.c.Store.Findings(ctx, ws.ID)
	if err != nil {
		return err
	}
	for _, f := range known {
		same := func(o ledger.Finding) bool { return o.Kind == f.Kind && o.Subject == f.Subject }
		if !slices.Contains(kinds, f.Kind) || !f.FixedAt.IsZero() || slices.ContainsFunc(open, same) {
			continue
		}
		f.At = w.c.Clock.Now()
		if err := w.c.Store.Note(ctx, f, false); err != nil {
			return err
		}
	}
	for _, f := range open {
		f.Workspace, f.At = ws.ID, w.c.Clock.Now()
		if err := w.c.Store.Note(ctx, f, true); err != nil {
			return err
		}
	}
	return nil
}
