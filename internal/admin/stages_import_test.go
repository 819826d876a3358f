package admin_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/admin/admintest"
	"github.com/capiloop/capiloop/internal/leadform/csv"
	"github.com/capiloop/capiloop/internal/ledger"
)

func stageFile(text string) admin.StageFile {
	return admin.StageFile{
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil },
		Zone: time.FixedZone("", 3600), Now: admintest.Now, Live: true,
	}
}

// readAll reads a file whose faults are of single lines.
func readAll(t *testing.T, f admin.StageFile) (changes []ledger.StageChange, faults []*csv.LineError) {
	t.Helper()
	for line, err := range admin.ReadStages(f) {
		if fault, ok := errors.AsType[*csv.LineError](err); ok {
			require.Equal(t, line.Line, fault.Line)
			faults = append(faults, fault)
			continue
		}
		require.NoError(t, err)
		changes = append(changes, line.Change)
	}
	return changes, faults
}

const stageTable = "Lead ID;Email;Stage;Amount;Currency;Changed at;Manager\n" +
	"1234567890123001;;Won;1.500,50;EUR;29/11/2026 10:00;Bo\n" +
	";jane@example.com;Qualified;;;12/11/2026 09:00;Bo\n" +
	";;Qualified;;;12/11/2026 09:00;Bo\n" +
	"1234567890123001;;Qualified;;;soon;Bo\n"

func TestStageChangesComeFromAFile(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	w.Connect(onQualified, onWon, ledger.Rule{Stage: "Visit", Event: "Schedule", IfField: "Manager", IfIs: "Bo"})
	w.Take(1, 3*24*time.Hour, nil)
	changes, faults := readAll(t, stageFile(stageTable))
	require.Len(t, changes, 2)
	require.Equal(t, []int{4, 5}, []int{faults[0].Line, faults[1].Line})
	require.Equal(t, time.Date(2026, 11, 12, 8, 0, 0, 0, time.UTC), changes[1].At.UTC(), "the day comes first, as line 2 says")
	more, faults := readAll(t, stageFile("Email,Stage,Manager\njane@example.com,Visit,Bo\nbo@example.com,Visit,Ann\n"))
	require.Empty(t, faults)
	changes = append(changes, more...)

	c, _ := serve(t, w.Admin)
	done, err := c.ImportStages(t.Context(), operator, admintest.Shop, "deals", changes)
	require.NoError(t, err)
	require.Equal(t, &admin.ImportedStages{
		Seen: 4, Recorded: 4, NewLeads: 2, Events: 3, Effects: map[ledger.Effect]int{ledger.EffectEvent: 3, ledger.EffectCondition: 1},
	}, done)
	list, err := w.Latest(t.Context(), reader, admintest.Shop, 10)
	require.NoError(t, err)
	hashed := 0
	for _, e := range list {
		require.Equal(t, "deals", e.Source)
		if strings.Contains(string(e.Deliveries[0].Payload), capi.HashText("jane@example.com")) {
			hashed++
		}
	}
	require.Equal(t, 1, hashed, "the contact crossed the socket; QualifiedLead was too late")

	again, faults := readAll(t, stageFile(stageTable))
	require.Len(t, faults, 2)
	later := stageFile("Email,Stage,Manager\njane@example.com,Visit,Bo\nbo@example.com,Visit,Ann\n")
	later.Now = admintest.Now.Add(400 * 24 * time.Hour)
	more, _ = readAll(t, later)
	done, err = w.ImportStages(t.Context(), operator, admintest.Shop, "deals", append(again, more...))
	require.NoError(t, err)
	require.Equal(t, &admin.ImportedStages{Seen: 4, Duplicates: 4, Effects: map[ledger.Effect]int{}}, done)

	failed(t, second(c.ImportStages(t.Context(), reader, admintest.Shop, "deals", changes)), admin.Refused)
	failed(t, second(c.ImportStages(t.Context(), operator, admintest.Shop, " ", changes)), admin.Invalid)
	failed(t, second(c.ImportStages(t.Context(), operator, admintest.Shop, strings.Repeat("x", 61), changes)), admin.Invalid)
}

func TestStageChangesOfAFileAreHistoryUnlessSaid(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	w.Connect(onQualified, onWon)
	w.Take(1, 3*24*time.Hour, nil)
	w.Move(ledger.StageChange{LeadID: admintest.LeadID(1), Records: []string{"deal:7"}, Stage: "New", At: admintest.Now.Add(-time.Hour)})
	f := stageFile("Deal ID,Status,When\n7,Won,2026-11-30 10:00\n")
	f.Live, f.Columns = false, map[string]string{"Status": "stage", "When": "occurred_at"}
	changes, faults := readAll(t, f)
	require.Empty(t, faults)
	done, err := w.ImportStages(t.Context(), operator, admintest.Shop, admintest.CRM, changes)
	require.NoError(t, err)
	require.Equal(t, map[ledger.Effect]int{ledger.EffectHistory: 1}, done.Effects)
	require.Zero(t, done.NewLeads, "by the record's id in the CRM that the file is of")

	f.Columns = map[string]string{"Status": "stage", "Whan": "occurred_at"}
	for _, err := range admin.ReadStages(f) {
		require.ErrorContains(t, err, `no column "Whan"`)
	}
	f.Open = func() (io.ReadCloser, error) { return nil, errors.New("gone") }
	for _, err := range admin.ReadStages(f) {
		require.ErrorContains(t, err, "gone")
	}
}

func TestWhatImportsAddUpTo(t *testing.T) {
	t.Parallel()
	var sum admin.ImportedStages
	part := &admin.ImportedStages{Seen: 5, Recorded: 3, Duplicates: 2, NewLeads: 1, Events: 2, Effects: map[ledger.Effect]int{ledger.EffectNoRule: 1}}
	sum.Add(part)
	sum.Add(part)
	require.Equal(t, admin.ImportedStages{Seen: 10, Recorded: 6, Duplicates: 4, NewLeads: 2, Events: 4, Effects: map[ledger.Effect]int{ledger.EffectNoRule: 2}}, sum)
}
