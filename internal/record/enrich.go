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
// told of that. other tells that the lead first came from elsewhere. A repeat adds nothing, so a crash between the touch and this is made
// good when the source sends again, for it was not answered.
func (r *Recorder) enrich(ctx context.Context, ws *config.Workspace, id ledger.ID, more *ledger.Lead, now time.Time) (other bool, err error) {
	for {
		row, err := r.c.Store.LeadFor(ctx, 0, id)
		if err != nil {
			return false, fmt.Errorf("read the lead's first touch: %w", err)
		}
		if row.Sealed == nil || row.Wrapped == nil { // cleared
			return false, nil
		}
		lead := row.Lead
		key, err := ws.Ring.OpenLead(int64(lead.ID), row.Wrapped)
		if err != nil {
			return false, fmt.Errorf("open lead %s: %w", lead.ID, err)
		}
		plain, err := ws.Ring.ReadLead(int64(lead.ID), row.Wrapped, row.Sealed)
		if err == nil {
			err = lead.Join(plain)
		}
		if err != nil {
			return false, fmt.Errorf("open lead %s: %w", lead.ID, err)
		}
		other = row.Lead.Source != more.Source
		if !lead.FillFrom(more) {
			return other, nil
		}
		_, plain, err = lead.Split()
		if err != nil {
			return false, err
		}
		p := personOf(&lead, ws.Country)
		done, err := r.c.Store.EnrichLead(ctx, &store.Enrichment{
			Lead: lead.ID, Old: row.Sealed, New: ws.Ring.ReSealLead(int64(lead.ID), key, plain),
			People:     append(ofKind(ws.Ring, "email", p.emails), ofKind(ws.Ring, "phone", p.phones)...),
			Deliveries: leadDeliveries(ws, &lead, now),
		})
		if err != nil || done {
			return other, err
		}
	}
}
