package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// moves records moves of a lead that is found by an id.
func (b *bench) moves(t *testing.T, id string, destination int64, changes ...ledger.StageChange) {
	t.Helper()
	for _, c := range changes {
		w := &store.StageWrite{
			ID: b.ids.Next(), Workspace: b.ws, Source: "crm", Destination: destination, Change: &c, Hash: []byte(id + c.Stage), IDs: [][]byte{[]byte(id)},
			NewLead: b.ofLead([]string{id}, nil),
			Decide: func(*store.StageFacts) (store.StageDecision, error) {
				return store.StageDecision{Effect: ledger.EffectHistory, Events: []store.LeadEvent{{Name: "On" + c.Stage, At: c.At}}}, nil
			},
		}
		_, err := b.ChangeStage(t.Context(), w)
		require.NoError(t, err)
	}
}

func TestThePastIsReadInOrder(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		at := b.now.Truncate(time.Second)
		meta := b.ofLead([]string{"a"}, nil)
		meta.Lead.Platform, meta.Lead.LeadID, meta.Lead.CreatedAt = "meta", "123456789012345", at.Add(-time.Hour)
		first := b.recordLead(t, meta)
		second := b.recordLead(t, b.ofLead([]string{"b"}, nil))
		b.moves(t, "a", b.other, ledger.StageChange{Stage: "Won", At: at, Records: []string{"contact:1"}, Amount: "5", Currency: "EUR", DealID: "9", By: "7"})
		b.moves(t, "b", b.other, ledger.StageChange{Stage: "New", At: at.Add(-time.Minute), Records: []string{"contact:2"}})
		_, err := b.MergeLeads(t.Context(), b.other, ledger.Merge{Kept: "contact:1", Merged: []string{"contact:2"}})
		require.NoError(t, err)

		var moves []store.PastMove
		require.NoError(t, b.PastMoves(t.Context(), b.ws, at.Add(-time.Hour), func(m *store.PastMove) error {
			moves = append(moves, *m)
			return nil
		}))
		require.Len(t, moves, 2)
		require.Equal(t, []string{"New", "Won"}, []string{moves[0].Change.Stage, moves[1].Change.Stage})
		require.Equal(t, first.ID, moves[0].Root, "by way of the merge")
		require.Equal(t, second.ID, moves[0].Row.Lead.ID)
		require.Equal(t, "123456789012345", moves[1].MetaID)
		require.Equal(t, moves[1].ID, moves[1].First)
		require.Equal(t, "crm", moves[1].Teller)
		require.True(t, at.Equal(moves[1].Change.At))
		moves[1].Change.At = time.Time{}
		require.Equal(t, ledger.StageChange{Stage: "Won", Records: []string{"contact:1"}, Amount: "5", Currency: "EUR", DealID: "9", By: "7"}, moves[1].Change)
		require.Equal(t, ledger.EffectHistory, moves[1].Effect)
		require.Equal(t, []byte{2}, moves[1].Row.Sealed)

		var leads []ledger.ID
		require.NoError(t, b.PastLeads(t.Context(), b.ws, at.Add(-2*time.Hour), func(p *store.PastLead) error {
			leads = append(leads, p.Row.Lead.ID)
			return nil
		}))
		require.Equal(t, []ledger.ID{first.ID, second.ID}, leads)
		into, err := b.MergedInto(t.Context(), second.ID)
		require.NoError(t, err)
		require.Equal(t, first.ID, into)
		into, err = b.MergedInto(t.Context(), first.ID)
		require.NoError(t, err)
		require.Zero(t, into)
	})
}

func TestTheFunnelCountsPeopleOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		for id, campaign := range map[string]string{"a": "Autumn", "b": "Winter", "c": "Winter"} {
			r := b.ofLead([]string{id}, nil)
			r.Lead.Origin.CampaignName = campaign
			b.recordLead(t, r)
		}
		b.moves(t, "a", b.other, ledger.StageChange{Stage: "Won", At: b.now, Records: []string{"contact:1"}})
		b.moves(t, "b", b.other, ledger.StageChange{Stage: "Won", At: b.now, Records: []string{"contact:2"}})
		_, err := b.MergeLeads(t.Context(), b.other, ledger.Merge{Kept: "contact:1", Merged: []string{"contact:2"}})
		require.NoError(t, err)
		q := store.FunnelQuery{Workspace: b.ws, From: b.now.Add(-time.Hour), To: b.now.Add(time.Hour)}
		cells, err := b.Funnel(t.Context(), q)
		require.NoError(t, err)
		require.ElementsMatch(t, []store.FunnelCell{{Leads: 2}, {Event: "OnWon", Leads: 1}}, cells)
		n, err := b.FunnelSize(t.Context(), q)
		require.NoError(t, err)
		require.EqualValues(t, 2, n)
		reached := map[string][]string{}
		require.NoError(t, b.FunnelLeads(t.Context(), q, func(row *store.LeadRow, events []string) error {
			reached[row.Lead.Origin.CampaignName] = events
			return nil
		}))
		require.Equal(t, map[string][]string{"Autumn": {"OnWon"}, "Winter": nil}, reached)
		q.By = "campaign"
		cells, err = b.Funnel(t.Context(), q)
		require.NoError(t, err)
		require.ElementsMatch(t, []store.FunnelCell{{Group: "Autumn", Leads: 1}, {Group: "Autumn", Event: "OnWon", Leads: 1}, {Group: "Winter", Leads: 1}}, cells)
		q.From, q.To, q.By = b.now.Add(time.Hour), b.now.Add(2*time.Hour), ""
		cells, err = b.Funnel(t.Context(), q)
		require.NoError(t, err)
		require.Empty(t, cells)
	})
}
