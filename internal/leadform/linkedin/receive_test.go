package linkedin_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/leadform/linkedin"
)

var none *fake

type vector struct {
	Name      string            `json:"name"`
	Secret    string            `json:"secret"`
	Challenge string            `json:"challengeCode"`
	Response  string            `json:"expected_challengeResponse"`
	Body      string            `json:"body"`
	Header    map[string]string `json:"header"`
}

func vectors(t *testing.T) (challenge, event vector) {
	t.Helper()
	raw, err := os.ReadFile("testdata/signatures.json")
	require.NoError(t, err)
	var list []vector
	require.NoError(t, json.Unmarshal(raw, &list))
	require.Len(t, list, 2)
	return list[0], list[1]
}

func TestChallenge(t *testing.T) {
	t.Parallel()
	v, _ := vectors(t)
	raw, err := os.ReadFile("testdata/linkedin-challenge-request.txt")
	require.NoError(t, err)
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
	require.NoError(t, err)
	k := linkedin.New(linkedin.Config{})
	got := k.Receive(leadform.Request{Method: r.Method, Query: r.URL.Query(), Header: r.Header}, none.source(nil), time.Now())
	require.Equal(t, 200, got.Answer.Status)
	require.Equal(t, "application/json", got.Answer.ContentType)
	require.Equal(t, string(sample(t, "linkedin-challenge-response.json")), string(got.Answer.Body))
	require.Contains(t, string(got.Answer.Body), v.Response)
	require.Empty(t, got.Notices)

	// Anything but a UUID would make us sign events for whoever asks.
	event := `hmacsha256={"type":"LEAD_ACTION"}`
	for _, code := range []string{
		"", event, strings.ToUpper(v.Challenge), v.Challenge + "\n", " " + v.Challenge, v.Challenge[1:], v.Challenge + "0",
		strings.ReplaceAll(v.Challenge, "-", ""), "g90e4665-4dfe-4ab1-b689-ed553bceeed0", v.Challenge + event,
	} {
		req := get("")
		req.Query.Set("challengeCode", code)
		got := k.Receive(req, none.source(nil), time.Now())
		require.Equal(t, leadform.Received{Answer: leadform.Answer{Status: 403, Body: got.Answer.Body}}, got)
		require.NotContains(t, string(got.Answer.Body), sign("", []byte(code)))
	}
	got = k.Receive(get("challengeCode="+v.Challenge), none.source(map[string]string{"client_secret": ""}), time.Now())
	require.Equal(t, 403, got.Answer.Status)
	require.Equal(t, 405, k.Receive(leadform.Request{Method: http.MethodPut}, none.source(nil), time.Now()).Answer.Status)
}

func TestSignature(t *testing.T) {
	t.Parallel()
	_, v := vectors(t)
	k := linkedin.New(linkedin.Config{})
	signature := v.Header["X-LI-Signature"]
	for _, s := range []string{signature, "hmacsha256=" + signature, strings.ToUpper(signature)} {
		got := k.Receive(post([]byte(v.Body), s), none.source(nil), time.Now())
		require.Equal(t, 200, got.Answer.Status)
		require.Len(t, got.Notices, 1)
	}
	refused := func(body, signature string) {
		t.Helper()
		got := k.Receive(post([]byte(body), signature), none.source(nil), time.Now())
		require.Equal(t, leadform.Received{Answer: leadform.Answer{Status: 401, Body: got.Answer.Body}}, got)
	}
	for i := range v.Body {
		b := []byte(v.Body)
		b[i] ^= 1
		refused(string(b), signature)
	}
	for _, wrong := range []string{"", "zz", signature[2:], signature + "00", "hmacsha256=", sign("", []byte(v.Body))} {
		refused(v.Body, wrong)
	}
	got := k.Receive(post([]byte(v.Body), signature), none.source(map[string]string{"client_secret": ""}), time.Now())
	require.Equal(t, 401, got.Answer.Status)
}

func TestNotices(t *testing.T) {
	t.Parallel()
	k := linkedin.New(linkedin.Config{})
	n := deliver(t, k, none.source(nil), sample(t, "linkedin-notification.json"))
	require.Equal(t, []leadform.Notice{{Key: sampleID, Body: []byte(`{"id":"` + sampleID + `","occurred_at":"1795000000000"}`)}}, n)
	n = deliver(t, k, none.source(nil), sample(t, "linkedin-notification-deleted.json"))
	require.Equal(t, []leadform.Notice{{Key: sampleID, Deleted: true, Body: []byte(`{"id":"` + sampleID + `","occurred_at":"1795086400000"}`)}}, n)

	created := string(sample(t, "linkedin-notification.json"))
	for name, body := range map[string]string{
		"another type":   strings.ReplaceAll(created, "LEAD_ACTION", "ORGANIZATION_SOCIAL_ACTION"),
		"another action": strings.ReplaceAll(created, "CREATED", "UPDATED"),
		"no URN":         strings.ReplaceAll(created, "urn:li:leadGenFormResponse:", ""),
		"a path":         strings.ReplaceAll(created, sampleID, "../../rest/me"),
		"no JSON":        "not json",
		"a list":         "[]",
		"nothing":        "",
	} {
		require.Empty(t, deliver(t, k, none.source(nil), []byte(body)), name)
	}
}

func FuzzReceive(f *testing.F) {
	f.Add([]byte(`{"type":"LEAD_ACTION","leadAction":"CREATED","leadGenFormResponse":"urn:li:leadGenFormResponse:1-6","occurredAt":1}`), "00", "890e4665-4dfe-4ab1-b689-ed553bceeed0")
	f.Add([]byte(`{"type":[]}`), "hmacsha256=zz", "")
	k, s := linkedin.New(linkedin.Config{}), none.source(nil)
	f.Fuzz(func(t *testing.T, body []byte, signature, code string) {
		right := sign("hmacsha256=", body)
		if !strings.EqualFold(strings.TrimPrefix(signature, "hmacsha256="), right) {
			got := k.Receive(post(body, signature), s, time.Time{})
			require.Equal(t, leadform.Received{Answer: got.Answer}, got)
			require.GreaterOrEqual(t, got.Answer.Status, 401)
		}
		got := k.Receive(post(body, right), s, time.Time{})
		require.Equal(t, 200, got.Answer.Status)
		for _, n := range got.Notices {
			require.NotEmpty(t, n.Key)
			require.True(t, json.Valid(n.Body))
		}
		r := get("")
		r.Query.Set("challengeCode", code)
		if a := k.Receive(r, s, time.Time{}).Answer; a.Status == 200 {
			require.Len(t, code, 36)
		}
	})
}
