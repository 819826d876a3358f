package app

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
)

// applySettings brings the database in line with the file and puts the settings in
// force.
func (a *App) applySettings(ctx context.Context, file *config.File) error {
	a.applying.Lock()
	defer a.applying.Unlock()
	version, err := a.store.SettingsVersion(ctx)
	if err != nil {
		return err
	}
	applied, err := a.store.ApplyFile(ctx, declarations(file))
	if err != nil {
		return err
	}
	keys, err := a.keptKeys(ctx)
	if err != nil {
		return err
	}
	if err := a.openRings(ctx, applied.Workspaces); err != nil {
		return err
	}
	snapshot, err := file.Snapshot(config.Kept{
		Workspace: func(name string) int64 { return applied.Workspaces[name] },
		Dataset:   func(id string) ledger.Destination { return applied.Destinations[config.Meta+"/"+id] },
		Source: func(workspace, name string) config.KeptSource {
			return config.KeptSource(applied.Sources[workspace+"/"+name])
		},
		CRM: func(workspace, name string) config.KeptCRM {
			return config.KeptCRM(applied.CRMs[workspace+"/"+name])
		},
		Ring:    func(workspace int64) *secret.Ring { return a.rings[workspace] },
		APIKeys: keys,
	})
	if err != nil {
		return err
	}
	var before *config.Snapshot
	if a.settings == nil {
		a.settings = config.NewLive(snapshot)
	} else {
		before = a.settings.Get()
		a.settings.Set(snapshot)
	}
	a.file, a.settingsVersion = file, version
	return a.followDestinations(ctx, before, snapshot)
}

// keptKeys are the API keys that are kept in the database.
func (a *App) keptKeys(ctx context.Context) ([]config.APIKeyOf, error) {
	kept, err := a.store.APIKeys(ctx)
	if err != nil {
		return nil, err
	}
	keys := make([]config.APIKeyOf, len(kept))
	for i, k := range kept {
		keys[i] = config.APIKeyOf{Workspace: k.Workspace, APIKey: config.APIKey{Name: k.Name, Hash: k.Hash, Hint: k.Hint}}
	}
	return keys, nil
}

// followDestinations holds the lanes of destinations that vanished from the settings
// and lets those that are new or changed try at once; at a start, which may well
// follow a repair, that is all of them.
func (a *App) followDestinations(ctx context.Context, before, now *config.Snapshot) error {
	removed, err := a.store.Removed(ctx)
	if err != nil {
		return err
	}
	for _, d := range removed {
		if err := a.store.SetRemoved(ctx, d.ID, true); err != nil {
			return err
		}
		a.log.Warn("something waits for a dataset or CRM that is not in the configuration any more",
			"destination", d.Name, "kind", d.Kind, "next_step", "put it back, or skip them: capiloop retry --skip-removed "+d.Name)
	}
	for _, id := range newWays(before, now) {
		if err := a.store.SetRemoved(ctx, id, false); err != nil {
			return err
		}
		if err := a.store.TryNow(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// newWays lists the destinations that were not there before or are reached in another
// way now.
func newWays(before, now *config.Snapshot) []int64 {
	var list []int64
	for _, d := range now.Datasets() {
		var old *config.Dataset
		if before != nil {
			old = before.Destination(d.ID)
		}
		if old == nil || !sameWay(old, d) {
			list = append(list, d.ID)
		}
	}
	crms := map[int64]*config.CRM{}
	if before != nil {
		for _, w := range before.Workspaces {
			for _, c := range w.CRMs {
				crms[c.ID] = c
			}
		}
	}
	for _, w := range now.Workspaces {
		for _, c := range w.CRMs {
			if old := crms[c.ID]; old == nil || !old.Options.Equal(c.Options) {
				list = append(list, c.ID)
			}
		}
	}
	return list
}

// sameWay tells whether two versions of a dataset are reached in the same way.
func sameWay(a, b *config.Dataset) bool {
	return a.Live == b.Live && a.URL == b.URL && a.APIVersion == b.APIVersion && a.Token.Equal(b.Token) && a.AppSecret.Equal(b.AppSecret)
}

// reload puts the settings in force anew, after an API key was made.
func (a *App) reload(ctx context.Context) error {
	if err := a.applySettings(ctx, a.currentFile()); err != nil {
		return fmt.Errorf("put the settings in force: %w", err)
	}
	return nil
}

// Reload puts a configuration file in force while the server runs: workspaces,
// datasets, tokens, keys. Where to listen and the database need a new start.
func (a *App) Reload(ctx context.Context, file *config.File) error {
	err := a.kinds.check(file)
	if err == nil {
		err = a.applySettings(ctx, file)
	}
	if err != nil {
		return fmt.Errorf("put the new configuration in force: %w", err)
	}
	a.log.Info("new configuration in force", "workspaces", len(file.Workspaces))
	a.warn(file)
	return nil
}

// warn tells what of a file is most likely a slip.
func (a *App) warn(file *config.File) {
	for _, p := range file.Warnings {
		a.log.Warn("a setting may not be what was meant", "line", p.Line, "setting", p.Where, "what", p.What, "next_step", p.Fix)
	}
}

func (a *App) currentFile() *config.File {
	a.applying.Lock()
	defer a.applying.Unlock()
	return a.file
}

// settingsPoll is how soon a node knows what another one has changed.
const settingsPoll = 3 * time.Second

// followSettings takes over what other nodes change in the database.
func (a *App) followSettings(ctx context.Context) {
	for a.o.Clock.Sleep(ctx, a.o.Clock.Scale(settingsPoll)) == nil {
		version, err := a.store.SettingsVersion(ctx)
		a.applying.Lock()
		same := version == a.settingsVersion
		a.applying.Unlock()
		if err == nil && same {
			continue
		}
		if err == nil {
			err = a.reload(ctx)
		}
		if err != nil && ctx.Err() == nil {
			a.log.Error("the settings could not be looked up; it is tried again", "error", err)
		}
	}
}

func declarations(f *config.File) []store.FileWorkspace {
	list := make([]store.FileWorkspace, 0, len(f.Workspaces))
	for _, w := range f.Workspaces {
		d := store.FileWorkspace{Name: w.Name}
		for _, ds := range w.Datasets {
			d.Destinations = append(d.Destinations, store.FileDestination{Kind: config.Meta, Name: ds.ID, Live: ds.Live})
		}
		for _, src := range w.Sources {
			d.Sources = append(d.Sources, store.FileSource{Kind: src.Kind, Name: src.Name, Webhook: src.Webhook.Reveal()})
		}
		for _, c := range w.CRMs {
			d.CRMs = append(d.CRMs, store.FileCRM{Kind: c.Kind, Name: c.Name, Webhook: c.Webhook.Reveal()})
		}
		list = append(list, d)
	}
	return list
}

// publicURL is the address by which others reach the server, as far as it is known.
func (a *App) publicURL() string {
	if a.o.File.PublicURL != "" {
		return a.o.File.PublicURL
	}
	address := cmpOr(a.Addr(), a.o.File.Listen) // port 0 becomes a real one
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	return "http://" + address
}

// HasAPIKey tells whether any key opens a workspace.
func (a *App) HasAPIKey(workspace string) bool {
	w := a.settings.Get().Workspace(workspace)
	return w != nil && len(w.APIKeys) > 0
}
