package store

import (
	"context"
	"fmt"
)

// Credential is an option that a CRM or source has renewed, sealed.
type Credential struct {
	Name            string
	Wrapped, Sealed []byte
}

// SaveCredential keeps an option of a connection, in the place of an older one.
func (s *Store) SaveCredential(ctx context.Context, ws int64, owner string, c Credential) error {
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		_, err := tx.exec(ctx, `INSERT INTO credentials (ws, owner, name, wrapped, sealed) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (ws, owner, name) DO UPDATE SET wrapped = excluded.wrapped, sealed = excluded.sealed`, ws, owner, c.Name, c.Wrapped, c.Sealed)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep the option %s of %s: %w", c.Name, owner, err)
	}
	return nil
}

// Credentials returns the renewed options of a connection.
func (s *Store) Credentials(ctx context.Context, ws int64, owner string) ([]Credential, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT name, wrapped, sealed FROM credentials WHERE ws = $1 AND owner = $2 ORDER BY name`, ws, owner)
	list, err := collect(rows, err, func(row scanner) (c Credential, err error) {
		err = row.Scan(&c.Name, &c.Wrapped, &c.Sealed)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the options of %s: %w", owner, err)
	}
	return list, nil
}
