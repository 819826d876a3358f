package e2e_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// form is a form of the shop that somebody sends once.
func (s *shop) form(t *testing.T, browser, server string) {
	t.Helper()
	now := s.clock.Now()
	if browser != "" {
		body, err := json.Marshal(event{"v": 1, "site": "tee-and-co", "sent": now.UnixMilli(), "consent": event{"ads": "granted", "by": "site"}, "events": []event{}, "sightings": []event{
			{"n": "look-" + browser, "pixel": datasetA, "event_name": "PageView", "event_id": "", "at": now.UnixMilli() - 900, "url": shopOrigin + "/contact"},
			{"n": "form-" + browser, "pixel": datasetA, "event_name": "Lead", "event_id": browser, "at": now.UnixMilli() - 500, "url": shopOrigin + "/contact"},
		}})
		require.NoError(t, err)
		status, answer := s.request(t, http.MethodPost, "/t", body, "Content-Type", "text/plain;charset=UTF-8", "Origin", shopOrigin, "User-Agent", shopAgent, "X-Forwarded-For", "2a00::7")
		require.Equal(t, http.StatusNoContent, status, "%s", answer)
	}
	if server != "" {
		s.send(t, event{
			"event_name": "Lead", "event_id": server, "event_time": now.Unix(), "action_source": "website", "event_source_url": shopOrigin + "/contact",
			"user_data": event{"em": "buyer1" + rawDomain, "client_ip_address": "2a00::7", "client_user_agent": shopAgent},
		})
	}
}

// Day one: a form is sent once, and both copies are shown side by side.
func TestDedupTest(t *testing.T) {
	t.Parallel()
	s := newShop(t, "sqlite")
	try := func(wait, browser, server string, more ...string) result {
		args := append([]string{"dedup-test", "--url", shopOrigin + "/contact", "--wait", wait}, more...)
		p := launch(t, s.home, append(s.env(), "CAPILOOP_CONFIG="+s.config, "CAPILOOP_DATA="+s.data), args...)
		p.said(t, p.errOut, `send the (form) once`)
		s.form(t, browser, server)
		code := p.wait(t, time.Minute)
		_, _ = s.seen.Write([]byte(p.out.String() + p.errOut.String()))
		return result{code, p.out.String(), p.errOut.String()}
	}
	stamp := strconv.FormatInt(s.clock.Now().UnixMilli(), 10)
	r := try("30s", "one-id-1", "one-id-1")
	require.Zero(t, r.code, r.out+r.errOut)
	require.Contains(t, r.errOut, "source web")
	require.Regexp(t, `id\s+one-id-1 .*\s+one-id-1`, r.out)
	require.Contains(t, r.out, "They pair: Meta counts one.")

	r = try("30s", stamp, "4711", "--event", "Lead")
	require.Equal(t, 1, r.code, r.out+r.errOut)
	require.Regexp(t, `id\s+`+stamp+` \(13-digit time\)\s+4711 \(integer\)`, r.out)
	require.Contains(t, r.out, "They do not pair: different id scheme, 13-digit time vs integer.")
	require.Contains(t, r.out, "What to do: ")

	r = try("3s", "alone", "", "--json")
	require.Equal(t, 1, r.code, r.out+r.errOut)
	var found struct {
		Paired          bool
		Browser, Server *struct{ Event, Kind, Page, Dataset string }
		Sentence        string
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &found))
	require.False(t, found.Paired)
	require.Nil(t, found.Server)
	require.Equal(t, "/contact", found.Browser.Page)
	require.Equal(t, datasetA, found.Browser.Dataset)
	require.Equal(t, "Only the browser's event has come.", found.Sentence)

	r = s.run(t, "dedup-test", "--url", "https://elsewhere.example.com/")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "origins: [https://elsewhere.example.com]")
	require.Equal(t, 2, s.run(t, "dedup-test").code)
	s.stop(t)
	r = s.run(t, "dedup-test", "--url", shopOrigin+"/contact")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "capiloop serve")
}

// Without the tag there is nothing to compare, and what to do is said.
func TestDedupBeforeTheTag(t *testing.T) {
	t.Parallel()
	s := newShop(t, "sqlite")
	r := s.run(t, "dedup")
	require.Zero(t, r.code, r.errOut)
	require.Contains(t, r.out, "capiloop sources")
}
