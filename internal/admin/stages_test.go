package admin_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/admin/admintest"
	"github.com/capiloop/capiloop/internal/ledger"
)

func TestStagesAreListedWithTheirRules(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	w.Connect(onReceipt, onQualified, onWon, ledger.Rule{Stage: "Qualified", Event: "Contact", CRM: "other"}, ledger.Rule{Stage: "SQL", Event: "Schedule"},
		ledger.Rule{Field: "status", Is: "reached", Event: "Contacted"})
	w.Take(1, 48*time.Hour, nil)
	at := admintest.Now.Add(-time.Hour)
	for i, c := range []ledger.StageChange{
		{Stage: "7", StageLabel: "Qualified", Pipeline: "1", PipelineLabel: "Courses", Meaning: ledger.MeaningOpen},
		{Stage: "8", StageLabel: "Visit", Pipeline: "1", PipelineLabel: "Courses"},
		{Stage: "7", StageLabel: "SQL", Pipeline: "1", PipelineLabel: "Courses"},
		{Stage: "Reached", Field: "status"},
	} {
		c.LeadID, c.At = admintest.LeadID(1), at.Add(time.Duration(i)*time.Minute)
		w.Move(c)
	}
	c, _ := serve(t, w.Admin)
	for _, a := range []admin.Actions{w.Admin, c} {
		list, err := a.Stages(t.Context(), reader, admintest.Shop)
		require.NoError(t, err)
		for i := range list {
			require.NotNil(t, list[i].LastMoveAt)
			list[i].LastMoveAt = nil
		}
		require.Equal(t, []admin.Stage{
			{Source: "sales", Pipeline: "1", PipelineLabel: "Courses", ID: "7", Label: "SQL", FormerLabels: []string{"Qualified"}, Meaning: "open", Moves: 2, Events: []string{"QualifiedLead", "Schedule"}},
			{Source: "sales", Pipeline: "1", PipelineLabel: "Courses", ID: "8", Label: "Visit", FormerLabels: []string{}, Moves: 1, Events: []string{}},
			{Source: "sales", Field: "status", ID: "Reached", FormerLabels: []string{}, Moves: 1, Events: []string{"Contacted"}},
		}, list)
		list, err = a.Stages(t.Context(), reader, admintest.Neighbour)
		require.NoError(t, err)
		require.Empty(t, list)
		failed(t, second(a.Stages(t.Context(), nobody, admintest.Shop)), admin.Refused)
	}
}
