package report_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/report"
	"github.com/capiloop/capiloop/internal/store"
)

func cells(group string, counts ...any) (list []store.FunnelCell) {
	for i := 0; i < len(counts); i += 2 {
		list = append(list, store.FunnelCell{Group: group, Event: counts[i].(string), Leads: int64(counts[i+1].(int))})
	}
	return list
}

func TestStepsAndRates(t *testing.T) {
	t.Parallel()
	// The driving school's month.
	rules := []ledger.Rule{{Stage: "Qualified", Event: "QualifiedLead"}, {Stage: "Won", Event: "Purchase"}, {Stage: ledger.StageReceived, Event: "Lead"}, {Stage: "SQL", Event: "QualifiedLead"}}
	f := report.NewFunnel(rules, cells("", "", 863, "Lead", 863, "Purchase", 36, "QualifiedLead", 335, "Old", 2, "Older", 7), nil)
	require.Equal(t, []report.Step{
		{Event: "Lead", Count: 863, OfFirst: new(1.0)},
		{Event: "QualifiedLead", Count: 335, OfPrevious: new(0.3882), OfFirst: new(0.3882)},
		{Event: "Purchase", Count: 36, OfPrevious: new(0.1075), OfFirst: new(0.0417)},
		{Event: "Older", Count: 7, OfPrevious: new(0.1944), OfFirst: new(0.0081)},
		{Event: "Old", Count: 2, OfPrevious: new(0.2857), OfFirst: new(0.0023)},
	}, f.Steps)

	// Without a rule for the receipt the leads themselves are the first step.
	f = report.NewFunnel(rules[:2], cells("", "", 100, "QualifiedLead", 40), nil)
	require.Equal(t, []report.Step{
		{Event: "leads", Count: 100, OfFirst: new(1.0)},
		{Event: "QualifiedLead", Count: 40, OfPrevious: new(0.4), OfFirst: new(0.4)},
		{Event: "Purchase", OfPrevious: new(0.0), OfFirst: new(0.0)},
	}, f.Steps)
}

func TestRowsAreSortedAndMarked(t *testing.T) {
	t.Parallel()
	parts := append(cells("a", "", 29, "Lead", 29), cells("b", "", 30, "Lead", 12)...)
	f := report.NewFunnel(nil, cells("", "", 59, "Lead", 41), append(parts, cells("", "", 29)...))
	require.Len(t, f.Rows, 3)
	require.Equal(t, []string{"b", "", "a"}, []string{f.Rows[0].Name, f.Rows[1].Name, f.Rows[2].Name})
	require.False(t, f.Rows[0].TooFew)
	require.True(t, f.Rows[1].TooFew)
	require.Equal(t, []report.Step{{Event: "leads", Count: 30, OfFirst: new(1.0)}, {Event: "Lead", Count: 12, OfPrevious: new(0.4), OfFirst: new(0.4)}}, f.Rows[0].Steps)
}
