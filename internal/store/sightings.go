package store

import (
	"context"
	"fmt"

	"github.com/capiloop/capiloop/internal/ledger"
)

var sightingsTable = newTable("sightings",
	"ws:bigint uid:bytea id:bigint source:text dataset:text name:text event_id:text at:bigint page:text "+
		"fbp:bigint external:bigint visitor:bigint own:bigint blocked:bigint", "ON CONFLICT (ws, uid) DO NOTHING")

const sightingID = 2 // its column

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
