package record

import (
	"context"
	"fmt"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// enrich adds to a lead what a later touch of it brings and it lacks, and has its CRMs
// told of that. A repeat adds nothing, so a crash between the touch and this is made
// good when the source sends again, for it was not answered.
func (r *Recorder) enrich(ctx context.Context, ws *config.Workspace, id ledger.ID, more *ledger.Lead, now time.Time) error {
	for {
		row, err := r.c.Store.LeadFor(ctx, 0, id)
		if err != nil {
			return fmt.Errorf("read the lead's first touch: %w", err)
		}
		if row.Sealed == nil || row.Wrapped == nil { // cleared
			return nil
		}
		lead := row.Lead
		key, err := ws.Ring.OpenLead(int64(lead.ID), row.Wrapped)
		if err != nil {
			return fmt.Errorf("open lead %s: %w", lead.ID, err)
		}
		plain, err := ws.Ring.ReadLead(int64(lead.ID), row.Wrapped, row.Sealed)
		if err == nil {
			err = lead.Join(plain)
		}
		if err != nil {
			return fmt.Errorf("open lead %s: %w", lead.ID, err)
		}
		if !lead.FillFrom(more) {
			return nil
		}
		_, plain, err = lead.Split()
		if err != nil {
			return err
		}
		p := personOf(&lead, ws.Country)
		done, err := r.c.Store.EnrichLead(ctx, &store.Enrichment{
			Lead: lead.ID, Old: row.Sealed, New: ws.Ring.ReSealLead(int64(lead.ID), key, plain),
			People:     append(ofKind(ws.Ring, "email", p.emails), ofKind(ws.Ring, "phone", p.phones)...),
			Deliveries: leadDeliveries(ws, &lead, now),
		})
		if err != nil || done {
			return err
		}
	}
}
