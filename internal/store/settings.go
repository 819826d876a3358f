package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/capiloop/capiloop/internal/ledger"
)

// FileWorkspace is a workspace as the configuration file declares it.
type FileWorkspace struct {
	Name         string
	Destinations []FileDestination
	Sources      []FileSource
	CRMs         []FileCRM
}

// FileDestination is a destination as the configuration file declares it.
type FileDestination struct {
	Kind, Name string
	Live       bool
}

// Applied tells which row stands for which declaration.
type Applied struct {
	Workspaces   map[string]int64              // by name
	Destinations map[string]ledger.Destination // by kind and name, "meta/1234"
	Sources      map[string]Source             // by workspace and name, "shop/forms"
	CRMs         map[string]CRM                // by workspace and name, "shop/crm"
}

// ApplyFile brings the tables in line with the configuration file: what is new is
// added, what vanished is archived (never deleted: its events stay in the book),
// what is back is taken up again.
func (s *Store) ApplyFile(ctx context.Context, file []FileWorkspace) (*Applied, error) {
	var a *Applied
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		a = &Applied{
			Workspaces: make(map[string]int64), Destinations: make(map[string]ledger.Destination),
			Sources: make(map[string]Source), CRMs: make(map[string]CRM),
		}
		now := ledger.Micros(s.clock.Now())
		for _, table := range []string{"workspaces", "destinations", "sources"} {
			if _, err := tx.exec(ctx, `UPDATE `+table+` SET archived_at = $1 WHERE origin = 'file' AND archived_at = 0`, now); err != nil {
				return err
			}
		}
		if err := freeWebhooks(ctx, tx, file); err != nil {
			return err
		}
		for _, w := range file {
			if err := a.apply(ctx, tx, w, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("apply the configuration: %w", err)
	}
	return a, nil
}

func (a *Applied) apply(ctx context.Context, tx *tx, w FileWorkspace, now int64) error {
	id, err := applyWorkspace(ctx, tx, w.Name)
	if err != nil {
		return err
	}
	a.Workspaces[w.Name] = id
	for _, d := range w.Destinations {
		if a.Destinations[d.Kind+"/"+d.Name], err = applyDestination(ctx, tx, id, d, now); err != nil {
			return err
		}
	}
	for _, src := range w.Sources {
		if a.Sources[w.Name+"/"+src.Name], err = applySource(ctx, tx, id, src, now); err != nil {
			return err
		}
	}
	for _, c := range w.CRMs {
		if a.CRMs[w.Name+"/"+c.Name], err = applyCRM(ctx, tx, id, w.Name, c, now); err != nil {
			return err
		}
	}
	return nil
}

func applyWorkspace(ctx context.Context, tx *tx, name string) (int64, error) {
	var id int64
	err := tx.row(ctx, `INSERT INTO workspaces (id, name, origin, archived_at) VALUES ((SELECT COALESCE(MAX(id), 0) + 1 FROM workspaces), $1, 'file', 0)
		ON CONFLICT (name) DO UPDATE SET archived_at = 0 RETURNING id`, []any{name}, &id)
	if err != nil {
		return 0, fmt.Errorf("workspace %s: %w", name, err)
	}
	return id, nil
}

func applyDestination(ctx context.Context, tx *tx, ws int64, d FileDestination, now int64) (ledger.Destination, error) {
	out := ledger.Destination{Workspace: ws, Kind: d.Kind, Name: d.Name, Live: d.Live}
	var owner, created int64
	err := tx.row(ctx, `SELECT ws FROM destinations WHERE kind = $1 AND name = $2`, []any{d.Kind, d.Name}, &owner)
	if err == nil && owner != ws {
		return out, fmt.Errorf("dataset %s belonged to another workspace before: a dataset stays with its workspace, for its event ids are known there", d.Name)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return out, fmt.Errorf("destination %s: %w", d.Name, err)
	}
	err = tx.row(ctx, `INSERT INTO destinations (id, ws, kind, name, origin, live, created_at, archived_at)
		VALUES ((SELECT COALESCE(MAX(id), 0) + 1 FROM destinations), $1, $2, $3, 'file', $4, $5, 0)
		ON CONFLICT (kind, name) DO UPDATE SET archived_at = 0, live = excluded.live RETURNING id, created_at`,
		[]any{ws, d.Kind, d.Name, flag(d.Live), now}, &out.ID, &created)
	if err != nil {
		return out, fmt.Errorf("destination %s: %w", d.Name, err)
	}
	out.CreatedAt = ledger.FromMicros(created)
	if _, err := tx.exec(ctx, `INSERT INTO lanes (destination) VALUES ($1) ON CONFLICT (destination) DO NOTHING`, out.ID); err != nil {
		return out, fmt.Errorf("lane of destination %s: %w", d.Name, err)
	}
	return out, nil
}

// Removed lists the destinations that are archived but still have rows waiting.
func (s *Store) Removed(ctx context.Context) ([]ledger.Destination, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT id, ws, kind, name FROM destinations d WHERE archived_at > 0
		AND EXISTS (SELECT 1 FROM pending p WHERE p.destination = d.id)`)
	list, err := collect(rows, err, func(row scanner) (d ledger.Destination, err error) {
		err = row.Scan(&d.ID, &d.Workspace, &d.Kind, &d.Name)
		d.Name = plainName(d.Name)
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("list removed destinations: %w", err)
	}
	return list, nil
}

// SetRemoved holds the lane of a destination that vanished from the settings, or
// lets it go again when the destination is back.
func (s *Store) SetRemoved(ctx context.Context, destination int64, removed bool) error {
	held, since := "", int64(0)
	if removed {
		held, since = string(ledger.DestinationGone), ledger.Micros(s.clock.Now())
	}
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		_, err := tx.exec(ctx, `UPDATE lanes SET held = $2, held_since = $3, due_at = 0, probes = 0
			WHERE destination = $1 AND held <> $2 AND ($2 <> '' OR held = $4)`, destination, held, since, string(ledger.DestinationGone))
		return err
	})
	if err != nil {
		return fmt.Errorf("mark destination %d as removed: %w", destination, err)
	}
	return nil
}

// APIKey is a key that was made by the program, not by the file. The key itself is
// not kept.
type APIKey struct {
	ID        int64
	Workspace string
	Name      string
	Hash      [32]byte
	Hint      string
}

// AddAPIKey keeps the hash of a new key.
func (s *Store) AddAPIKey(ctx context.Context, ws int64, name string, hash [32]byte, hint string) error {
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		if _, err := tx.exec(ctx, `INSERT INTO api_keys (id, ws, name, hash, hint, created_at)
			VALUES ((SELECT COALESCE(MAX(id), 0) + 1 FROM api_keys), $1, $2, $3, $4, $5)`, ws, name, hash[:], hint, ledger.Micros(s.clock.Now())); err != nil {
			return err
		}
		return settingsChanged(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("keep the API key: %w", err)
	}
	return nil
}

// settingsChanged tells every node that the settings in the database are new.
func settingsChanged(ctx context.Context, tx *tx) error {
	_, err := tx.exec(ctx, `UPDATE installation SET value = CAST(CAST(value AS bigint) + 1 AS text) WHERE name = 'settings_version'`)
	return err
}

// SettingsVersion moves whenever settings in the database change, on whichever node.
func (s *Store) SettingsVersion(ctx context.Context) (int64, error) {
	var version int64
	err := s.read.QueryRowContext(ctx, `SELECT CAST(value AS bigint) FROM installation WHERE name = 'settings_version'`).Scan(&version)
	if err != nil {
		return 0, fmt.Errorf("read the settings' version: %w", err)
	}
	return version, nil
}

// APIKeys lists the keys that are in force.
func (s *Store) APIKeys(ctx context.Context) ([]APIKey, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT k.id, w.name, k.name, k.hash, k.hint FROM api_keys k JOIN workspaces w ON w.id = k.ws WHERE k.revoked_at = 0 ORDER BY k.id`)
	list, err := collect(rows, err, func(row scanner) (k APIKey, err error) {
		var hash []byte
		err = row.Scan(&k.ID, &k.Workspace, &k.Name, &hash, &k.Hint)
		copy(k.Hash[:], hash)
		return k, err
	})
	if err != nil {
		return nil, fmt.Errorf("list API keys: %w", err)
	}
	return list, nil
}

// Value returns a value of the installation, and keeps the one given if there is
// none yet.
func (s *Store) Value(ctx context.Context, name, initial string) (string, error) {
	var value string
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		if _, err := tx.exec(ctx, `INSERT INTO installation (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, name, initial); err != nil {
			return err
		}
		return tx.row(ctx, `SELECT value FROM installation WHERE name = $1`, []any{name}, &value)
	})
	if err != nil {
		return "", fmt.Errorf("read the installation's %s: %w", name, err)
	}
	return value, nil
}
