package admin_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/admin/admintest"
	"github.com/capiloop/capiloop/internal/ledger"
)

func TestALeadsWholeLife(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	w.Connect(onReceipt, onWon)
	got := w.Take(1, 2*time.Hour, nil)
	at := admintest.Now.Add(-time.Hour)
	w.Move(ledger.StageChange{LeadID: admintest.LeadID(1), Pipeline: "1", PipelineLabel: "Courses", Stage: "7", StageLabel: "Visit", At: at, By: "42"})
	w.Move(ledger.StageChange{LeadID: admintest.LeadID(1), Stage: "Won", At: at.Add(time.Minute), Amount: "185000"})
	w.Move(ledger.StageChange{LeadID: admintest.LeadID(1), Field: "status", Stage: "reached", At: at.Add(2 * time.Minute)})
	c, _ := serve(t, w.Admin)
	for _, a := range []admin.Actions{w.Admin, c} {
		l, err := a.Lead(t.Context(), reader, admintest.Shop, got.ID.String())
		require.NoError(t, err)
		var stages []string
		for i, h := range l.Hops {
			if h.What == "stage" {
				stages = append(stages, h.Detail)
			}
			if i > 0 {
				require.False(t, h.At.Before(l.Hops[i-1].At))
				require.Equal(t, h.At.Sub(l.Hops[i-1].At).Milliseconds(), h.TookMS)
			}
		}
		require.Equal(t, []string{
			"to Visit in Courses, told by sales, moved by 42. Nothing was sent: no rule is for this stage.",
			"to Won, told by sales. An event was made of it.",
			"status became reached, told by sales. Nothing was sent: no rule is for this stage.",
		}, stages)
		require.Len(t, l.Events, 2)
		require.Equal(t, []string{"Lead", "Purchase"}, []string{l.Events[0].Name, l.Events[1].Name})
		require.Equal(t, ledger.Waiting, l.Events[1].Deliveries[0].State)
		require.Contains(t, string(l.Events[1].Deliveries[0].Payload), `"value":185000`)
		text, err := json.Marshal(l)
		require.NoError(t, err)
		require.NotContains(t, string(text), "Example", "who it is stays where it is")
		require.NotContains(t, string(text), "jane1@")

		list, err := a.Leads(t.Context(), reader, admintest.Shop, 10)
		require.NoError(t, err)
		require.Empty(t, list[0].Events)
	}
}

func TestALeadTellsWhatItWasMergedInto(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	w.Connect(onReceipt)
	kept, merged := w.Take(1, 2*time.Hour, nil), w.Take(2, 2*time.Hour, nil)
	w.Move(ledger.StageChange{LeadID: admintest.LeadID(1), Records: []string{"contact:51"}, Stage: "New", At: admintest.Now.Add(-time.Hour)})
	w.Move(ledger.StageChange{LeadID: admintest.LeadID(2), Records: []string{"contact:52"}, Stage: "New", At: admintest.Now.Add(-time.Hour)})
	ws := w.Settings.Get().Workspace(admintest.Shop)
	require.NoError(t, w.Recorder.Merge(t.Context(), ws, ws.CRMs[0].ID, ledger.Merge{Kept: "contact:51", Merged: []string{"contact:52"}}))
	l, err := w.Lead(t.Context(), reader, admintest.Shop, merged.ID.String())
	require.NoError(t, err)
	require.Equal(t, kept.ID.String(), l.MergedInto)
	require.Len(t, l.Events, 1)
	l, err = w.Lead(t.Context(), reader, admintest.Shop, admintest.LeadID(1))
	require.NoError(t, err)
	require.Empty(t, l.MergedInto)
}
