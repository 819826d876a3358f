package store

import (
	"context"
	"fmt"

	"github.com/capiloop/capiloop/internal/ledger"
)

// AddSightings writes down what the tag saw in browsers, each once, and returns how many
// were new.
func (s *Store) AddSightings(ctx context.Context, list []ledger.Sighting) (int, error) {
	fresh := 0
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		fresh = 0
		for i := range list {
			g := &list[i]
			res, err := tx.exec(ctx, `INSERT INTO sightings (ws, uid, id, source, dataset, name, event_id, at, page, fbp, external, visitor, own, blocked)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT (ws, uid) DO NOTHING`,
				g.Workspace, g.UID[:], int64(g.ID), g.Source, g.Dataset, g.Name, g.EventID, ledger.Micros(g.At), g.Page,
				g.FBP, g.External, g.Visitor, flag(g.Own), flag(g.Blocked))
			if err != nil {
				return err
			}
			n, err := res.RowsAffected()
			if err != nil {
				return err
			}
			fresh += int(n)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("write sightings down: %w", err)
	}
	return fresh, nil
}
