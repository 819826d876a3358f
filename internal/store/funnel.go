package store

import (
	"context"
	"fmt"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// FunnelQuery asks how far the leads of a span of time came.
type FunnelQuery struct {
	Workspace int64
	From, To  time.Time // of the leads' creation
	By        string    // "", source, campaign, ad, form
}

// FunnelCell is how many leads of a group have reached an event. The group "" with Event
// "" counts all leads.
type FunnelCell struct {
	Group, Event string
	Leads        int64
}

// groupColumns are what a funnel can be cut by, without opening a lead.
var groupColumns = map[string]string{
	"": "''", "source": "l.source", "campaign": "COALESCE(NULLIF(l.campaign_name, ''), l.campaign_id)",
	"ad": "COALESCE(NULLIF(l.ad_name, ''), l.ad_id)", "form": "COALESCE(NULLIF(l.form_name, ''), l.form_id)",
}

// FunnelBy tells whether a funnel can be cut by that.
func FunnelBy(by string) bool { return groupColumns[by] != "" }

// ofFunnel says which leads a funnel is about.
const ofFunnel = `l.ws = $1 AND l.created_at >= $2 AND l.created_at < $3 AND l.test = 0 AND l.history = 0 AND l.merged_into = 0`

// Funnel counts the leads that were created in a span of time, and those of them that
// reached each event. Test leads and history are not of the funnel, merged ones count as
// the one that they were merged into.
func (s *Store) Funnel(ctx context.Context, q FunnelQuery) ([]FunnelCell, error) {
	group := groupColumns[q.By]
	rows, err := s.read.QueryContext(ctx, `SELECT `+group+` AS g, '', COUNT(*) FROM leads l WHERE `+ofFunnel+` GROUP BY 1
		UNION ALL SELECT `+group+` AS g, f.name, COUNT(DISTINCT l.id) FROM leads l JOIN fired f ON f.lead = l.id WHERE `+ofFunnel+` GROUP BY 1, 2`,
		q.Workspace, ledger.Micros(q.From), ledger.Micros(q.To))
	list, err := collect(rows, err, func(row scanner) (c FunnelCell, err error) {
		err = row.Scan(&c.Group, &c.Event, &c.Leads)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("count the funnel: %w", err)
	}
	return list, nil
}
