package crm_test

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

// table reads a file of lines into rows by column.
func table(tb testing.TB, text string, comma rune) []map[string]string {
	tb.Helper()
	r := csv.NewReader(strings.NewReader(text))
	r.Comma = comma
	lines, err := r.ReadAll()
	require.NoError(tb, err)
	var rows []map[string]string
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, value := range line {
			row[lines[0][i]] = value
		}
		rows = append(rows, row)
	}
	return rows
}

func TestTheSampleExport(t *testing.T) {
	t.Parallel()
	rows := table(t, string(sample(t, "generic-crm-stage-export.csv")), ';')
	dayFirst := crm.DayFirst(slices.Values(rows))
	require.NotNil(t, dayFirst)
	require.True(t, *dayFirst)
	paris := time.FixedZone("", 3600)
	c, problems := crm.StageFromRow(rows[0], paris, dayFirst, stageNow)
	require.Empty(t, problems)
	c.Key = ""
	require.Equal(t, ledger.StageChange{
		LeadID: "987650000012345", Records: []string{"record:deal-77"}, Contact: ledger.Contact{Email: "ana.lead@example.com", Phone: "+1 202 555 0143"},
		Stage: "Closed Won", Amount: "1500.5", Currency: "EUR", At: time.Date(2026, 11, 25, 9, 0, 0, 0, time.UTC),
	}, c)
	c, problems = crm.StageFromRow(rows[1], paris, dayFirst, stageNow)
	require.Empty(t, problems)
	require.Equal(t, "zoe@example.com", c.Contact.Email)
	require.Empty(t, c.Amount+c.Currency+c.LeadID)
}

func TestColumnsAreGuessed(t *testing.T) {
	t.Parallel()
	c, problems := crm.StageFromRow(map[string]string{
		"Lead ID": "l:987650000012345", "E-mail": "a@example.com", "Mobile Phone": "p:+12025550143", "Deal Stage": "Won", "Status": "won", "Pipeline": "Sales", "Price": "1500,5",
		"Currency": "EUR", "Date": "25.11.2026", "Time": "10:30", "Deal ID": "7", "Deal name": "Roof", "Source": "Meta",
	}, time.UTC, nil, stageNow)
	require.Empty(t, problems)
	c.Key = ""
	require.Equal(t, ledger.StageChange{
		LeadID: "987650000012345", Platform: "meta", Records: []string{"deal:7"}, DealID: "7", Contact: ledger.Contact{Email: "a@example.com", Phone: "+12025550143"},
		Stage: "Won", Meaning: ledger.MeaningWon, Pipeline: "Sales", Amount: "1500.5", Currency: "EUR", At: time.Date(2026, 11, 25, 10, 30, 0, 0, time.UTC),
		Fields: map[string]string{"Deal name": "Roof", "Source": "Meta", "Status": "won"},
	}, c)

	c, problems = crm.StageFromRow(map[string]string{"ID": "12", "Status": "Qualified", "phone": "+12025550143", "Phone number": "+12025550199", "changed at": "2026-11-25 10:00"}, time.UTC, nil, stageNow)
	require.Empty(t, problems)
	require.Equal(t, []string{"record:12"}, c.Records)
	require.Equal(t, "Qualified", c.Stage)
	require.Equal(t, "+12025550143", c.Contact.Phone)
	require.Equal(t, "+12025550199", c.Fields["Phone number"])

	_, problems = crm.StageFromRow(map[string]string{"ID": "12", "Deal stage": "A", "Lead stage": "B"}, time.UTC, nil, stageNow)
	require.Equal(t, "Deal stage:duplicate_field!", codes(problems))
	_, problems = crm.StageFromRow(map[string]string{"Lead ID": "9.8765E+14", "Stage": "A"}, time.UTC, nil, stageNow)
	require.Equal(t, "Lead ID:invalid_lead_id!", codes(problems))
}

func TestDatesOfATable(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for _, tt := range []struct {
		date  string
		first *bool
		want  string
	}{
		{"25/11/2026", nil, "2026-11-25"},
		{"11/25/2026", nil, "2026-11-25"},
		{"25.11.2026", nil, "2026-11-25"},
		{"03.04.2026", nil, "2026-04-03"},
		{"03/04/2026", nil, "Changed at:date_ambiguous!"},
		{"03/04/2026", &yes, "2026-04-03"},
		{"03/04/2026", &no, "2026-03-04"},
		{"03-04-2026 10:00", &yes, "2026-04-03"},
		{"25/11/2026", &no, "Changed at:invalid_time!"},
		{"04/04/2026", nil, "2026-04-04"},
		{"11/25/2026 1:05 pm", nil, "2026-11-25"},
		{"2026/11/25", nil, "2026-11-25"},
		{"25/11/26", nil, "Changed at:invalid_time!"},
		{"31/02/2026", nil, "Changed at:invalid_time!"},
		{"1795604400", nil, "2026-11-25"},
	} {
		c, problems := crm.StageFromRow(map[string]string{"Stage": "x", "Deal ID": "1", "Changed at": tt.date}, time.UTC, tt.first, stageNow)
		got := codes(problems)
		if got == "" {
			got = c.At.Format(time.DateOnly)
		}
		require.Equal(t, tt.want, got, tt.date)
	}
	dates := func(list ...string) *bool {
		var rows []map[string]string
		for _, d := range list {
			rows = append(rows, map[string]string{"Changed at": d, "Other": "31/12/2026"})
		}
		return crm.DayFirst(slices.Values(rows))
	}
	require.Nil(t, dates("03/04/2026", "", "x"))
	require.Equal(t, &yes, dates("03/04/2026", "25/04/2026 10:00"))
	require.Equal(t, &no, dates("04/25/2026", "03/04/2026"))
	require.Nil(t, dates("04/25/2026", "25/04/2026"))
}

func FuzzStageFromRow(f *testing.F) {
	f.Add("Stage", "Won", "Changed at", "25/11/2026 10:00", "Amount", "1.500,50")
	f.Add("status", "won", "date", "11-25-2026", "Price", "$1,500.50")
	f.Fuzz(func(t *testing.T, a, b, c, d, e, g string) {
		change, problems := crm.StageFromRow(map[string]string{a: b, c: d, e: g, "Lead ID": "1"}, time.UTC, nil, stageNow)
		checkStage(t, change, problems)
	})
}
