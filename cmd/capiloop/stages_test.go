package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/admin"
)

const stagesConfig = `
workspaces:
  - name: school
    currency: KZT
    timezone: Asia/Almaty
    datasets: [{id: sandbox}]
    stages:
      - {stage: received, event: Lead}
      - {stage: Qualified, event: QualifiedLead}
      - {stage: Won, event: Purchase, value: deal}
`

// desk runs commands on a folder without a server.
type desk struct {
	t   *testing.T
	dir string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t, t.TempDir()}
	d.write("capiloop.yaml", stagesConfig)
	return d
}

func (d *desk) write(name, text string) string {
	d.t.Helper()
	path := filepath.Join(d.dir, name)
	require.NoError(d.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func (d *desk) run(args ...string) (code int, out, errOut string) {
	d.t.Helper()
	var o, e bytes.Buffer
	code = run(append(args, "--config", filepath.Join(d.dir, "capiloop.yaml"), "--data", d.dir), bytes.NewReader(nil), &o, &e)
	return code, o.String(), e.String()
}

// fine runs a command that must not fail.
func (d *desk) fine(args ...string) string {
	d.t.Helper()
	code, out, errOut := d.run(args...)
	require.Zero(d.t, code, "%v: %s%s", args, out, errOut)
	return out
}

func TestStagesFromAFileAndWhatComesOfThem(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	require.Contains(t, d.fine("stages"), "No stage is known yet")
	day := func(ago time.Duration) string { return time.Now().Add(-ago).UTC().Format(time.RFC3339) }
	leads := d.write("leads.csv", "id,created_time,ad_id,campaign_name,email\nl:1234567890123001,"+day(72*time.Hour)+",1,Autumn,ana@example.com\nl:1234567890123002,"+day(72*time.Hour)+",1,Winter,bo@example.com\n")
	d.fine("import", leads, "--live")
	stages := d.write("deals.csv", "Lead ID,Stage,Changed at,Amount\n1234567890123001,Qualified,"+day(48*time.Hour)+",\n1234567890123001,Won,"+day(24*time.Hour)+",1500\n1234567890123002,Visit,"+day(24*time.Hour)+",\n")

	require.Equal(t, "3 stage changes can be read, 0 lines have faults. Nothing was written.\n", d.fine("stages", "import", stages, "--dry-run"))
	out := d.fine("stages", "import", stages, "--live", "--source", "deals")
	require.Contains(t, out, "3 stage changes read: 3 new, 0 known already; 0 leads that nobody knew; 2 events made; 0 lines have faults.")
	require.Contains(t, out, "       2  An event was made of it.\n       1  Nothing was sent: no rule is for this stage.\n")
	require.Contains(t, d.fine("stages", "import", stages, "--live", "--source", "deals"), "3 stage changes read: 0 new, 3 known already")

	faulty := d.write("faulty.csv", "Lead ID,Stage,Changed at\n1234567890123002,,x\n1234567890123002,Qualified,"+day(time.Hour)+"\n")
	code, out, errOut := d.run("stages", "import", faulty, "--dates", "dmy", "--timezone", "Europe/Madrid")
	require.Equal(t, exitProblem, code)
	require.Contains(t, errOut, "line 2")
	require.Contains(t, out, "1 stage changes read: 1 new")
	require.Contains(t, out, "it happened before the CRM was connected")

	out = d.fine("stages")
	require.Regexp(t, `deals +Qualified +Qualified +1 .*QualifiedLead\n`, out)
	require.Regexp(t, `deals +Visit .*no rule\n`, out)
	require.Contains(t, out, "1 of 4 stages have no rule; 1 moves went there and sent nothing.")

	out = d.fine("funnel", "--by", "campaign")
	require.Regexp(t, `\n +2 +100.0 % +Lead\n +2 +100.0 % +100.0 % +QualifiedLead\n +1 +50.0 % +50.0 % +Purchase\n`, out)
	require.Regexp(t, `\n +1 +1 +100.0 % +1 +100.0 % +1 +100.0 % +Autumn   too few to tell\n`, out)
	var f admin.Funnel
	require.NoError(t, json.Unmarshal([]byte(d.fine("funnel", "--json")), &f))
	require.EqualValues(t, 1, f.Steps[2].Count)

	out = d.fine("stages", "dry-run", "--days", "30")
	require.Contains(t, out, "The last 30 days: 2 leads, 4 stage changes. Nothing was written, nothing was sent.\n")
	require.Contains(t, out, "\nPurchase\n       1  would be sent\n       1  of these with a value\n          keys: em 1, lead_id 1\n")
	require.Contains(t, out, "       1  moves to Visit (deals) have no rule\n")
	rules := d.write("rules.yaml", "- {stage: Visit, event: Schedule}\n- {stage: Won, event: Purchase}\n")
	out = d.fine("stages", "dry-run", "--rules", rules)
	require.Regexp(t, `\n +0 +1 +Schedule\n +1 +1 +Purchase\n +2 +0 +Lead\n +2 +0 +QualifiedLead\n`, out)
	var tried admin.DryRun
	require.NoError(t, json.Unmarshal([]byte(d.fine("stages", "dry-run", "--json", "--rules", rules)), &tried))
	require.Equal(t, "Schedule", tried.Changes[0].Event)

	out = d.fine("lead", "1234567890123001")
	require.Contains(t, out, "to Won, told by deals. An event was made of it.")
	require.Regexp(t, `Purchase .* sandbox +waiting`, out)
}

func TestDeadlinesOfACommandWithoutAServer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	require.Equal(t, "Nothing is too late within 24h.\n", d.fine("deadlines"))
	day := func(ago time.Duration) string { return time.Now().Add(-ago).UTC().Format(time.RFC3339) }
	d.fine("import", d.write("leads.csv", "id,created_time,ad_id,campaign_name,email\nl:1234567890123001,"+day(6*24*time.Hour+12*time.Hour)+",1,Autumn,ana@example.com\n"), "--live")
	code, out, errOut := d.run("deadlines", "--within", "48h")
	require.Equal(t, exitProblem, code)
	require.Empty(t, errOut)
	require.Regexp(t, `1[01]h[0-9]+m0s +1 +Lead +sandbox +waiting +queued\n`, out)
	require.Contains(t, out, "queued: Waiting for its turn; it leaves within seconds. Nothing is to be done.")
	code, out, _ = d.run("deadlines", "--json")
	require.Equal(t, exitProblem, code)
	var list []admin.Deadline
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	require.Equal(t, "Lead", list[0].Event)
}

func TestWrongUsageOfStages(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, args := range [][]string{
		{"stages", "import"},
		{"stages", "import", "x.csv", "--dates", "ymd"},
		{"stages", "import", "x.csv", "--timezone", "Moon"},
		{"stages", "import", "x.csv", "--column", "Stage"},
		{"stages", "exprt"},
		{"stages", "dry-run", "--rules", "x.yaml", "--workspace", "nobody"},
	} {
		code, _, errOut := d.run(args...)
		require.Equal(t, exitUsage, code, "%v: %s", args, errOut)
	}
	code, _, _ := d.run("stages", "import", "none.csv")
	require.Equal(t, exitProblem, code)
	code, _, errOut := d.run("funnel", "--by", "phone")
	require.Equal(t, exitProblem, code)
	require.Contains(t, errOut, "source, campaign, ad, form, answer")
}
