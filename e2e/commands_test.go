package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

func TestVersionAndHelp(t *testing.T) {
	t.Parallel()
	v := command(t, t.TempDir(), nil, "version")
	require.Zero(t, v.code)
	require.Regexp(t, `^capiloop e2e \(go1\.\d+.*SQLite driver v\d.*\)\n$`, v.out)
	require.Empty(t, v.errOut)
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}, {}} {
		h := command(t, t.TempDir(), nil, args...)
		require.Zero(t, h.code, args)
		require.Contains(t, h.out, "capiloop serve")
	}
}

// Wrong usage is exit code 2, with what would be right.
func TestWrongUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"serve", "--lisen", ":1"}, "unknown flag: --lisen"},
		{[]string{"sevre"}, `unknown command "sevre"`},
		{[]string{"serve", "extra"}, "unknown command"},
		{[]string{"serve", "--listen", "nowhere"}, "--listen"},
		{[]string{"serve", "--listen", "127.0.0.1:99999"}, "--listen"},
		{[]string{"serve", "--test-clock", "soon"}, "--test-clock is AHEAD,SPEED"},
		{[]string{"serve", "--log-level", "loud"}, "--log-level"},
		{[]string{"serve", "--log-format", "xml"}, "--log-format"},
		{[]string{"serve", "--public-url", "shop"}, "--public-url"},
		{[]string{"serve", "--database", "mysql://x"}, "--database"},
		{[]string{"send"}, "capiloop send events.jsonl"},
		{[]string{"send", "x.jsonl"}, "needs an API key"},
		{[]string{"send", "x.jsonl", "--key", "k", "--batch", "0"}, "--batch"},
		{[]string{"hash", "em"}, "pairs of key and value"},
		{[]string{"backup"}, "capiloop backup"},
		{[]string{"retry", "--held", "--drop"}, "give one of the two"},
		{[]string{"retry", "--now"}, "--now needs --destination"},
		{[]string{"demo", "--listen", "0.0.0.0:0"}, "this machine only"},
	} {
		r := command(t, dir, nil, c.args...)
		require.Equal(t, 2, r.code, "%v: %s%s", c.args, r.out, r.errOut)
		require.Contains(t, r.errOut, c.says, "%v", c.args)
		require.Contains(t, r.errOut, "--help", "%v", c.args)
	}
	v := command(t, dir, []string{"CAPILOOP_LISTEN=nowhere"}, "serve")
	require.Equal(t, 2, v.code)
}

// A configuration that is wrong is exit code 1: everything wrong with it at once, with
// line and column, and no secret.
func TestServeWithABadConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, c := range map[string]struct {
		file string
		says []string
	}{
		"unknown key":  {"lisen: 127.0.0.1:1\n", []string{"lisen", ":1:1"}},
		"not set":      {"workspaces:\n  - name: a\n    datasets: [{id: \"1\", token: \"${E2E_NOT_SET}\"}]\n", []string{"E2E_NOT_SET", ":3:"}},
		"no YAML":      {"listen: [\n", []string{"bad.yaml"}},
		"twice":        {"workspaces:\n  - name: a\n    datasets: [{id: \"1\", token: x}, {id: \"1\", token: x}]\n", []string{"1"}},
		"plain http":   {"graph: {url: http://graph.example.com}\n", []string{"https://"}},
		"not loopback": {"workspaces:\n  - name: a\n    datasets: [{id: x1, token: " + metaToken + "}]\n    colour: red\n", []string{"id", "colour"}},
		"empty token":  {"workspaces:\n  - name: a\n    datasets: [{id: \"1\"}]\n", []string{"token"}},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "bad.yaml"), []byte(c.file), 0o600))
		r := command(t, dir, nil, "serve", "--config", "bad.yaml", "--listen", "127.0.0.1:0")
		require.Equal(t, 1, r.code, "%s: %s%s", name, r.out, r.errOut)
		for _, s := range c.says {
			require.Contains(t, r.errOut, s, name)
		}
		require.NotContains(t, r.errOut, metaToken)
		require.NotContains(t, r.errOut, "goroutine")
	}
	r := command(t, dir, nil, "serve", "--config", "missing.yaml")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "missing.yaml")
	require.NoDirExists(t, filepath.Join(dir, "data"), "nothing was made for a server that did not start")
}

func TestServeSaysWhyItCannotStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	address := r.server.Load().addr
	taken := command(t, r.home, nil, "serve", "--data", filepath.Join(r.home, "other"), "--listen", address)
	require.Equal(t, 1, taken.code)
	require.Contains(t, taken.errOut, address)
	require.Contains(t, taken.errOut, "--listen")

	graph := command(t, r.home, append(r.env(), "SHOP=x"), "serve", "--config", r.config, "--data", r.data)
	require.Equal(t, 1, graph.code, "the folder is in use")

	require.NoError(t, os.WriteFile(filepath.Join(r.home, "real.yaml"), []byte("workspaces:\n  - name: a\n    datasets: [{id: \"1\", token: x}]\n"), 0o600))
	guarded := command(t, r.home, nil, "serve", "--config", "real.yaml", "--data", filepath.Join(r.home, "third"), "--test-clock", "0s,60", "--listen", "127.0.0.1:0")
	require.Equal(t, 1, guarded.code)
	require.Contains(t, guarded.errOut, "real Graph")

	file := filepath.Join(r.home, "a-file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	blocked := command(t, r.home, nil, "serve", "--data", file, "--listen", "127.0.0.1:0")
	require.Equal(t, 1, blocked.code)
	require.Contains(t, blocked.errOut, "a-file")

	deep := filepath.Join(r.home, strings.Repeat("deep/", 30))
	long := command(t, r.home, nil, "serve", "--data", deep, "--listen", "127.0.0.1:0")
	require.Equal(t, 1, long.code)
	require.Contains(t, long.errOut, "shorter --data folder")

	pg := command(t, r.home, []string{"CAPILOOP_DATABASE=postgres://someone:passwordnobodysees@127.0.0.1:1/x"}, "serve", "--listen", "127.0.0.1:0")
	require.Equal(t, 1, pg.code)
	require.Contains(t, pg.errOut, "127.0.0.1:1")
	require.NotContains(t, pg.errOut, "passwordnobodysees")
}

// Every flag is also an environment variable; the flag wins.
func TestFlagsFromTheEnvironment(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	data := filepath.Join(dir, "elsewhere")
	p := launch(t, dir, []string{"CAPILOOP_LISTEN=127.0.0.1:0", "CAPILOOP_DATA=" + data, "CAPILOOP_LOG_FORMAT=xml"}, "serve", "--log-format", "json")
	p.said(t, p.errOut, `"listen":"(127\.0\.0\.1:[1-9]\d*)"`)
	require.FileExists(t, filepath.Join(data, "capiloop.db"))
	require.NoDirExists(t, filepath.Join(dir, "data"))
	for _, name := range []string{"capiloop.db", "capiloop.sock"} {
		info, err := os.Stat(filepath.Join(data, name))
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, "%s is private", name)
	}
	p.stop(t)
	for line := range strings.Lines(p.errOut.String()) {
		require.True(t, json.Valid([]byte(line)), line)
	}
}

func TestHash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct{ args, hash string }{
		{"em|  Jane.DOE@Example.COM ", "86e0b9e56c17cc4d12387e"},
		{"ph|+44 (0)7700 900123", "033134b911b13"},
		{"ph|1.650.555.0142", "0910de91464a01"},
		{"external_id|123", "a665a45920422f9d417e4867efdc4fb8a04a1f3fff1fa07e998e86f7f7a27ae3"},
		{"em|8C87B489CE35CF2E2F39F80E282CB2E804932A56A213983EEEB428407D43B52D", "8c87b489ce35cf2e2f39f80e282cb2e804932a56a213983eeeb428407d43b52d"},
	} {
		args := append([]string{"hash"}, strings.Split(c.args, "|")...)
		r := command(t, dir, nil, append(args, "--country", "US")...)
		require.Zero(t, r.code, "%v: %s", args, r.errOut)
		require.Contains(t, r.out, c.hash)
	}
	bad := command(t, dir, nil, "hash", "--json", "em", "not an address", "ph", "0000000", "shoe", "42")
	require.Equal(t, 1, bad.code)
	var lines []struct {
		Key, Problem, Fix string
		Sent              []string
	}
	require.NoError(t, json.Unmarshal([]byte(bad.out), &lines))
	require.Len(t, lines, 3)
	for _, l := range lines {
		require.Empty(t, l.Sent, l.Key)
		require.NotEmpty(t, l.Problem, l.Key)
		require.NotEmpty(t, l.Fix, l.Key)
	}
}

// The sandbox by itself: its page, a fault by HTTP, and a server that sends to it.
func TestSandboxCommand(t *testing.T) {
	t.Parallel()
	p := launch(t, t.TempDir(), nil, "sandbox", "--listen", "127.0.0.1:0")
	base := p.said(t, p.out, `The sandbox is at (http://\S+)/ `)
	read := func(method, path, body string) (int, string) {
		q, err := http.NewRequest(method, base+path, strings.NewReader(body))
		require.NoError(t, err)
		q.Header.Set("Content-Type", "application/json")
		res, err := patient.Do(q)
		require.NoError(t, err)
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(b)
	}
	status, page := read("GET", "/", "")
	require.Equal(t, 200, status)
	require.Contains(t, page, "<html")
	events := `/v26.0/` + datasetA + `/events?access_token=` + metaToken
	body := fmt.Sprintf(`{"data":[{"event_name":"Lead","event_time":%d,"event_id":"s1","action_source":"chat","user_data":{"external_id":"a"}}]}`, time.Now().Unix())
	status, _ = read("POST", "/_sandbox/fault", `{"code":190,"subcode":463,"count":1}`)
	require.Less(t, status, 300)
	status, said := read("POST", events, body)
	require.Equal(t, 400, status)
	require.Contains(t, said, "463")
	status, said = read("POST", events, body)
	require.Equal(t, 200, status, said)
	_, list := read("GET", "/_sandbox/events", "")
	require.Contains(t, list, `"s1"`)
	_, page = read("GET", "/", "")
	require.NotContains(t, said+list+page+p.out.String()+p.errOut.String(), metaToken)
	p.stop(t)
}

// The demo once: the week runs end to end and the book balances.
func TestDemoOnce(t *testing.T) {
	t.Parallel()
	p := launch(t, t.TempDir(), nil, "demo", "--once", "--listen", "127.0.0.1:0", "--sandbox-listen", "127.0.0.1:0")
	require.Zero(t, p.wait(t, 3*time.Minute), p.errOut.String())
	out := p.out.String()
	m := regexp.MustCompile(`(\d+) received = (\d+) sent \+ (\d+) waiting \+ (\d+) held \+ (\d+) skipped \+ (\d+) failed   \((\d+) unexplained\)`).FindStringSubmatch(out)
	require.NotNil(t, m, out)
	var n [7]int
	for i := range n {
		_, err := fmt.Sscan(m[i+1], &n[i])
		require.NoError(t, err)
	}
	require.Equal(t, n[0], n[1]+n[2]+n[3]+n[4]+n[5])
	require.Zero(t, n[6], "unexplained")
	require.Greater(t, n[1], 200, "sent")
	require.Zero(t, n[2], "waiting")
	for _, want := range []string{
		"turned away with a reason", "held     Held for your OK: far more leads moved", "held     Held for your OK: its value", "held     Held for your OK: the lead is called like a test",
		"held     Its time lies in the future", "skipped  Not sent, because the lead came from another platform", "skipped  Not sent, because the person did not agree",
		"failed   It is said to have happened more than ten minutes before the lead", "failed   The destination refused this event", "repeated what went before",
	} {
		require.Contains(t, out, want)
	}
}

// The demo's page is there, without a login and for this machine only.
func TestDemoServesItsPage(t *testing.T) {
	t.Parallel()
	p := launch(t, t.TempDir(), nil, "demo", "--listen", "127.0.0.1:0", "--sandbox-listen", "127.0.0.1:0")
	base := p.said(t, p.out, `What became of each:\s+(http://\S+)`)
	sandbox := p.said(t, p.out, `What the sandbox got:\s+(http://\S+)`)
	res, err := patient.Get(base)
	require.NoError(t, err)
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, 200, res.StatusCode)
	text := regexp.MustCompile(`<[^>]*>|\s+`).ReplaceAllString(string(page), " ")
	require.Regexp(t, `\b0 +unexplained`, strings.Join(strings.Fields(text), " "))
	q, err := http.NewRequest(http.MethodGet, base, nil)
	require.NoError(t, err)
	q.Host = "evil.example.com" // a page elsewhere that points its name at this machine
	rebound, err := patient.Do(q)
	require.NoError(t, err)
	defer rebound.Body.Close()
	require.GreaterOrEqual(t, rebound.StatusCode, 400)
	got, err := patient.Get(sandbox)
	require.NoError(t, err, "the printed address works")
	require.NoError(t, got.Body.Close())
	demoReachesMeta(t, sandbox)
	p.stop(t)
	require.Less(t, bytes.Count([]byte(p.errOut.String()), []byte("\n")), 5, "quiet")
}

// demoReachesMeta waits until the week has brought the stand-in for Meta each of the rules'
// events.
func demoReachesMeta(t *testing.T, sandbox string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		res, err := patient.Get(sandbox + "_sandbox/summary")
		require.NoError(t, err)
		var sum capitest.Summary
		require.NoError(t, json.NewDecoder(res.Body).Decode(&sum))
		require.NoError(t, res.Body.Close())
		kept := map[string]uint64{}
		for _, d := range sum.Datasets {
			for _, n := range d.Names {
				kept[n.EventName] += n.Kept
			}
		}
		if kept["Lead"] > 0 && kept["QualifiedLead"] > 0 && kept["Purchase"] > 0 {
			return
		}
		require.Less(t, time.Since(began), time.Minute, "%v", kept)
	}
}

// The doctor finds what is wrong and says what to do.
func TestDoctor(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{graph: capitest.Options{Tokens: map[string]capitest.Token{metaToken: {}}}})
	well := r.run(t, "doctor")
	require.Zero(t, well.code, well.out+well.errOut)
	require.Contains(t, well.out, "shop / "+datasetA)
	require.NotContains(t, well.out, "FAIL")
	require.Zero(t, r.graph.Requests().Count, "nothing is sent")

	r.graph.SetToken(metaToken, capitest.Token{Expires: time.Now().Add(-time.Hour)})
	sick := r.run(t, "doctor")
	require.Equal(t, 1, sick.code)
	require.Contains(t, sick.out, "FAIL")
	require.Contains(t, sick.out, "→")
	asJSON := r.run(t, "doctor", "--json")
	require.Equal(t, 1, asJSON.code)
	var report struct {
		OK       bool
		Datasets []struct {
			OK     bool
			Checks []struct {
				Name, Sentence string
				OK             bool
				NextStep       string `json:"next_step"`
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(asJSON.out), &report))
	require.False(t, report.OK)
	failed := 0
	for _, c := range report.Datasets[0].Checks {
		if !c.OK {
			failed++
			require.Contains(t, c.Sentence, "expired", c.Name)
			require.NotEmpty(t, c.NextStep, c.Name)
		}
	}
	require.Positive(t, failed)

	r.graph.SetToken(metaToken, capitest.Token{})
	sent := r.run(t, "doctor", "--send-test", "--test-event-code", "TEST123")
	require.Zero(t, sent.code, sent.out+sent.errOut)
	require.Len(t, r.graph.Kept(datasetA), 1)
	require.Equal(t, "TEST123", r.graph.Kept(datasetA)[0].TestEventCode)
	r.stop(t) // the doctor works without a server too
	require.Zero(t, r.run(t, "doctor").code)
}
