package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/secret"
)

// MasterPath returns where the master key is, unless it comes from the environment.
func MasterPath(dataDir string) string { return filepath.Join(dataDir, "master.key") }

// openMaster reads the master key, or makes it for a database that has nothing
// sealed, and ends a rotation that was cut off.
func (a *App) openMaster(ctx context.Context) error {
	path := MasterPath(a.o.File.DataDir)
	// SQLite made the folder already; with PostgreSQL it may not be there yet.
	if err := os.MkdirAll(a.o.File.DataDir, 0o700); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	used, err := a.usedMasters(ctx)
	if err != nil {
		return err
	}
	if _, given := a.o.Env(secret.EnvMaster); !given && len(used) > 0 {
		// A key made now would not fit, and hide that the right one is missing.
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%w: it needs %s, and there is no %s: put the file back from where you keep a copy of it, or give the key in %s; each node needs the same one",
				secret.ErrOtherMaster, used[0], path, secret.EnvMaster)
		}
	}
	if a.master, err = secret.LoadMaster(path, a.o.Env); err != nil {
		return err
	}
	if err := a.master.Settle(used...); err != nil {
		return err
	}
	if a.master.Made() {
		a.log.Warn("a master key was made, without which no lead in the database or its backups can be read",
			"file", a.master.From(), "next_step", "keep a copy of it apart from the database's backups")
	}
	if a.master.Rotating() {
		a.log.Warn("a rotation of the master key was begun and has not ended", "next_step", "run capiloop rotate-key")
	}
	return nil
}

// usedMasters names the master keys that the keys in the database are wrapped by.
func (a *App) usedMasters(ctx context.Context) ([]secret.KeyID, error) {
	rows, err := a.store.AllWorkspaceKeys(ctx)
	if err != nil {
		return nil, err
	}
	var used []secret.KeyID
	for _, row := range rows {
		id, err := secret.WrappedBy(row.Wrapped)
		if err != nil {
			return nil, fmt.Errorf("key %d of workspace %d for %s: %w", row.Generation, row.Workspace, row.Use, err)
		}
		if !slices.Contains(used, id) {
			used = append(used, id)
		}
	}
	return used, nil
}

// openRings sees to it that the keys of workspaces are at hand. Those that were read
// before stay: a rotation of the master key changes how they are wrapped, not what
// they are.
func (a *App) openRings(ctx context.Context, workspaces map[string]int64) error {
	for name, id := range workspaces {
		if a.rings[id] != nil {
			continue
		}
		ring, err := a.openRing(ctx, id)
		if err != nil {
			return fmt.Errorf("the keys of workspace %s: %w", name, err)
		}
		a.rings[id] = ring
	}
	return nil
}

func (a *App) openRing(ctx context.Context, ws int64) (*secret.Ring, error) {
	rows, err := a.store.WorkspaceKeys(ctx, ws)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		_, made := a.master.NewRing(ws)
		if err := a.store.AddWorkspaceKeys(ctx, made); err != nil {
			return nil, err
		}
		// Another node may have been faster: what is stored counts.
		if rows, err = a.store.WorkspaceKeys(ctx, ws); err != nil {
			return nil, err
		}
	}
	return a.master.OpenRing(ws, rows)
}

// rotateMaster replaces the master key. Whatever ends it on the way, it can be run
// again from the start, and the next start of the server finds each key it needs.
func (a *App) rotateMaster(ctx context.Context) (*admin.Rotation, error) {
	a.applying.Lock() // no workspace gets its keys meanwhile
	defer a.applying.Unlock()
	r := &admin.Rotation{OldKey: a.master.ID().String()}
	from := a.master.From()
	if err := a.master.BeginRotation(); err != nil {
		if errors.Is(err, secret.ErrNoNext) {
			return nil, &admin.Error{Code: admin.Conflict, Message: "There is no new master key to change to.", Fix: "The old one is in " + secret.EnvMaster +
				": put a new one (openssl rand -base64 32) into " + secret.EnvMasterNext + " of every node, restart them, and rotate then."}
		}
		return nil, err
	}
	var err error
	if r.Keys, err = a.store.RewrapKeys(ctx, a.master.Rewrap); err != nil {
		return nil, err
	}
	used, err := a.usedMasters(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.master.FinishRotation(used...); err != nil {
		return nil, err
	}
	r.NewKey, r.In = a.master.ID().String(), a.master.From()
	if r.In == from && from != secret.EnvMaster {
		r.OldIn = from + "." + r.OldKey
	}
	a.log.Info("master key rotated", "old", r.OldKey, "new", r.NewKey, "in", r.In, "keys", r.Keys)
	return r, nil
}
