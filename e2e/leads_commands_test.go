package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

// inFiles stands in the sample files of leads: nobody may see it afterwards.
var inFiles = []string{"ana.lead@example.com", "jose@example.com", "Ana Example", "12025550143"}

// Files of leads in each encoding are read, checked, taken once, as history or as new
// leads; a broken line is named and the others go on; a stopped import goes on.
func TestImportOfLeads(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, database string) {
		l := newLeadRig(t, setup{database: database, private: inFiles})
		files, err := filepath.Glob("testdata/*.csv")
		require.NoError(t, err)
		require.Len(t, files, 7)
		for _, name := range files {
			path, err := filepath.Abs(name)
			require.NoError(t, err)
			res := l.run(t, "import", path, "--dry-run")
			require.Zero(t, res.code, "%s: %s", name, res.errOut)
			require.Contains(t, res.out, ", 0 lines have faults. Nothing was written.", name)
			require.NotContains(t, res.out, "0 leads can be read", name)
		}
		require.Contains(t, l.run(t, "leads").out, "There are no leads yet.")
		for _, name := range files {
			path, err := filepath.Abs(name)
			require.NoError(t, err)
			res := l.run(t, "import", path)
			require.Zero(t, res.code, "%s: %s", name, res.errOut)
			t.Log(filepath.Base(name), res.out)
			res = l.run(t, "import", path)
			require.Zero(t, res.code, "%s: %s", name, res.errOut)
			require.Contains(t, res.out, " 0 new,", "%s is taken a second time", name)
		}
		for _, lead := range l.list(t) {
			require.True(t, lead.History, "%+v", lead)
		}
		l.faultyLines(t)
		l.stoppedImport(t)
		require.Empty(t, l.crm.taken(), "history is not carried into the CRM")
		l.liveImport(t)
	})
}

func (l *leadRig) list(t *testing.T) (list []leadView) {
	t.Helper()
	res := l.run(t, "leads", "--json", "--limit", "500")
	require.Zero(t, res.code, res.errOut)
	require.NoError(t, json.Unmarshal([]byte(res.out), &list))
	return list
}

// file writes leads as Meta exports them.
func (l *leadRig) file(t *testing.T, name string, people []person, created string, more ...string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("id,created_time,form_id,full_name,phone_number,email,budget\n")
	for _, p := range people {
		fmt.Fprintf(&b, "l:%s,%s,f:200000000000002,%s,p:%s,%s,%q\n", p.id, created, p.name, p.phone, p.email, p.answer)
	}
	b.WriteString(strings.Join(more, ""))
	path := filepath.Join(l.home, name)
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	t.Cleanup(func() { _ = os.Remove(path) })
	return path
}

func (l *leadRig) faultyLines(t *testing.T) {
	t.Helper()
	good := []person{somebody(7001), somebody(7002)}
	path := l.file(t, "faulty.csv", good, "2026-11-18T14:06:37+03:00", "l:987650000077777,some day,f:1,"+rawName+",p:+77015550000,x"+rawDomain+",1\n")
	for _, args := range [][]string{{"--dry-run"}, nil} {
		res := l.run(t, append([]string{"import", path}, args...)...)
		require.Equal(t, 1, res.code, "%s%s", res.out, res.errOut)
		require.Contains(t, res.errOut, "4", "the line is named")
		require.Contains(t, res.out, "2 leads ")
		require.Contains(t, res.out, "1 lines have faults")
	}
	res := l.run(t, "import", filepath.Join(l.home, "none.csv"))
	require.Equal(t, 1, res.code)
}

// stoppedImport kills an import in its middle; the next goes on there.
func (l *leadRig) stoppedImport(t *testing.T) {
	t.Helper()
	var people []person
	for n := range 3000 {
		people = append(people, somebody(10000+n))
	}
	path := l.file(t, "many.csv", people, "2026-11-18T14:06:37+03:00")
	mark := filepath.Join(l.data, "import-many.csv.mark")
	p := launch(t, l.home, append(l.env(), "CAPILOOP_CONFIG="+l.config, "CAPILOOP_DATA="+l.data), "import", path)
	for {
		if _, err := os.Stat(mark); err == nil || !p.running() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	require.True(t, p.running(), "the import was over before it could be killed: %s%s", p.out, p.errOut)
	p.kill()
	res := l.run(t, "import", path)
	require.Zero(t, res.code, res.errOut)
	require.Contains(t, res.errOut, "Going on after line ")
	require.NoFileExists(t, mark)
	res = l.run(t, "import", path, "--from-start")
	require.Contains(t, res.out, "3000 leads read: 0 new, 3000 known already", res.errOut)
}

// liveImport has new leads carried into the CRM.
func (l *leadRig) liveImport(t *testing.T) {
	t.Helper()
	people := []person{somebody(7101), somebody(7102), somebody(7103)}
	path := l.file(t, "live.csv", people, time.Now().UTC().Format(time.RFC3339))
	res := l.run(t, "import", path, "--live")
	require.Zero(t, res.code, res.errOut)
	require.Contains(t, res.out, "3 leads read: 3 new")
	l.arrived(t, 3, 30*time.Second)
	l.once(t, people)
}

// What a server knows of leads outlives a kill, a restart and another master key: what
// waited for the CRM is read and carried there.
func TestLeadsOutliveKillAndKey(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, database string) {
		l := newLeadRig(t, setup{database: database})
		l.crm.behave(0, always("down"))
		var people []person
		for n := range 6 {
			p := somebody(n)
			people = append(people, p)
			require.NoError(t, []func(*testing.T, person) error{l.google, l.tiktok, l.website, l.api}[n%4](t, p))
		}
		if database == "sqlite" { // on PostgreSQL the nodes have the key from their environment
			l.newMasterKey(t)
		}
		was := l.list(t)
		require.Len(t, was, len(people))
		l.kill()
		if database == "postgres" {
			l.clock.set(1, 91*time.Second)
		}
		l.start(t)
		now := l.list(t)
		require.Len(t, now, len(was))
		for i := range was {
			require.Equal(t, was[i].ID, now[i].ID)
			require.Equal(t, "waiting", now[i].State)
		}
		l.crm.behave(0, nil)
		l.stop(t)
		l.clock.set(1, 30*time.Minute) // the CRM's turn has come
		l.start(t)
		l.arrived(t, len(people), 60*time.Second)
		l.once(t, people)
	})
}

func (l *leadRig) newMasterKey(t *testing.T) {
	t.Helper()
	before, err := os.ReadFile(filepath.Join(l.data, "master.key"))
	require.NoError(t, err)
	res := l.run(t, "rotate-key")
	require.Zero(t, res.code, res.errOut)
	after, err := os.ReadFile(filepath.Join(l.data, "master.key"))
	require.NoError(t, err)
	require.NotEqual(t, string(before), string(after))
	info, err := os.Stat(filepath.Join(l.data, "master.key"))
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
	require.NotContains(t, l.seen.String(), strings.TrimSpace(string(after)))
}

// Leads from before the connection are read as history, and never in the CRM; the
// addresses of the sources can be looked up; doctor looks sources and CRMs over.
func TestLeadSourcesAndDoctor(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, database string) {
		pages := map[string]capitest.Page{pageID: {Name: "Avto-Start", Subscribed: true}}
		l := newLeadRig(t, setup{database: database, graph: capitest.Options{Pages: pages}})
		for n := range 30 {
			l.meta(somebody(n), time.Now().AddDate(0, 0, -n-1))
		}
		res := l.run(t, "backfill", "forms", "--days", "20")
		require.Zero(t, res.code, res.errOut)
		require.Contains(t, res.out, " new, 0 known already.")
		first := len(l.list(t))
		require.InDelta(t, 20, first, 1)
		res = l.run(t, "backfill", "forms", "--days", "90")
		require.Zero(t, res.code, res.errOut)
		require.Contains(t, res.out, fmt.Sprintf("30 leads read: %d new, %d known already.", 30-first, first))
		for _, lead := range l.list(t) {
			require.True(t, lead.History)
		}
		require.Equal(t, 1, l.run(t, "backfill", "nothing").code)
		require.Equal(t, 2, l.run(t, "backfill", "forms", "--days", "91").code)

		res = l.run(t, "sources")
		require.Zero(t, res.code, res.errOut)
		for _, key := range []string{metaHook, googleHook, tiktokHook, linkedinHook, siteHook} {
			require.Contains(t, res.out, "/webhooks/"+key)
		}
		require.NoError(t, l.google(t, somebody(100)))
		l.arrived(t, 1, 20*time.Second)
		require.Contains(t, l.run(t, "sources").out, "last seen")
		l.doctor(t)
		require.Len(t, l.crm.taken(), 1, "history, and what doctor does, is not carried into the CRM")
	})
}

func (l *leadRig) doctor(t *testing.T) {
	t.Helper()
	res := l.run(t, "doctor", "--json")
	var report struct {
		OK          bool
		Connections []struct {
			What, Name, Kind string
			Checks           []struct {
				Name, Sentence string
				OK, Warning    bool
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(res.out), &report), res.errOut)
	found := make(map[string]bool)
	for _, c := range report.Connections {
		found[c.What+" "+c.Name] = true
		for _, check := range c.Checks {
			if c.Name == "forms" || c.Name == "crm" {
				require.True(t, check.OK || check.Warning, "%s %s: %s", c.Name, check.Name, check.Sentence)
			}
		}
	}
	for _, want := range []string{"source forms", "source google", "source tiktok", "source site", "crm crm"} {
		require.True(t, found[want], "%s is not looked over: %v", want, found)
	}
	l.graph.Fault(capitest.Fault{Code: 190, Count: 100})
	res = l.run(t, "doctor")
	require.Equal(t, 1, res.code, res.out)
	require.Contains(t, res.out, "FAIL")
	require.Contains(t, res.out, "→")
	l.graph.ClearFaults()
}
