package record_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/record"
)

const month = 30 * 24 * time.Hour

func (d *crmDesk) dryRun(t *testing.T, rules ...ledger.Rule) map[string]record.DryEvent {
	t.Helper()
	out, err := d.DryRun(t.Context(), d.ws, rules, ago(3*month))
	require.NoError(t, err)
	events := map[string]record.DryEvent{}
	for _, e := range out.Events {
		events[e.Event] = e
	}
	return events
}

// The same rules over the same past say what they did in earnest, and write nothing.
func TestADryRunSaysWhatTheRulesDid(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onReceipt, onQualified, onWon)
		for n := range 5 {
			got := d.lead(t, nil)
			row, err := d.store.LeadFor(t.Context(), 0, got.ID)
			require.NoError(t, err)
			id := row.Lead.LeadID
			d.move(t, ledger.StageChange{LeadID: id, Stage: "New", At: ago(50 * time.Minute)})
			if n < 3 {
				d.move(t, ledger.StageChange{LeadID: id, Stage: "Qualified", At: ago(40 * time.Minute)})
				d.move(t, ledger.StageChange{LeadID: id, Stage: "Qualified", At: ago(30 * time.Minute)})
			}
			if n < 2 {
				c := ledger.StageChange{LeadID: id, Stage: "Won", At: ago(20 * time.Minute)}
				if n == 0 {
					c.Amount = "1000"
				}
				d.move(t, c)
			}
		}
		before, err := d.store.Latest(t.Context(), d.ws.ID, 500)
		require.NoError(t, err)
		require.Len(t, before, 10)
		out, err := d.DryRun(t.Context(), d.ws, d.ws.Rules, ago(month))
		require.NoError(t, err)
		keys := func(n int) map[string]int { return map[string]int{"em": n, "lead_id": n} }
		none := map[ledger.Reason]int{}
		out.Since = time.Time{}
		require.Equal(t, &record.DryRun{
			Leads: 5, Moves: 13, NoRule: []record.DryStage{{Source: "crm", Stage: "New", Moves: 5}},
			Events: []record.DryEvent{
				{Event: "Lead", WouldSend: 5, Keys: keys(5), NotSent: none},
				{Event: "QualifiedLead", WouldSend: 3, Repeats: 3, Keys: keys(3), NotSent: none},
				{Event: "Purchase", WouldSend: 2, WithValue: 1, Keys: keys(2), NotSent: none},
			},
		}, out)
		after, err := d.store.Latest(t.Context(), d.ws.ID, 500)
		require.NoError(t, err)
		require.Len(t, after, 10)
	})
}

func TestADryRunOfOtherRules(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onQualified)
		lead := func(change func(l *ledger.Lead)) string {
			row, err := d.store.LeadFor(t.Context(), 0, d.lead(t, change).ID)
			require.NoError(t, err)
			return row.Lead.LeadID
		}
		created := func(at time.Duration) func(l *ledger.Lead) { return func(l *ledger.Lead) { l.CreatedAt = ago(at) } }
		// History is looked at as if it had been told of at once.
		old := lead(func(l *ledger.Lead) { l.CreatedAt, l.History = ago(2*month), true })
		d.move(t, ledger.StageChange{LeadID: old, Stage: "Visit", At: ago(55 * 24 * time.Hour), History: true})
		d.move(t, ledger.StageChange{LeadID: old, Stage: "Won", At: ago(50 * 24 * time.Hour), History: true, Amount: "5"})
		// Told of eight days late; told of in time, but long after the lead.
		late := lead(created(40 * 24 * time.Hour))
		d.move(t, ledger.StageChange{LeadID: late, Stage: "Visit", At: ago(8 * 24 * time.Hour)})
		d.move(t, ledger.StageChange{LeadID: late, Stage: "Won", At: ago(time.Hour)})
		// Nobody agreed; of another platform; a test.
		d.move(t, ledger.StageChange{LeadID: lead(func(l *ledger.Lead) { l.Consent = ledger.ConsentDenied }), Stage: "Visit"})
		d.move(t, ledger.StageChange{LeadID: lead(func(l *ledger.Lead) { l.Platform = "google" }), Stage: "Visit"})
		d.move(t, ledger.StageChange{LeadID: lead(func(l *ledger.Lead) { l.Test = true }), Stage: "Visit"})
		// A lead that its first move made did not come in by itself.
		d.move(t, ledger.StageChange{Contact: ledger.Contact{Email: "bo@example.com"}, Stage: "Visit"})

		visit := ledger.Rule{Stage: "Visit", Event: "Schedule"}
		got := d.dryRun(t, onReceipt, visit, onWon)
		require.Equal(t, record.DryEvent{
			Event: "Schedule", WouldSend: 2, History: 1, Test: 1, Keys: map[string]int{"em": 2, "lead_id": 1},
			NotSent: map[ledger.Reason]int{ledger.Expired: 1, ledger.NoConsent: 1, ledger.OtherPlatform: 1},
		}, got["Schedule"])
		require.Equal(t, record.DryEvent{
			Event: "Purchase", WouldSend: 2, History: 1, WithValue: 1, OutsideWindow: 1, Keys: map[string]int{"em": 2, "lead_id": 2}, NotSent: map[ledger.Reason]int{},
		}, got["Purchase"])
		require.Equal(t, 1, got["Lead"].WouldSend, "of history; the others came late, without consent, or of another platform")
		require.Equal(t, 1, got["Lead"].Test)
		require.NotContains(t, got, "QualifiedLead")

		// What waits for an event that never came is not sent; what comes once per deal is.
		after := onWon
		after.After = "Schedule"
		require.Equal(t, 2, d.dryRun(t, visit, after)["Purchase"].WouldSend)
		after.After = "QualifiedLead"
		got = d.dryRun(t, onQualified, after)
		require.Zero(t, got["Purchase"].WouldSend)
		require.Zero(t, got["Purchase"].WithValue)
		require.Equal(t, map[ledger.Reason]int{ledger.Sequence: 2}, got["Purchase"].NotSent)

		// The CRM's fields are not kept, so a condition cannot be judged.
		visit.IfField, visit.IfIs = "kind", "new"
		out, err := d.DryRun(t.Context(), d.ws, []ledger.Rule{visit}, ago(3*month))
		require.NoError(t, err)
		require.Equal(t, 5, out.Condition)
		require.Equal(t, []record.DryStage{{Source: "crm", Stage: "Won", Moves: 2}}, out.NoRule)
	})
}

func TestADryRunOfMergedLeadsSendsOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database)
		d.lead(t, nil)
		d.lead(t, nil)
		d.move(t, ledger.StageChange{LeadID: "1234567890123401", Records: []string{"contact:51"}, Stage: "Qualified", At: ago(20 * time.Minute)})
		d.move(t, ledger.StageChange{LeadID: "1234567890123402", Records: []string{"contact:52"}, Stage: "Qualified", At: ago(10 * time.Minute)})
		require.NoError(t, d.Merge(t.Context(), d.ws, d.crm, ledger.Merge{Kept: "contact:51", Merged: []string{"contact:52"}}))
		got := d.dryRun(t, onQualified)["QualifiedLead"]
		require.Equal(t, 1, got.WouldSend)
		require.Equal(t, 1, got.Repeats)
	})
}

func TestADryRunTellsWhoseContactIsCleared(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database)
		d.lead(t, nil)
		d.move(t, ledger.StageChange{LeadID: "1234567890123401", Stage: "Qualified", At: ago(20 * time.Minute)})
		n, err := d.store.PurgeContacts(t.Context(), d.ws.ID, time.Now().Add(time.Hour), time.Now())
		require.NoError(t, err)
		got := d.dryRun(t, onQualified)["QualifiedLead"]
		require.Equal(t, 1, n)
		require.Equal(t, 1, got.Cleared)
		require.Equal(t, 1, got.WouldSend, "by Meta's lead id")
	})
}
