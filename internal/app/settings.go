package app

import (
	"context"
	"fmt"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// applySettings brings the database in line with the file and puts the settings in
// force.
func (a *App) applySettings(ctx context.Context) error {
	a.applying.Lock()
	defer a.applying.Unlock()
	applied, err := a.store.ApplyFile(ctx, declarations(a.o.File))
	if err != nil {
		return err
	}
	kept, err := a.store.APIKeys(ctx)
	if err != nil {
		return err
	}
	var keys []config.APIKeyOf
	for _, k := range kept {
		keys = append(keys, config.APIKeyOf{Workspace: k.Workspace, APIKey: config.APIKey{Name: k.Name, Hash: k.Hash, Hint: k.Hint}})
	}
	snapshot, err := a.o.File.Snapshot(
		func(workspace string) int64 { return applied.Workspaces[workspace] },
		func(dataset string) ledger.Destination { return applied.Destinations[config.Meta+"/"+dataset] },
		keys,
	)
	if err != nil {
		return err
	}
	first := a.settings == nil
	if first {
		a.settings = config.NewLive(snapshot)
	} else {
		a.settings.Set(snapshot)
	}
	if !first {
		return nil
	}
	return a.followDestinations(ctx, snapshot)
}

// followDestinations holds the lanes of destinations that vanished from the file,
// and lets every other one try at once: a start may well follow a repair.
func (a *App) followDestinations(ctx context.Context, s *config.Snapshot) error {
	removed, err := a.store.Removed(ctx)
	if err != nil {
		return err
	}
	for _, d := range removed {
		if err := a.store.SetRemoved(ctx, d.ID, true); err != nil {
			return err
		}
		a.log.Warn("events wait for a dataset that is not in the configuration any more",
			"dataset", d.Name, "next_step", "put it back, or skip them: capiloop retry --skip-removed "+d.Name)
	}
	for _, d := range s.Datasets() {
		if err := a.store.SetRemoved(ctx, d.ID, false); err != nil {
			return err
		}
		if err := a.store.TryNow(ctx, d.ID); err != nil {
			return err
		}
	}
	return nil
}

// reload puts the settings in force anew, after an API key was made.
func (a *App) reload(ctx context.Context) error {
	if err := a.applySettings(ctx); err != nil {
		return fmt.Errorf("put the settings in force: %w", err)
	}
	return nil
}

func declarations(f *config.File) []store.FileWorkspace {
	list := make([]store.FileWorkspace, 0, len(f.Workspaces))
	for _, w := range f.Workspaces {
		d := store.FileWorkspace{Name: w.Name}
		for _, ds := range w.Datasets {
			d.Destinations = append(d.Destinations, store.FileDestination{Kind: config.Meta, Name: ds.ID, Live: ds.Live})
		}
		list = append(list, d)
	}
	return list
}

// HasAPIKey tells whether any key opens a workspace.
func (a *App) HasAPIKey(workspace string) bool {
	w := a.settings.Get().Workspace(workspace)
	return w != nil && len(w.APIKeys) > 0
}
