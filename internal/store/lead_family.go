package store

import (
	"context"
	"fmt"

	"github.com/capiloop/capiloop/internal/ledger"
)

// MergedInto returns the lead that a merge in the CRM has made one with this, by way of
// others; 0 if it was not merged.
func (s *Store) MergedInto(ctx context.Context, lead ledger.ID) (ledger.ID, error) {
	var kept int64
	for id := int64(lead.Event()); ; {
		var into int64
		if err := s.read.QueryRowContext(ctx, `SELECT merged_into FROM leads WHERE id = $1`, id).Scan(&into); err != nil {
			return 0, fmt.Errorf("look for what lead %s was merged into: %w", lead, err)
		}
		if into == 0 {
			return ledger.ID(kept), nil
		}
		id, kept = into, into
	}
}
