package deliver_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

// inSequence gives the rig two rules, the second of which must not overtake the first,
// and a way to move the one lead.
func inSequence(t *testing.T, test func(t *testing.T, r *rig, move func(stage string))) {
	t.Helper()
	inBubble(t, func(t *testing.T, r *rig) {
		master, err := secret.LoadMaster(filepath.Join(t.TempDir(), "master.key"), os.LookupEnv)
		require.NoError(t, err)
		r.ws.Ring, _ = master.NewRing(r.ws.ID)
		r.store.UseOpener(func(_ int64, lead, delivery ledger.ID, wrapped, sealed []byte) ([]byte, error) {
			return r.ws.Ring.ReadCopy(int64(lead), int64(delivery), wrapped, sealed)
		})
		r.ws.Datasets = r.ws.Datasets[:1]
		r.ws.Guard.Off = true
		r.ws.Rules = []ledger.Rule{
			{Stage: "Qualified", Event: "QualifiedLead"},
			{Stage: "Won", Event: "Purchase", Value: ledger.ValueFixed, Amount: "5", Currency: "EUR", After: "QualifiedLead"},
		}
		created := time.Now()
		time.Sleep(time.Hour)
		test(t, r, func(stage string) {
			done, err := r.recorder.Stages(t.Context(), r.ws, "crm", "pipedrive", 0, []ledger.StageChange{{
				Stage: stage, Contact: ledger.Contact{Email: "ana@example.com"}, CreatedAt: created,
			}})
			require.NoError(t, err)
			require.Equal(t, ledger.EffectEvent, done[0].Effect)
		})
	})
}

func (r *rig) kept() []string {
	var names []string
	for _, e := range r.graph.Kept(datasetA) {
		names = append(names, e.EventName)
	}
	return names
}

func TestAPurchaseWaitsForTheStageBefore(t *testing.T) {
	t.Parallel()
	inSequence(t, func(t *testing.T, r *rig, move func(stage string)) {
		move("Won")
		time.Sleep(time.Hour)
		require.Empty(t, r.kept())
		require.EqualValues(t, 1, r.book(t).By[ledger.Held][ledger.Sequence])
		move("Qualified")
		time.Sleep(time.Minute)
		require.Equal(t, []string{"QualifiedLead", "Purchase"}, r.kept())
		require.EqualValues(t, 2, r.book(t).Total(ledger.Sent))
	})
}

func TestValueDoesNotOvertakeItsPredecessorAfterAnOutage(t *testing.T) {
	t.Parallel()
	inSequence(t, func(t *testing.T, r *rig, move func(stage string)) {
		r.graph.Fault(capitest.Fault{Mode: capitest.ModeError, Code: 2})
		move("Qualified")
		time.Sleep(time.Minute)
		move("Won")
		time.Sleep(time.Hour)
		r.graph.ClearFaults()
		time.Sleep(2 * time.Hour)
		require.Equal(t, []string{"QualifiedLead", "Purchase"}, r.kept())
	})
}

func TestWhatFollowsAnEventThatIsNeverSentIsSkipped(t *testing.T) {
	t.Parallel()
	inSequence(t, func(t *testing.T, r *rig, move func(stage string)) {
		r.graph.Fault(capitest.Fault{Mode: capitest.ModeError, Code: 2})
		move("Qualified")
		time.Sleep(24 * time.Hour)
		move("Won")
		time.Sleep(6 * 24 * time.Hour)
		r.graph.ClearFaults()
		time.Sleep(2 * time.Hour)
		require.Empty(t, r.kept())
		book := r.book(t)
		require.EqualValues(t, 1, book.By[ledger.Failed][ledger.Expired])
		require.EqualValues(t, 1, book.By[ledger.Skipped][ledger.SequenceBroken])
	})
}
