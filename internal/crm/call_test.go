package crm_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

func TestCallTellsUnsentFromCut(t *testing.T) {
	t.Parallel()
	handled := 0
	fake := crmtest.New(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled++ }))
	c := crm.NewCaller()
	post := crm.Request{Method: http.MethodPost, URL: fake.URL + "/x?key=made-up", Body: []byte(`{}`), Private: true}

	fake.Next(1, crmtest.Cut, "POST")
	_, err := c.Do(t.Context(), post)
	require.IsType(t, ledger.Lost{}, crm.Classify(crm.Reply{}, err, nil))
	require.Equal(t, 1, handled)
	require.NotContains(t, err.Error(), "made-up")

	fake.Next(1, crmtest.Hang, "POST")
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = c.Do(short, post)
	require.IsType(t, ledger.Lost{}, crm.Classify(crm.Reply{}, err, nil))

	post.URL = "http://127.0.0.1:1/x"
	_, err = c.Do(t.Context(), post)
	require.Equal(t, ledger.Backlog, crm.Classify(crm.Reply{}, err, nil).(ledger.RetryAt).Reason)
	require.Contains(t, err.Error(), "refused")

	over, end := context.WithCancel(t.Context())
	end()
	_, err = c.Do(over, post)
	require.IsType(t, ledger.RetryAt{}, crm.Classify(crm.Reply{}, err, nil))
}

func TestCallKeepsOutOfPrivateNetworks(t *testing.T) {
	t.Parallel()
	fake := crmtest.New(t, http.NotFoundHandler())
	c := crm.NewCaller()
	for _, address := range []string{
		fake.URL, strings.Replace(fake.URL, "http:", "https:", 1), "https://localhost/", "https://10.0.0.1/", "https://169.254.169.254/latest/meta-data",
		"https://[::1]/", "https://[fd00::1]/", "https://[::ffff:192.168.0.1]/", "https://100.64.0.1/", "https://[64:ff9b::a00:1]/", "https://0.0.0.0/",
		"https://user:made-up@example.com/", "ftp://example.com", "not a url", "",
	} {
		_, err := c.Do(t.Context(), crm.Request{Method: http.MethodPost, URL: address})
		require.Error(t, err, address)
		require.IsType(t, ledger.Hold{}, crm.Classify(crm.Reply{}, err, nil), "%s: %v", address, err)
		require.NotContains(t, err.Error(), "made-up")
	}
	require.Empty(t, fake.Calls(""))
}

func TestTokenIsNeverRepeated(t *testing.T) {
	t.Parallel()
	fake := crmtest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		crmtest.Answer(w, http.StatusBadRequest, map[string]string{"message": "what is " + r.Header.Get("Authorization")})
	}))
	o := crm.NewOAuth(crm.NewCaller())
	get := func(string) crm.Request { return crm.Request{Method: http.MethodGet, URL: fake.URL, Private: true} }
	r, err := o.Do(t.Context(), crm.Account{}, crm.Login{Token: secret.New("made-up-token")}, get)
	require.Equal(t, "what is Bearer ***", ledger.AnswerOf(crm.Classify(r, err, nil)).Message)
	r, err = o.Do(t.Context(), crm.Account{}, crm.Login{Token: secret.New("made-up\ntoken")}, get)
	require.IsType(t, ledger.Hold{}, crm.Classify(r, err, nil))
	require.NotContains(t, err.Error(), "made-up")
}

func TestCallFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	fake := crmtest.New(t, http.RedirectHandler("https://elsewhere.example.com/", http.StatusFound))
	r, err := crm.NewCaller().Do(t.Context(), crm.Request{Method: http.MethodPost, URL: fake.URL, Private: true})
	require.NoError(t, err)
	require.Equal(t, http.StatusFound, r.Status)
	require.IsType(t, ledger.Hold{}, crm.Classify(r, nil, nil))
	require.Len(t, fake.Calls(""), 1)
}

// googlesheets-appsscript-response.txt, and what only looks like it.
func TestOnlyAppsScriptIsFollowed(t *testing.T) {
	t.Parallel()
	const from, to = "https://script.google.com/macros/s/x/exec", "https://script.googleusercontent.com/macros/echo?user_content_key=example"
	next, ok := crm.ScriptAnswer(from, to)
	require.True(t, ok)
	require.Equal(t, to, next)
	for _, pair := range [][2]string{
		{"https://example.com/exec", to},
		{"http://script.google.com/x", to},
		{"https://script.google.com:444/x", to},
		{from, "https://evil.example.com/macros/echo"},
		{from, "http://script.googleusercontent.com/macros/echo"},
		{from, "https://script.googleusercontent.com/other"},
		{from, "https://script.googleusercontent.com.example.com/macros/echo"},
		{from, "/macros/echo"},
		{from, ""},
		{from, ":"},
	} {
		_, ok := crm.ScriptAnswer(pair[0], pair[1])
		require.False(t, ok, pair)
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	head := http.Header{"Retry-After": {"12"}}
	for status, want := range map[int]ledger.Outcome{
		200: ledger.Accepted{}, 204: ledger.Accepted{},
		301: ledger.Hold{Reason: ledger.AddressGone},
		400: ledger.Refusal{}, 409: ledger.Refusal{}, 413: ledger.Refusal{}, 422: ledger.Refusal{},
		401: ledger.Hold{Reason: ledger.TokenInvalid}, 403: ledger.Hold{Reason: ledger.PermissionMissing},
		404: ledger.Hold{Reason: ledger.AddressGone}, 410: ledger.Hold{Reason: ledger.AddressGone},
		408: ledger.RetryAt{Reason: ledger.Backlog, Wait: 12 * time.Second},
		429: ledger.RetryAt{Reason: ledger.Throttled, Wait: 12 * time.Second},
		503: ledger.RetryAt{Reason: ledger.Backlog, Wait: 12 * time.Second},
	} {
		got := crm.Classify(crm.Reply{Status: status, Header: head}, nil, nil)
		switch o := got.(type) {
		case ledger.Accepted:
			o.Answer = ledger.Answer{}
			got = o
		case ledger.Hold:
			o.Answer = ledger.Answer{}
			got = o
		case ledger.RetryAt:
			o.Answer = ledger.Answer{}
			got = o
		case ledger.Refusal:
			o.Answer = ledger.Answer{}
			got = o
		}
		require.Equal(t, want, got, "%d", status)
	}
}

func TestWordsAreScrubbed(t *testing.T) {
	t.Parallel()
	a, l := crmtest.Account("x", "https://example.com"), crmtest.Lead()
	hide := crm.Private(a, l)
	for body, want := range map[string]string{
		`{"message":"Email ANA.LEAD@example.com is bad, says ana example"}`:     "Email *** is bad, says ***",
		`{"error":{"message":"phone 2025550143 and +1 202-555-0199"}}`:          "phone *** and ***",
		`{"errors":[{"message":"roof_repair is no option"},{"message":"two"}]}`: "*** is no option; two",
		`{"message":"token ` + crmtest.Token + ` is wrong"}`:                    "token *** is wrong",
		`{"message":["a must be b","c"],"statusCode":422}`:                      "a must be b; c",
		`<html>Ana</html>`:                     "the answer was a page of HTML",
		`Ana Example was not taken`:            "*** was not taken",
		`{"message":"ana.lead%40example.com"}`: "***",
		`{"message":"banana analysis of ana"}`: "banana analysis of ***",
		``:                                     "bad request",
		`[]`:                                   "bad request",
	} {
		got := crm.AnswerOf(crm.Reply{Status: 400, Body: []byte(body)}, hide)
		require.Equal(t, want, got.Message)
	}
}

func FuzzWords(f *testing.F) {
	for _, s := range []string{`{"message":"ana.lead@example.com"}`, `{"errors":[[[[["x"]]]]]}`, `<`, `"a"`, "\xff\xfe", `{"message":"` + strings.Repeat("é", 400) + `"}`} {
		f.Add([]byte(s))
	}
	hide := crm.Private(crmtest.Account("x", "https://example.com"), crmtest.Lead())
	f.Fuzz(func(t *testing.T, body []byte) {
		m := crm.AnswerOf(crm.Reply{Status: 400, Body: body}, hide).Message
		require.LessOrEqual(t, len(m), 510)
		require.NotContains(t, strings.ToLower(m), "ana.lead@example.com")
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"": 0, "3": 3 * time.Second, "0.5": 500 * time.Millisecond, "-1": 0, "soon": 0, "999999": 24 * time.Hour, "NaN": 0} {
		require.Equal(t, want, crm.RetryAfter(crm.Reply{Header: http.Header{"Retry-After": {text}}}), text)
	}
	at := time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)
	require.InDelta(t, time.Minute, crm.RetryAfter(crm.Reply{Header: http.Header{"Retry-After": {at}}}), float64(2*time.Second))
}

// oauthFake gives tokens that turn with each use.
func oauthFake(t *testing.T, turns bool) (fake *crmtest.Server, revoke func()) {
	t.Helper()
	refresh, access := "refresh-1", ""
	n := 0
	fake = crmtest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			if r.FormValue("refresh_token") != refresh || r.FormValue("client_secret") != "made-up-secret" {
				crmtest.Answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "bad " + r.FormValue("refresh_token")})
				return
			}
			n++
			access = "access-" + string(rune('0'+n))
			if turns {
				refresh = "refresh-" + string(rune('1'+n))
			}
			crmtest.Answer(w, http.StatusOK, map[string]any{"access_token": access, "refresh_token": refresh, "expires_in": 1800})
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+access || access == "" {
			crmtest.Answer(w, http.StatusUnauthorized, map[string]any{"message": "expired"})
		}
	}))
	return fake, func() { access = "none" }
}

func TestOAuthRenewsOnceAndKeepsTheTurnedToken(t *testing.T) {
	t.Parallel()
	fake, revoke := oauthFake(t, true)
	var saved []string
	refuse := true
	a := crmtest.Account("x", fake.URL, "client_id", "id", "client_secret", "made-up-secret", "refresh_token", "refresh-1")
	a.SaveOption = func(_ context.Context, name string, value secret.Secret) error {
		require.Equal(t, "refresh_token", name)
		if refuse {
			return context.Canceled
		}
		saved = append(saved, value.Reveal())
		return nil
	}
	o := crm.NewOAuth(crm.NewCaller())
	call := func() (crm.Reply, error) {
		return o.Do(t.Context(), a, crm.Login{TokenURL: fake.URL + "/token"}, func(string) crm.Request {
			return crm.Request{Method: http.MethodGet, URL: fake.URL + "/me", Private: true}
		})
	}
	r, err := call()
	require.NoError(t, err)
	require.Equal(t, 200, r.Status)
	require.True(t, o.Unsaved(a))
	refuse = false
	_, err = call()
	require.NoError(t, err)
	require.Equal(t, []string{"refresh-2"}, saved)
	require.False(t, o.Unsaved(a))
	require.Len(t, fake.Calls("POST /token"), 1)

	revoke()
	r, err = call()
	require.NoError(t, err)
	require.Equal(t, 200, r.Status)
	require.Len(t, fake.Calls("POST /token"), 2)
	require.Equal(t, []string{"refresh-2", "refresh-3"}, saved)
}

func TestOAuthFaults(t *testing.T) {
	t.Parallel()
	fake, _ := oauthFake(t, false)
	a := crmtest.Account("x", fake.URL, "client_id", "id", "client_secret", "made-up-secret", "refresh_token", "made-up-old-refresh")
	o := crm.NewOAuth(crm.NewCaller())
	call := func() ledger.Outcome {
		r, err := o.Do(t.Context(), a, crm.Login{TokenURL: fake.URL + "/token"}, func(string) crm.Request {
			return crm.Request{Method: http.MethodGet, URL: fake.URL + "/me", Private: true}
		})
		return crm.Classify(r, err, crm.Private(a, nil))
	}
	got := call()
	require.Equal(t, ledger.TokenInvalid, got.(ledger.Hold).Reason)
	require.NotContains(t, ledger.AnswerOf(got).Message, "made-up")
	fake.Next(1, crmtest.Broken, "POST /token")
	require.IsType(t, ledger.RetryAt{}, call())
	fake.Next(1, crmtest.Cut, "POST /token")
	require.IsType(t, ledger.RetryAt{}, call())
}
