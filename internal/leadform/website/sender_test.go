package website_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/leadform/website"
	"github.com/capiloop/capiloop/internal/secret"
)

// visitor stands in for a browser: it asks before it posts across origins what is no
// simple request, names its origin, and shows the page only answers that let it.
type visitor struct {
	origin string
	post   func(*http.Request) leadform.Answer
}

// fetch is the page's script; readable tells whether it may see the answer.
func (v visitor) fetch(contentType, body string) (a leadform.Answer, readable bool) {
	request := func(method, body string) *http.Request {
		r := httptest.NewRequest(method, "https://signals.example.com/webhooks/key", strings.NewReader(body))
		r.Header.Set("Origin", v.origin)
		r.Header.Set("User-Agent", agent)
		return r
	}
	if contentType == "application/json" { // everything else a browser posts without asking
		ask := request(http.MethodOptions, "")
		ask.Header.Set("Access-Control-Request-Method", "POST")
		ask.Header.Set("Access-Control-Request-Headers", "content-type")
		a := v.post(ask)
		h := a.Headers
		if a.Status > 299 || h.Get("Access-Control-Allow-Origin") != v.origin || !strings.Contains(h.Get("Access-Control-Allow-Methods"), "POST") ||
			!strings.Contains(strings.ToLower(h.Get("Access-Control-Allow-Headers")), "content-type") {
			return leadform.Answer{}, false
		}
	}
	r := request(http.MethodPost, body)
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Accept", "application/json")
	a = v.post(r)
	return a, a.Headers.Get("Access-Control-Allow-Origin") == v.origin && a.Headers.Get("Vary") == "Origin"
}

func (v visitor) submit(values url.Values) leadform.Answer {
	r := httptest.NewRequest(http.MethodPost, "https://signals.example.com/webhooks/key", nil)
	r.Header = http.Header{"Origin": {v.origin}, "User-Agent": {agent}, "Accept": {"text/html,*/*;q=0.8"}, "Content-Type": {urlencoded}}
	r.Form = values
	return v.post(r)
}

func TestVisitors(t *testing.T) {
	t.Parallel()
	kept := 0
	post := func(r *http.Request) leadform.Answer {
		body := make([]byte, max(r.ContentLength, 0))
		_, _ = r.Body.Read(body)
		if r.Form != nil {
			body = []byte(r.Form.Encode())
		}
		got := website.Kind{}.Receive(leadform.Request{Method: r.Method, Header: r.Header, Body: body, Peer: netip.MustParseAddr("203.0.113.9")}, source(), now)
		kept += len(got.Leads)
		return got.Answer
	}
	good := visitor{shop, post}
	a, readable := good.fetch("application/json", `{"email":"a@example.com"}`)
	require.True(t, readable)
	require.Equal(t, 200, a.Status)
	require.JSONEq(t, `{"ok":true}`, string(a.Body))
	_, readable = good.fetch("text/plain;charset=UTF-8", `{"email":"b@example.com"}`)
	require.True(t, readable)
	a = good.submit(url.Values{"email": {"c@example.com"}})
	require.Equal(t, 303, a.Status)
	require.Equal(t, shop+"/thanks", a.Location)
	require.Equal(t, 3, kept)

	for _, origin := range []string{"https://evil.example.net", "null", "http://shop.example.com", "https://shop.example.com.evil.example.net"} {
		bad := visitor{origin, post}
		_, readable = bad.fetch("application/json", `{"email":"x@example.com"}`)
		require.False(t, readable)
		_, readable = bad.fetch("text/plain", `{"email":"x@example.com"}`)
		require.False(t, readable)
		require.Equal(t, 403, bad.submit(url.Values{"email": {"x@example.com"}}).Status)
	}
	require.Equal(t, 3, kept)
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		origins         []string
		origin, referer string
		allowed         bool
	}{
		"no list, any origin":       {nil, "https://any.example.net", "", true},
		"no list, no origin":        {nil, "", "", true},
		"listed":                    {[]string{shop}, shop, "", true},
		"listed, with slash, case":  {[]string{"HTTPS://Shop.example.com/"}, shop, "", true},
		"host alone":                {[]string{"shop.example.com"}, "http://shop.example.com", "", true},
		"below":                     {[]string{"*.example.com"}, shop, "", true},
		"below, itself":             {[]string{"*.example.com"}, "https://example.com", "", true},
		"below, another":            {[]string{"*.example.com"}, "https://badexample.com", "", false},
		"all":                       {[]string{"*"}, "null", "", true},
		"another port":              {[]string{shop}, shop + ":8443", "", false},
		"none, list":                {[]string{shop}, "", "", false},
		"none, by referer":          {[]string{shop}, "", shop + "/form", true},
		"none, by another referer":  {[]string{shop}, "", "https://evil.example.net/?" + shop, false},
		"none, servers":             {[]string{shop, "server"}, "", "", true},
		"an origin called server":   {[]string{"server"}, "https://evil.example.net", "", false},
		"null is no origin of ours": {[]string{shop}, "null", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := source()
			s.Options = secret.NewOptions(nil, map[string][]string{"origins": c.origins}, nil)
			r := builder(urlencoded, "email=a%40example.com")
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			if c.referer != "" {
				r.Header.Set("Referer", c.referer)
			}
			got := website.Kind{}.Receive(r, s, now)
			if !c.allowed {
				require.Equal(t, 403, got.Answer.Status)
				require.Empty(t, got.Leads)
				require.Empty(t, got.Answer.Headers.Get("Access-Control-Allow-Origin"))
				return
			}
			require.Equal(t, 200, got.Answer.Status)
			require.Len(t, got.Leads, 1)
			require.Equal(t, c.origin, got.Answer.Headers.Get("Access-Control-Allow-Origin"))
		})
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	plain := source()
	plain.Options = secret.NewOptions(nil, nil, nil)
	for name, c := range map[string]struct {
		source              leadform.Source
		contentType, accept string
		status              int
	}{
		"browser":               {source(), urlencoded, "text/html,*/*;q=0.8", 303},
		"anything":              {source(), urlencoded, "*/*", 303},
		"JSON asked for":        {source(), urlencoded, "application/json", 200},
		"JSON sent":             {source(), "application/json", "*/*", 200},
		"JSON sent by a page":   {source(), "application/json", "text/html", 303},
		"no page, browser":      {plain, urlencoded, "text/html", 200},
		"no page, JSON by name": {plain, urlencoded, "application/json", 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := "email=a%40example.com"
			if c.contentType != urlencoded {
				body = `{"email":"a@example.com"}`
			}
			r := browser(c.contentType, body)
			r.Header.Set("Accept", c.accept)
			got := website.Kind{}.Receive(r, c.source, now)
			require.Equal(t, c.status, got.Answer.Status)
			require.Equal(t, c.status == 303, got.Answer.Location != "")
		})
	}
	get := browser(urlencoded, "")
	get.Method = http.MethodGet
	require.Equal(t, 405, website.Kind{}.Receive(get, source(), now).Answer.Status)
	require.Len(t, website.Kind{}.Options(), 9)
}
