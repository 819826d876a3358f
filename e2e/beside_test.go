package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

// send: JSON lines and CSV, wrong lines among them, the same file twice.
func TestSendCommand(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	now := r.clock.Now().Unix()
	write := func(name, text string) string {
		path := filepath.Join(r.home, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	send := func(args ...string) result {
		return r.run(t, append([]string{"send", "--url", r.url(), "--key", apiKey}, args...)...)
	}
	var lines strings.Builder
	for i := range 250 {
		fmt.Fprintf(&lines, `{"event_name":"Lead","event_time":%d,"event_id":"j%d","action_source":"chat","user_data":{"em":"j%d%s"}}`+"\r\n", now, i, i, rawDomain)
	}
	jsonl := write("events.jsonl", "\uFEFF"+lines.String()+"\nnot JSON\n[1]\n"+`{"event_name":"Purchase","action_source":"website","user_data":{"em":"x`+rawDomain+`"}}`+"\n")
	first := send(jsonl)
	require.Equal(t, 1, first.code)
	require.Equal(t, "250 accepted, 0 duplicates, 1 rejected, 2 lines unreadable\n", first.out)
	require.Contains(t, first.errOut, "line 252: ")
	require.Contains(t, first.errOut, "line 253: ")
	require.Contains(t, first.errOut, "line 254: custom_data.value")
	again := send(jsonl, "--batch", "1000")
	require.Equal(t, "0 accepted, 250 duplicates, 1 rejected, 2 lines unreadable\n", again.out)

	csv := write("sales.csv", "\uFEFFEvent_Name;event_time;event_id;action_source;em;ph;value;currency;order_id;shop\r\n"+
		fmt.Sprintf("Purchase;%d;c1;physical_store;c1%s;\"+7 701 555-01-42\";\"1234.50\";EUR;o1;\"North; old town\"\r\n", now, rawDomain)+
		fmt.Sprintf("Purchase;%d;c2;physical_store;c2%s;;;;o2;\r\n", now, rawDomain)+ // no value
		fmt.Sprintf("Lead;%d;c3;physical_store;c3%s;;;;;a;b;too many\r\n", now, rawDomain))
	table := send(csv)
	require.Equal(t, 1, table.code, table.errOut)
	require.Contains(t, table.errOut, "line 4: the row has")
	require.Equal(t, 1, strings.Count(table.out, "\n"))
	r.drained(t, 10*time.Second)
	var sale struct {
		Custom map[string]any `json:"custom_data"`
	}
	require.NoError(t, json.Unmarshal(kept(r, "c1"), &sale), "%s", table.out+table.errOut)
	require.InDelta(t, 1234.5, sale.Custom["value"], 0)
	require.Equal(t, "EUR", sale.Custom["currency"])
	require.Equal(t, "North; old town", sale.Custom["shop"])

	dry := r.run(t, "send", "--dry-run", csv)
	require.NotContains(t, dry.errOut, "key")
	r.seen = &buffer{} // the dry run shows on purpose what would be sent
	require.Equal(t, 1, send(filepath.Join(r.home, "missing.jsonl")).code)
	wrongKey := r.run(t, "send", "--url", r.url(), "--key", "a-key-that-nobody-has-made", jsonl)
	require.Equal(t, 1, wrongKey.code)
	require.Contains(t, wrongKey.errOut, "key")
	b := r.book(t, "")
	require.EqualValues(t, len(r.graph.Kept(datasetA)), b.Sent)
	r.seen = &buffer{} // its lines of CSV hold raw values only in the file of the caller
}

// While the server is away, send waits for it and then goes on.
func TestSendWaitsForTheServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	file := filepath.Join(r.home, "one.jsonl")
	line := fmt.Sprintf(`{"event_name":"Lead","event_time":%d,"event_id":"w1","action_source":"chat","user_data":{"em":"w%s"}}`, r.clock.Now().Unix(), rawDomain)
	require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	address := r.server.Load().addr
	r.stop(t)
	p := launch(t, r.home, r.env(), "send", "--url", "http://"+address, "--key", apiKey, file)
	p.said(t, p.errOut, `(refused; trying again)`)
	s := r.serve(t, "--listen", address)
	s.addr = s.said(t, s.errOut, `capiloop is running.* listen=(\S+)`)
	r.server.Store(s)
	require.Zero(t, p.wait(t, 20*time.Second), p.errOut)
	r.keep(p)
	r.drained(t, 10*time.Second)
	r.heldOnce(t, datasetA, []string{"w1"})
}

// backup beside the running server; the copy in another folder shows the same book.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{datasets: []string{datasetA, datasetB}})
	r.graph.Fault(capitest.Fault{Code: 190, Subcode: 463, Dataset: datasetB})
	r.send(t, r.leads(datasetA, "a", 20)...)
	r.send(t, r.leads(datasetB, "b", 10)...)
	r.eventually(t, 10*time.Second, "it is settled", func() bool {
		b, err := r.tryBook("")
		return err == nil && b.Sent == 20 && b.Held == 10
	})
	copied := filepath.Join(r.home, "restored", "capiloop.db")
	require.NoError(t, os.Mkdir(filepath.Dir(copied), 0o700))
	res := r.run(t, "backup", "restored/capiloop.db") // relative to where the command runs
	require.Zero(t, res.code, res.errOut)
	require.Contains(t, res.out, copied)
	info, err := os.Stat(copied)
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&0o077, "a copy is as private as the original")
	before := r.run(t, "ledger", "--json")
	require.Zero(t, before.code)
	again := r.run(t, "backup", copied)
	require.Equal(t, 1, again.code, "a file is never overwritten")

	r.stop(t)
	key, err := os.ReadFile(filepath.Join(r.data, "master.key")) // the copy that is kept apart from the backups
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(copied), "master.key"), key, 0o600))
	r.data = filepath.Dir(copied)
	require.Equal(t, before.out, r.run(t, "ledger", "--json").out, "without a server, on the copy")
	r.graph.ClearFaults()
	r.start(t)
	r.drained(t, 10*time.Second)
	r.heldOnce(t, datasetB, ids(r.leads(datasetB, "b", 10)))
	require.Empty(t, r.graph.Twice(), "what the original had sent is not sent again")
}

// key, ledger and retry beside the running server.
func TestCommandsBesideTheServer(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, database string) {
		r := newRig(t, setup{database: database})
		made := r.run(t, "key", "website")
		require.Zero(t, made.code, made.errOut)
		key := strings.TrimSpace(made.out)
		require.GreaterOrEqual(t, len(key), 20)
		status, body := 0, []byte(nil)
		r.eventually(t, 10*time.Second, "the new key opens", func() bool {
			status, body = r.request(t, http.MethodPost, "/v1/events", bodyOf(t, r.lead(datasetA, "by-key")), "Authorization", "Bearer "+key)
			return status == http.StatusAccepted
		})
		require.NotContains(t, string(body), key)

		r.graph.Fault(capitest.Fault{Mode: capitest.ModePoison, Code: 100, Subcode: 2804036, EventID: "bad"})
		r.send(t, r.lead(datasetA, "bad"), r.lead(datasetA, "good"))
		r.drained(t, 20*time.Second)
		require.EqualValues(t, 1, r.book(t, "").by("failed", "refused"))
		shown := r.run(t, "ledger")
		require.Contains(t, shown.out, "3 received = 2 sent + 0 waiting + 0 held + 0 skipped + 1 failed   (0 unexplained)")
		require.Contains(t, shown.out, "refused")
		r.graph.ClearFaults()
		retried := r.run(t, "retry", "--reason", "refused")
		require.Zero(t, retried.code, retried.errOut)
		require.Contains(t, retried.out, "Queued 1 failed events again.")
		r.drained(t, 20*time.Second)
		r.heldOnce(t, datasetA, []string{"by-key", "bad", "good"})
		require.EqualValues(t, 3, r.book(t, "").Sent)

		r.graph.Fault(capitest.Fault{Code: 190})
		r.send(t, r.lead(datasetA, "later"))
		r.eventually(t, 20*time.Second, "it is held", func() bool { return r.book(t, "").Held == 1 })
		r.graph.ClearFaults()
		now := r.run(t, "retry", "--now", "--destination", datasetA)
		require.Zero(t, now.code, now.errOut)
		r.drained(t, 10*time.Second) // the next probe would come after 30 s

		unknown := r.run(t, "retry", "--now", "--destination", "404")
		require.Equal(t, 1, unknown.code)
		require.Contains(t, unknown.errOut, "404")
		r.stop(t)
		require.Contains(t, r.run(t, "ledger").out, "4 received = 4 sent", "without a server")
	})
}
