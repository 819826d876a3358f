package capi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	testToken  = "SYNTHETICTOKEN/with|parts"
	testSecret = "test_app_secret"
)

var oneEvent = Batch{Events: []json.RawMessage{json.RawMessage(`{"event_name":"Lead"}`)}}

// graphServer answers every request by handle.
func graphServer(t *testing.T, handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return s
}

func clientFor(t *testing.T, s *httptest.Server) *Client {
	t.Helper()
	c, err := NewClient(Config{BaseURL: s.URL, Token: testToken, AppSecret: testSecret, HTTPClient: s.Client()})
	require.NoError(t, err)
	return c
}

func sendFails(t *testing.T, c *Client) *APIError {
	t.Helper()
	_, err := c.Send(t.Context(), "123", oneEvent)
	var e *APIError
	require.ErrorAs(t, err, &e)
	return e
}

func TestSendRequest(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	s := graphServer(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("X-App-Usage", `{"call_count":28,"total_time":25,"total_cputime":25}`)
		w.Header().Set("Date", "Mon, 30 Nov 2026 20:00:00 GMT")
		_, _ = io.WriteString(w, `{"events_received":2,"messages":["odd",{"a":1}],"fbtrace_id":"TRACE"}`)
	})
	c := clientFor(t, s)
	payload := `{"event_name":"Lead", "user_data":{"lead_id":12345678901234567}}` // the blank must survive
	result, err := c.Send(t.Context(), "123", Batch{
		Events:        []json.RawMessage{json.RawMessage(payload), json.RawMessage(`{}`)},
		TestEventCode: `TEST"1`, PartnerAgent: "capiloop", UploadTag: "tag",
	})
	require.NoError(t, err)
	require.Equal(t, Result{
		EventsReceived: 2, Messages: []string{"odd", `{"a":1}`}, FBTraceID: "TRACE", Usage: Usage{Percent: 28},
		Date: time.Date(2026, 11, 30, 20, 0, 0, 0, time.UTC),
	}, result)
	require.Equal(t, "/v26.0/123/events", got.URL.String())
	require.Equal(t, http.MethodPost, got.Method)
	require.Equal(t, "Bearer "+testToken, got.Header.Get("Authorization"))
	require.Equal(t, "application/json", got.Header.Get("Content-Type"))
	proof := newKeys(testToken, testSecret).proof
	require.Equal(t, `{"data":[`+payload+`,{}],"partner_agent":"capiloop","test_event_code":"TEST\"1","upload_tag":"tag","appsecret_proof":"`+proof+`"}`, string(body))
	require.True(t, json.Valid(body))
	require.NotContains(t, string(body), "SYNTHETICTOKEN")
}

func TestSendTellsFewerEventsReceived(t *testing.T) { // C179
	t.Parallel()
	s := graphServer(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"events_received":2,"messages":[],"fbtrace_id":"synthetic"}`)
	})
	b := Batch{Events: []json.RawMessage{[]byte(`{}`), []byte(`{}`), []byte(`{}`)}}
	result, err := clientFor(t, s).Send(t.Context(), "1", b)
	require.NoError(t, err)
	require.Equal(t, 2, result.EventsReceived)
}

func TestSendRefusesWrongBatches(t *testing.T) { // C178
	t.Parallel()
	s := graphServer(t, func(http.ResponseWriter, *http.Request) { t.Error("a request left") })
	c := clientFor(t, s)
	_, err := c.Send(t.Context(), "1", Batch{})
	require.ErrorIs(t, err, ErrBatchSize)
	_, err = c.Send(t.Context(), "1", Batch{Events: make([]json.RawMessage, 1001)})
	require.ErrorIs(t, err, ErrBatchSize)
	for _, id := range []string{"", "1/../2", "act", "1?x=1", "_1"} {
		_, err = c.Send(t.Context(), id, oneEvent)
		var e *APIError
		require.ErrorAs(t, err, &e, id)
		require.Equal(t, ClassAccess, e.Class)
	}
}

func TestAppSecretProof(t *testing.T) { // C191
	t.Parallel()
	require.Equal(t, "73132d3f623ebc21abcb96fdf09ba23f45f71bc7c6c834bea84fb1c06aab0ace",
		newKeys("SYNTHETICTOKEN", "test_app_secret").proof)
	require.Empty(t, newKeys("SYNTHETICTOKEN", "").proof)
	require.NotContains(t, string(oneEvent.body("")), "proof")
}

func TestNewClientRefusesSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"no token":          {},
		"token with break":  {Token: "EAA\nB"},
		"token not ASCII":   {Token: "EAÄ"},
		"base without host": {Token: "T", BaseURL: "graph.facebook.com"},
		"base with query":   {Token: "T", BaseURL: "https://graph.facebook.com/?a=b"},
		"base with user":    {Token: "T", BaseURL: "https://u:p@graph.facebook.com"},
		"version":           {Token: "T", Version: "latest"},
	} {
		_, err := NewClient(c)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "EAA", name)
	}
	c, err := NewClient(Config{Token: " T \n"})
	require.NoError(t, err)
	require.Equal(t, "https://graph.facebook.com/v26.0/", c.g.base)
	require.Equal(t, "T", c.g.keys.token)
}

// answerCase is a row of testdata/cases_client.jsonl; ids beginning with C are
// public bug reports, the others follow Meta's pages.
type answerCase struct {
	ID     string
	Status int
	Type   string
	Body   json.RawMessage
	Text   string
	Class  Class
	Blame  []string
}

func answerCases(tb testing.TB) []answerCase {
	tb.Helper()
	f, err := os.Open("testdata/cases_client.jsonl")
	require.NoError(tb, err)
	defer f.Close()
	var list []answerCase
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var c answerCase
		require.NoError(tb, json.Unmarshal(lines.Bytes(), &c))
		if c.Body == nil {
			c.Body = json.RawMessage(c.Text)
		}
		list = append(list, c)
	}
	return list
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range answerCases(t) {
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			s := graphServer(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.Type)
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.Status)
				_, _ = w.Write(c.Body)
			})
			e := sendFails(t, clientFor(t, s))
			require.Equal(t, c.Class, e.Class)
			require.Equal(t, c.Status, e.HTTPStatus)
			require.Equal(t, c.Blame, e.BlameFields)
			x := e.Explanation()
			require.Equal(t, c.Class, x.Class)
			require.Equal(t, handlingOf(c.Class), x.Retried)
			require.Contains(t, e.Error(), x.NextStep)
		})
	}
}

func TestErrorTextsSayWhatToDo(t *testing.T) {
	t.Parallel()
	s := graphServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"message":"Invalid parameter","type":"OAuthException","code":100,"error_subcode":2804003,`+
			`"is_transient":false,"error_user_title":"Titel","error_user_msg":"Zu alt","fbtrace_id":"TRACE"}}`)
	})
	e := sendFails(t, clientFor(t, s))
	require.Equal(t, "the event is too old (code 100/2804003): send events within an hour; an event that is too old cannot be "+
		"sent any more, and its time must not be changed [Meta: Zu alt] [fbtrace_id TRACE]", e.Error())
	require.Equal(t, "Titel", e.UserTitle)
	require.Equal(t, "Invalid parameter", e.Message)
	require.Equal(t, "OAuthException", e.Type)
	require.Empty(t, e.Body)
}

func TestThrottledAnswersSayHowLong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header, value string
		wait          time.Duration
	}{
		"minutes of the business": {"X-Business-Use-Case-Usage", `{"9":[{"type":"ads_management","call_count":100,"estimated_time_to_regain_access":7}]}`, 7 * time.Minute},
		"of a proxy":              {"Retry-After", "30", 30 * time.Second},
		"nothing":                 {"X-Nothing", "", 0},
		"rubbish":                 {"X-App-Usage", "{", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := graphServer(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(c.header, c.value)
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"error":{"code":80004}}`)
			})
			require.Equal(t, c.wait, sendFails(t, clientFor(t, s)).Wait)
		})
	}
}

// shown is every way in which a value usually reaches a log.
func shown(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, nil)).Info("m", "v", v)
	slog.New(slog.NewJSONHandler(&b, nil)).Info("m", "v", v)
	fmt.Fprintf(&b, "%s %v %+v %#v", v, v, v, v)
	asJSON, err := json.Marshal(v)
	if err == nil {
		b.Write(asJSON)
	}
	return b.String()
}

func requireNoSecret(t *testing.T, text string) {
	t.Helper()
	proof := newKeys(testToken, testSecret).proof
	for _, secret := range []string{"SYNTHETICTOKEN", testSecret, proof, url.QueryEscape(testToken), "with|parts"} {
		require.NotContains(t, text, secret)
	}
}

func TestSecretsNeverShow(t *testing.T) { // C197
	t.Parallel()
	proof := newKeys(testToken, testSecret).proof
	echo := testToken + " " + testSecret + " " + proof + " " + url.QueryEscape(testToken) + " access_token=" + testToken
	asJSON, err := json.Marshal(echo)
	require.NoError(t, err)
	for name, handle := range map[string]http.HandlerFunc{
		"HTML": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "<html>"+strings.Repeat("x", 490)+echo) // cut in the middle of the token
		},
		"Graph error": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"error":{"code":190,"type":%[1]s,"message":%[1]s,"error_user_msg":%[1]s,"error_user_title":%[1]s,`+
				`"fbtrace_id":%[1]s,"error_data":{"blame_field_specs":[[%[1]s]]}}}`, asJSON)
		},
		"JSON of another kind": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"oops":%s}`, strings.ReplaceAll(string(asJSON), "/", `\/`))
		},
		"cut": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := sendFails(t, clientFor(t, graphServer(t, handle)))
			requireNoSecret(t, shown(t, e))
			requireNoSecret(t, shown(t, *e))
			requireNoSecret(t, shown(t, fmt.Errorf("send: %w", e)))
			require.LessOrEqual(t, len(e.Body), 512)
		})
	}
	cfg := Config{Token: testToken, AppSecret: testSecret}
	requireNoSecret(t, shown(t, cfg))
	requireNoSecret(t, shown(t, &cfg))
	c, err := NewClient(cfg)
	require.NoError(t, err)
	requireNoSecret(t, shown(t, c))
	requireNoSecret(t, shown(t, *c))
	requireNoSecret(t, shown(t, struct{ C *Client }{c}))
}

func TestScrubTokensOfOthers(t *testing.T) {
	t.Parallel()
	k := newKeys("", "")
	require.Equal(t, "a *** b", k.scrub("a EAABsbCS1iHgBA0123456789 b"))
	require.Equal(t, `"/me?access_token=***&x=1"`, k.scrub(`"/me?access_token=abc&x=1"`))
	require.Equal(t, "id|***", strings.TrimPrefix(newKeys("77777|verysecret", "").scrub("app id|verysecret"), "app "))
}

func TestExcerptEndsAtACharacter(t *testing.T) {
	t.Parallel()
	require.Equal(t, strings.Repeat("a", 511), excerpt(strings.Repeat("a", 511)+"é"))
	require.Equal(t, strings.Repeat("a", 509)+"€", excerpt(strings.Repeat("a", 509)+"€€"))
	require.Equal(t, "a\uFFFDb", excerpt("a\xffb"))
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	other := graphServer(t, func(http.ResponseWriter, *http.Request) { t.Error("the token has travelled on") })
	s := graphServer(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	e := sendFails(t, clientFor(t, s))
	require.Equal(t, ClassRetry, e.Class)
	require.Contains(t, e.Error(), "redirect")
}

func TestCancelledContextIsFound(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := graphServer(t, func(http.ResponseWriter, *http.Request) {})
	_, err := clientFor(t, s).Send(ctx, "1", oneEvent)
	require.ErrorIs(t, err, context.Canceled)
	var e *APIError
	require.ErrorAs(t, err, &e)
	require.Equal(t, ClassUnsent, e.Class)
	require.False(t, e.Timeout())
}
