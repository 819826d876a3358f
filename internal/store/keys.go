package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/capiloop/capiloop/internal/secret"
)

// WorkspaceKeys returns the wrapped keys of a workspace, none if it is new.
func (s *Store) WorkspaceKeys(ctx context.Context, ws int64) ([]secret.WrappedKey, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT ws, use_for, generation, wrapped FROM workspace_keys WHERE ws = $1 ORDER BY use_for, generation`, ws)
	list, err := collect(rows, err, scanKey)
	if err != nil {
		return nil, fmt.Errorf("read the keys of workspace %d: %w", ws, err)
	}
	return list, nil
}

func scanKey(row scanner) (k secret.WrappedKey, err error) {
	err = row.Scan(&k.Workspace, &k.Use, &k.Generation, &k.Wrapped)
	return k, err
}

// ErrRotated says that the master key was rotated while a workspace's keys were
// made: they would be wrapped by the old one. Read the master key again.
var ErrRotated = errors.New("the master key was rotated meanwhile; start again with the new one")

// lockKeys lets one transaction at a time make or rewrap workspaces' keys.
func (s *Store) lockKeys(ctx context.Context, tx *tx) error {
	var version string
	return tx.row(ctx, `SELECT value FROM installation WHERE name = 'settings_version'`+s.dialect.lock, nil, &version)
}

// AddWorkspaceKeys keeps new keys of a workspace. If another node has made them at
// the same moment, nothing is written and its keys are the workspace's; the caller
// reads them again. The error is ErrRotated if the stored keys are wrapped by another
// master key than these.
func (s *Store) AddWorkspaceKeys(ctx context.Context, keys []secret.WrappedKey) error {
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		if err := s.lockKeys(ctx, tx); err != nil {
			return err
		}
		rows, err := tx.query(ctx, `SELECT ws, use_for, generation, wrapped FROM workspace_keys`)
		stored, err := collect(rows, err, scanKey)
		if err != nil {
			return err
		}
		if err := sameMaster(append(stored, keys...)); err != nil {
			return err
		}
		for _, k := range keys {
			if _, err := tx.exec(ctx, `INSERT INTO workspace_keys (ws, use_for, generation, wrapped) VALUES ($1, $2, $3, $4)
				ON CONFLICT (ws, use_for, generation) DO NOTHING`, k.Workspace, string(k.Use), k.Generation, k.Wrapped); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("keep the keys of a workspace: %w", err)
	}
	return nil
}

func sameMaster(keys []secret.WrappedKey) error {
	var first secret.KeyID
	for i, k := range keys {
		id, err := secret.WrappedBy(k.Wrapped)
		if err != nil {
			return err
		}
		if i > 0 && id != first {
			return ErrRotated
		}
		first = id
	}
	return nil
}

// RewrapKeys replaces the wrapping of every workspace's keys in one transaction: the
// change of the master key. rewrap gets all of them.
func (s *Store) RewrapKeys(ctx context.Context, rewrap func([]secret.WrappedKey) ([]secret.WrappedKey, error)) (int, error) {
	n := 0
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		if err := s.lockKeys(ctx, tx); err != nil {
			return err
		}
		rows, err := tx.query(ctx, `SELECT ws, use_for, generation, wrapped FROM workspace_keys ORDER BY ws, use_for, generation`)
		list, err := collect(rows, err, scanKey)
		if err != nil {
			return err
		}
		if list, err = rewrap(list); err != nil {
			return err
		}
		n = len(list)
		for _, k := range list {
			if _, err := tx.exec(ctx, `UPDATE workspace_keys SET wrapped = $4 WHERE ws = $1 AND use_for = $2 AND generation = $3`,
				k.Workspace, string(k.Use), k.Generation, k.Wrapped); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("wrap the keys of the workspaces anew: %w", err)
	}
	return n, nil
}

// AllWorkspaceKeys returns the wrapped keys of all workspaces.
func (s *Store) AllWorkspaceKeys(ctx context.Context) ([]secret.WrappedKey, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT ws, use_for, generation, wrapped FROM workspace_keys ORDER BY ws, use_for, generation`)
	list, err := collect(rows, err, scanKey)
	if err != nil {
		return nil, fmt.Errorf("read the keys of the workspaces: %w", err)
	}
	return list, nil
}
