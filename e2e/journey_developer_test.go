package e2e_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A developer without Meta access: one file, no configuration, the printed key and
// the printed curl.
func TestJourneyDeveloper(t *testing.T) {
	t.Parallel()
	began := time.Now()
	dir := folder(t)
	p := launch(t, dir, nil, "serve", "--listen", "127.0.0.1:0")
	t.Cleanup(func() {
		if p.running() {
			p.stop(t)
		}
	})
	p.addr = p.said(t, p.errOut, `capiloop is running.* listen=(\S+)`)
	body := p.said(t, p.out, `-d '(\{.*\})'`)
	kind := "application/x-www-form-urlencoded" // what curl says if it is not told otherwise
	if m := regexp.MustCompile(`-H 'Content-Type: ([^']+)'`).FindStringSubmatch(p.out.String()); m != nil {
		kind = m[1]
	}
	address, key := p.said(t, p.out, `curl (http://\S+)`), p.said(t, p.out, `Authorization: Bearer ([^']+)'`)
	require.Equal(t, "http://"+p.addr+"/v1/events", address)
	require.NotContains(t, p.errOut.String(), key, "the key is printed once and not logged")

	d := developer{t, key, kind}
	status, sent := d.do("POST", address, body, "Idempotency-Key", "form-1")
	require.Equal(t, http.StatusAccepted, status, "%v", sent)
	require.Less(t, time.Since(began), 2*time.Minute)
	first := sent["events"].([]any)[0].(map[string]any)
	link := first["url"].(string)
	if strings.HasPrefix(link, "/") {
		link = "http://" + p.addr + link
	}
	var life map[string]any
	for asked := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if status, life = d.do("GET", link, ""); status == http.StatusOK && life["state"] == "sent" {
			break
		}
		require.Less(t, time.Since(asked), 5*time.Second, "%d %v", status, life)
	}
	delivery := life["deliveries"].([]any)[0].(map[string]any)
	require.Equal(t, "sandbox", delivery["destination"])
	require.NotEmpty(t, delivery["fbtrace_id"])
	require.Contains(t, delivery["payload"].(map[string]any)["user_data"], "em")

	// The same key of the same request: the same answer, no second event.
	again, repeated := d.do("POST", address, body, "Idempotency-Key", "form-1")
	require.Equal(t, sent, repeated)
	require.Contains(t, []int{http.StatusOK, http.StatusAccepted}, again)
	other, conflict := d.do("POST", address, strings.Replace(body, "jane@", "joe@", 1), "Idempotency-Key", "form-1")
	require.Equal(t, http.StatusConflict, other, "%v", conflict)
	_, book := d.do("GET", "http://"+p.addr+"/v1/ledger", "")
	require.InDelta(t, 1, book["received"], 0)
	require.InDelta(t, 0, book["unexplained"], 0)

	// A bad body is told what is wrong, where, and what would be right.
	status, bad := d.do("POST", address, strings.Replace(body, `"user_data"`, `"event_time":"yesterday","user_data"`, 1))
	require.Equal(t, http.StatusUnprocessableEntity, status)
	wrong := bad["error"].(map[string]any)
	require.Equal(t, "event_time", wrong["field"])
	require.NotEmpty(t, wrong["message"])
	require.Contains(t, wrong["fix"], "1", "an example of a right time")
	status, bad = d.do("POST", address, body[:len(body)-1])
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, bad["error"].(map[string]any)["message"], "column")
	p.stop(t)

	// The second start knows the key and makes no other.
	p2 := launch(t, dir, nil, "serve", "--listen", "127.0.0.1:0")
	p2.addr = p2.said(t, p2.errOut, `capiloop is running.* listen=(\S+)`)
	status, book = d.do("GET", "http://"+p2.addr+"/v1/ledger", "")
	require.Equal(t, http.StatusOK, status)
	require.InDelta(t, 1, book["sent"], 0)
	p2.stop(t)
	require.Empty(t, p2.out.String())
	for _, said := range []string{p.errOut.String(), p2.errOut.String()} {
		require.NotRegexp(t, `jane@|@example\.com`, said)
	}
}

// developer is somebody with a key and curl.
type developer struct {
	t    *testing.T
	key  string
	kind string // Content-Type
}

func (d developer) do(method, address, body string, headers ...string) (int, map[string]any) {
	d.t.Helper()
	q, err := http.NewRequest(method, address, bytes.NewReader([]byte(body)))
	require.NoError(d.t, err)
	q.Header.Set("Authorization", "Bearer "+d.key)
	q.Header.Set("Content-Type", d.kind)
	for i := 0; i+1 < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	res, err := patient.Do(q)
	require.NoError(d.t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(d.t, err)
	var answer map[string]any
	require.NoError(d.t, json.Unmarshal(b, &answer), "%s", b)
	return res.StatusCode, answer
}
