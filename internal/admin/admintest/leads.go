package admintest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/platform/meta"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
)

// CRM is the name of the shop's CRM in a connected World.
const CRM = "sales"

// Connect gives the shop keys, a CRM and rules, so that leads and their moves can be
// recorded.
func (w *World) Connect(rules ...ledger.Rule) {
	w.T.Helper()
	master, err := secret.LoadMaster(filepath.Join(w.T.TempDir(), "master.key"), os.LookupEnv)
	must(w.T, err)
	w.ring, _ = master.NewRing(w.Workspaces[Shop])
	w.Platforms[config.Meta] = meta.New(meta.Config{})
	w.Rules = rules
	w.connected = true
	w.Apply(First)
	w.Store.UseOpener(func(_ int64, lead, delivery ledger.ID, wrapped, sealed []byte) ([]byte, error) {
		return w.ring.ReadCopy(int64(lead), int64(delivery), wrapped, sealed)
	})
}

// connect puts the CRM into the shop's settings.
func (w *World) connect(ws *config.Workspace, crm store.CRM) {
	ws.Ring, ws.Rules, ws.Guard, ws.Currency, ws.Country = w.ring, w.Rules, ledger.Guard{Off: true}, "KZT", "KZ"
	// The database took the real time for that of the connection.
	crm.CreatedAt = Now.Add(-90 * 24 * time.Hour)
	ws.CRMs = []*config.CRM{{Destination: crm.Destination}}
	ws.Datasets[0].CreatedAt = crm.CreatedAt
}

// Take records the n-th lead of Meta's, created before Now.
func (w *World) Take(n int, before time.Duration, change func(l *ledger.Lead)) record.LeadResult {
	w.T.Helper()
	l := &ledger.Lead{
		Source: "forms", Kind: "meta_leads", Platform: "meta", LeadID: LeadID(n), CreatedAt: Now.Add(-before),
		Contact: ledger.Contact{FullName: fmt.Sprintf("Jane Example %d", n), Email: fmt.Sprintf("jane%d@example.com", n)},
	}
	if change != nil {
		change(l)
	}
	done, err := w.Recorder.Lead(w.T.Context(), w.Settings.Get().Workspace(Shop), l)
	must(w.T, err)
	return done
}

// LeadID is Meta's id of the n-th lead.
func LeadID(n int) string { return strconv.Itoa(1234567890123000 + n) }

// Move records a move that the CRM tells of.
func (w *World) Move(c ledger.StageChange) record.StageResult {
	w.T.Helper()
	ws := w.Settings.Get().Workspace(Shop)
	done, err := w.Recorder.Stages(w.T.Context(), ws, CRM, "pipedrive", ws.CRMs[0].ID, []ledger.StageChange{c})
	must(w.T, err)
	return done[0]
}
