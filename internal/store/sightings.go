package store

import (
	"context"
	"fmt"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

var sightingsTable = newTable("sightings",
	"ws:bigint uid:bytea id:bigint source:text dataset:text name:text event_id:text at:bigint page:text "+
		"fbp:bigint external:bigint visitor:bigint own:bigint blocked:bigint", "ON CONFLICT (ws, uid) DO NOTHING")

const sightingID = 2 // its column

// SightingAge is how long a sighting is kept: Meta pairs for two days, and whoever looks
// wants to see a week and the one before.
const SightingAge = 14 * 24 * time.Hour

// forgetSightings removes the sightings from before a time.
func (s *Store) forgetSightings(ctx context.Context, before time.Time) error {
	rows, err := s.read.QueryContext(ctx, `SELECT id FROM workspaces`)
	list, err := collect(rows, err, scanID[int64])
	if err != nil {
		return fmt.Errorf("forget old sightings: %w", err)
	}
	for _, ws := range list {
		for left := int64(tidyRows); left == tidyRows; {
			err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
				res, err := tx.exec(ctx, `DELETE FROM sightings WHERE ws = $1 AND id IN (SELECT id FROM sightings WHERE ws = $1 AND id < $2 ORDER BY id LIMIT $3)`,
					ws, int64(ledger.IDAt(before)), tidyRows)
				if err != nil {
					return err
				}
				left, err = res.RowsAffected()
				return err
			})
			if err != nil {
				return fmt.Errorf("forget old sightings: %w", err)
			}
		}
	}
	return nil
}

// AddSightings writes down what the tag saw in browsers, each once, and returns how many
// were new.
func (s *Store) AddSightings(ctx context.Context, list []ledger.Sighting) (int, error) {
	r := &Recording{Sightings: list}
	if err := s.writer.record(ctx, r); err != nil {
		return 0, fmt.Errorf("write sightings down: %w", err)
	}
	return r.seen, nil
}

// insertSightings writes the sightings of a group.
func (s *Store) insertSightings(ctx context.Context, tx *tx, recs []*Recording) error {
	var rows [][]any
	owner := make(map[int64]*Recording)
	for _, r := range recs {
		r.seen = 0
		for i := range r.Sightings {
			g := &r.Sightings[i]
			owner[int64(g.ID)] = r
			rows = append(rows, []any{
				g.Workspace, g.UID[:], int64(g.ID), g.Source, g.Dataset, g.Name, g.EventID, ledger.Micros(g.At), g.Page,
				g.FBP, g.External, g.Visitor, flag(g.Own), flag(g.Blocked),
			})
		}
	}
	fresh, err := s.insertNew(ctx, tx, sightingsTable, rows, sightingID)
	for id := range fresh {
		owner[id].seen++
	}
	return err
}
