package admin_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/admin/admintest"
	"github.com/capiloop/capiloop/internal/ledger"
)

var (
	onReceipt   = ledger.Rule{Stage: ledger.StageReceived, Event: "Lead"}
	onQualified = ledger.Rule{Stage: "Qualified", Event: "QualifiedLead"}
	onWon       = ledger.Rule{Stage: "Won", Event: "Purchase", Value: ledger.ValueDeal}
)

func TestTheFunnelOfAWorkspace(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	w.Connect(onReceipt, onQualified, onWon)
	for n := range 8 {
		w.Take(n, 48*time.Hour, func(l *ledger.Lead) {
			l.Origin.CampaignName = []string{"Autumn", "Winter"}[n%2]
			l.Answers = []ledger.FormAnswer{
				{Question: "course", Label: "Which course?", Values: []string{[]string{"Category B", "Category C"}[n%2]}},
				{Question: "whatsapp", Values: []string{"+7 701 555 00 00"}},
				{Question: "about", Values: []string{"I am Jane Example and want to drive"}},
				{Question: "why", Values: []string{string(rune('a' + n))}},
				{Question: "terms", Values: []string{"yes"}, Consent: true},
			}
		})
	}
	w.Take(100, 48*time.Hour, func(l *ledger.Lead) { l.Test = true })
	w.Take(101, 48*time.Hour, func(l *ledger.Lead) { l.History = true })
	w.Take(102, 10*24*time.Hour, nil)
	for n := range 3 {
		w.Move(ledger.StageChange{LeadID: admintest.LeadID(n), Stage: "Qualified", At: admintest.Now.Add(-time.Hour)})
	}
	w.Move(ledger.StageChange{LeadID: admintest.LeadID(1), Stage: "Won", At: admintest.Now.Add(-time.Minute), Amount: "1000"})

	c, _ := serve(t, w.Admin)
	for _, a := range []admin.Actions{w.Admin, c} {
		f, err := a.Funnel(t.Context(), reader, admintest.Shop, admin.FunnelQuery{From: "2026-11-28", To: "2026-11-29"})
		require.NoError(t, err)
		require.Empty(t, f.Rows)
		require.Equal(t, []admin.FunnelStep{
			{Event: "Lead", Count: 8, OfFirst: new(1.0)},
			{Event: "QualifiedLead", Count: 3, OfPrevious: new(0.375), OfFirst: new(0.375)},
			{Event: "Purchase", Count: 1, OfPrevious: new(0.3333), OfFirst: new(0.125)},
		}, f.Steps)

		f, err = a.Funnel(t.Context(), reader, admintest.Shop, admin.FunnelQuery{From: "2026-11-28", By: "campaign"})
		require.NoError(t, err)
		require.Len(t, f.Rows, 2)
		require.Equal(t, "Autumn", f.Rows[0].Name)
		require.EqualValues(t, 4, f.Rows[0].Leads)
		require.True(t, f.Rows[0].TooFew)
		require.EqualValues(t, 2, f.Rows[0].Steps[1].Count)
		require.EqualValues(t, 1, f.Rows[1].Steps[2].Count)

		f, err = a.Funnel(t.Context(), reader, admintest.Shop, admin.FunnelQuery{By: "answer"})
		require.NoError(t, err)
		require.EqualValues(t, 9, f.Steps[0].Count)
		require.Len(t, f.Rows, 2, "a phone, a name, a box to tick, and what one alone has answered are not shown: %+v", f.Rows)
		require.Equal(t, "Which course? = Category B", f.Rows[0].Name)
		require.EqualValues(t, 4, f.Rows[0].Leads)
		require.EqualValues(t, 2, f.Rows[0].Steps[1].Count)
	}
	f, err := w.Funnel(t.Context(), reader, admintest.Neighbour, admin.FunnelQuery{})
	require.NoError(t, err)
	require.Equal(t, &admin.Funnel{Steps: []admin.FunnelStep{{Event: "leads"}}, Rows: f.Rows}, f)

	failed(t, second(w.Funnel(t.Context(), nobody, admintest.Shop, admin.FunnelQuery{})), admin.Refused)
	failed(t, second(w.Funnel(t.Context(), reader, admintest.Shop, admin.FunnelQuery{By: "phone"})), admin.Invalid)
	failed(t, second(w.Funnel(t.Context(), reader, admintest.Shop, admin.FunnelQuery{From: "soon"})), admin.Invalid)
	failed(t, second(w.Funnel(t.Context(), reader, admintest.Shop, admin.FunnelQuery{From: "2026-12-02", To: "2026-12-01"})), admin.Invalid)
}

func TestDatesOfTheFunnelAreTheWorkspaces(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	w.Connect()
	w.Settings.Get().Workspace(admintest.Shop).Timezone = time.FixedZone("Asia/Almaty", 5*3600)
	w.Take(1, 18*time.Hour+30*time.Minute, nil) // 29 November, 19:30 UTC, which is the 30th in Almaty
	f, err := w.Funnel(t.Context(), reader, admintest.Shop, admin.FunnelQuery{From: "2026-11-30"})
	require.NoError(t, err)
	require.EqualValues(t, 1, f.Steps[0].Count)
	f, err = w.Funnel(t.Context(), reader, admintest.Shop, admin.FunnelQuery{From: "2026-11-30T00:00:00Z"})
	require.NoError(t, err)
	require.Zero(t, f.Steps[0].Count)
}
