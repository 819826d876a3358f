package website_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/leadform/website"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

const (
	urlencoded = "application/x-www-form-urlencoded"
	shop       = "https://shop.example.com"
	agent      = "Mozilla/5.0 (test)"
)

var now = time.Unix(1795000000, 0).UTC()

func source() leadform.Source {
	return leadform.Source{
		Workspace: 7, Kind: website.Name, Name: "site", Country: "US", CreatedAt: now.Add(-time.Hour),
		Options: secret.NewOptions(map[string]string{"redirect": shop + "/thanks"}, map[string][]string{"origins": {shop, "server"}}, nil),
	}
}

func withFields(fields map[string]string) leadform.Source {
	s := source()
	s.Options = secret.NewOptions(nil, nil, map[string]map[string]string{"fields": fields})
	return s
}

// browser is a post by a visitor's browser, builder one by a form builder's server.
func browser(contentType, body string) leadform.Request {
	return leadform.Request{
		Method: http.MethodPost, Body: []byte(body), Peer: netip.MustParseAddr("203.0.113.9"),
		Header: http.Header{"Content-Type": {contentType}, "Origin": {shop}, "User-Agent": {agent}},
	}
}

func builder(contentType, body string) leadform.Request {
	return leadform.Request{
		Method: http.MethodPost, Body: []byte(body), Peer: netip.MustParseAddr("198.51.100.1"),
		Header: http.Header{"Content-Type": {contentType}, "User-Agent": {"builder/1"}},
	}
}

func sample(tb testing.TB, name string) string {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(tb, err)
	return string(raw)
}

func one(t *testing.T, r leadform.Request, s leadform.Source) ledger.Lead {
	t.Helper()
	got := website.Kind{}.Receive(r, s, now)
	require.Contains(t, []int{200, 303}, got.Answer.Status, "%s", got.Answer.Body)
	require.Len(t, got.Leads, 1)
	l := got.Leads[0]
	require.Equal(t, "website", l.Kind)
	require.Equal(t, "site", l.Source)
	require.Equal(t, int64(7), l.Workspace)
	require.Empty(t, l.Platform)
	require.Empty(t, l.LeadID)
	require.Len(t, l.DedupeKey, 64)
	return l
}

func question(l ledger.Lead, name string) []string {
	for _, a := range l.Answers {
		if a.Question == name {
			return a.Values
		}
	}
	return nil
}

func TestThePlainForm(t *testing.T) {
	t.Parallel()
	l := one(t, browser(urlencoded, sample(t, "website-form-urlencoded.txt")), source())
	require.Equal(t, ledger.Contact{FullName: "Ana Example", FirstName: "Ana", LastName: "Example", Email: "Ana.Lead@Example.com", Phone: "(202) 555-0143"}, l.Contact)
	require.Equal(t, ledger.Clicks{FBClid: "IwAR-example-fbclid", FBP: "fb.1.1794999000000.1234567890", FBC: "fb.1.1794999000000.IwAR-example-fbclid"}, l.Clicks)
	require.Equal(t, shop+"/quote?x=1", l.PageURL)
	require.Equal(t, ledger.ConsentGranted, l.Consent)
	require.Equal(t, "203.0.113.9", l.IP)
	require.Equal(t, agent, l.UserAgent)
	require.Equal(t, now, l.CreatedAt)
	require.Equal(t, []string{"Please call me"}, question(l, "message"))
	require.Equal(t, []string{"facebook"}, question(l, "utm_source"))
	require.Nil(t, question(l, "hp_website"))
	require.Nil(t, question(l, "fbclid"))
	require.Equal(t, ledger.FormAnswer{Question: "consent", Values: []string{"on"}, Consent: true}, l.Answers[len(l.Answers)-1])
}

func TestTheHoneypotIsAnsweredLikeSuccess(t *testing.T) {
	t.Parallel()
	spam, good := browser(urlencoded, sample(t, "website-form-spam.txt")), browser(urlencoded, sample(t, "website-form-urlencoded.txt"))
	got := website.Kind{}.Receive(spam, source(), now)
	require.Empty(t, got.Leads)
	require.Equal(t, website.Kind{}.Receive(good, source(), now).Answer, got.Answer)

	s := source()
	s.Options = secret.NewOptions(map[string]string{"honeypot": "trap"}, nil, nil)
	require.Len(t, website.Kind{}.Receive(spam, s, now).Leads, 1)
	require.Empty(t, website.Kind{}.Receive(browser("application/json", `{"email":"a@example.com","more":{"trap":"x"}}`), s, now).Leads)
	elementor := "fields[email][value]=a%40example.com&fields[trap][id]=trap&fields[trap][value]="
	require.Len(t, website.Kind{}.Receive(builder(urlencoded, elementor), s, now).Leads, 1)
	require.Empty(t, website.Kind{}.Receive(builder(urlencoded, elementor+"x"), s, now).Leads)
}

func TestTheJSONForm(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{"application/json", "text/plain;charset=UTF-8", "application/vnd.x+json", ""} {
		l := one(t, browser(contentType, sample(t, "website-form.json")), source())
		require.Equal(t, "Ana Example", l.Contact.FullName)
		require.Equal(t, "+1 202 555 0143", l.Contact.Phone)
		require.Equal(t, "Example Ltd", l.Contact.Company)
		require.Equal(t, []string{"5000"}, question(l, "budget"))
		require.Equal(t, []string{"roof", "gutter"}, question(l, "services"))
		require.Equal(t, "IwAR-example-fbclid", l.Clicks.FBClid)
		require.Equal(t, "fb.1.1794999000000.1234567890", l.Clicks.FBP)
		require.Equal(t, shop+"/quote", l.PageURL)
		require.Nil(t, question(l, "submission_id"))
	}
}

// dedupe is the key of what a browser posts.
func dedupe(t *testing.T, body string, at time.Time) string {
	t.Helper()
	got := website.Kind{}.Receive(browser("application/json", body), source(), at)
	require.Len(t, got.Leads, 1)
	return got.Leads[0].DedupeKey
}

func TestASubmissionIDRecognisesTheRepeatOfOnePerson(t *testing.T) {
	t.Parallel()
	later := now.Add(time.Hour)
	post := func(body string, at time.Time) string { return dedupe(t, body, at) }
	first := post(`{"email":"a@example.com","phone":"(202) 555-0143","submission_id":"w1","question":"x"}`, now)
	require.Equal(t, first, post(`{"email":" A@Example.com","phone":"+1 202 555 0143","submission_id":"w1","question":"x","sent":"2"}`, later), "a builder's repeat")
	for name, other := range map[string]string{
		"another e-mail": `{"email":"b@example.com","phone":"(202) 555-0143","submission_id":"w1","question":"x"}`,
		"another phone":  `{"email":"a@example.com","phone":"(202) 555-0144","submission_id":"w1","question":"x"}`,
		"no person":      `{"submission_id":"w1","question":"x"}`,
		"another id":     `{"email":"a@example.com","phone":"(202) 555-0143","submission_id":"w2","question":"x"}`,
		"another form":   `{"email":"a@example.com","phone":"(202) 555-0143","submission_id":"w1","question":"x","form_id":"2"}`,
	} {
		require.NotEqual(t, first, post(other, now), name)
	}
	// Where nobody can be told, the answers tell people apart.
	require.Equal(t, post(`{"submission_id":"w1","name":"Ana"}`, now), post(`{"submission_id":"w1","name":"Ana"}`, later))
	require.NotEqual(t, post(`{"submission_id":"w1","name":"Ana"}`, now), post(`{"submission_id":"w1","name":"Bo"}`, now))
}

func TestADoubleClickIsOneLeadAndAnotherEnquiryIsAnother(t *testing.T) {
	t.Parallel()
	post := func(body string, at time.Time) string { return dedupe(t, body, at) }
	soon := now.Add(5 * time.Second)
	first := post(`{"email":"A@example.com","phone":"+1 202","message":"roof","services":["a","b"]}`, now)
	require.Equal(t, first, post(`{"email":"A@example.com","phone":"+1 202","message":"roof","services":["a","b"]}`, soon))
	require.Equal(t, first, post(`{"services":["a","b"],"phone":"1202","email":"a@example.com","message":"roof"}`, soon))
	for _, other := range []string{
		`{"email":"A@example.com","phone":"+1 202","message":"gutter","services":["a","b"]}`,
		`{"email":"A@example.com","phone":"+1 202","message":"roof","services":["a"]}`,
		`{"email":"A@example.com","phone":"+1 202","message":"roof","services":["ab"]}`,
		`{"email":"A@example.com","phone":"+1 202","message":"roof","services":"a","b":"b"}`,
		`{"email":"A@example.com","phone":"+1 202","message":"roof","services":["a","b"],"form_id":"2"}`,
	} {
		require.NotEqual(t, first, post(other, soon), other)
	}
	require.NotEqual(t, post(`{"email":"a@example.com"}`, now), post(`{"email":"a@example.com"}`, now.Add(time.Minute)))
	require.NotEqual(t, post(`{"question":"x"}`, now), post(`{"question":"y"}`, now))
	require.NotContains(t, post(`{"email":"a@example.com"}`, now), "example")
}

func TestADoubleClickAtTheEndOfAMinute(t *testing.T) {
	t.Parallel()
	end := now.Truncate(time.Minute).Add(59 * time.Second)
	keys := func(at time.Time) ledger.Lead {
		got := website.Kind{}.Receive(browser("application/json", `{"email":"a@example.com"}`), source(), at)
		require.Len(t, got.Leads, 1)
		return got.Leads[0]
	}
	first, second := keys(end), keys(end.Add(3*time.Second))
	require.NotEqual(t, first.DedupeKey, second.DedupeKey)
	require.Equal(t, first.DedupeToo, second.DedupeToo)
	require.NotEqual(t, first.DedupeToo, keys(end.Add(2*time.Minute)).DedupeToo)
}

func TestMultipart(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	require.NoError(t, w.WriteField("your-name", "Zoë Exämple"))
	require.NoError(t, w.WriteField("your-email", "zoe@example.com"))
	require.NoError(t, w.WriteField("services[]", "roof"))
	require.NoError(t, w.WriteField("services[]", "gutter"))
	require.NoError(t, w.WriteField("_wpcf7", "42"))
	file, err := w.CreateFormFile("photo", "roof.jpg")
	require.NoError(t, err)
	_, err = file.Write([]byte("not a photo"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	l := one(t, browser(w.FormDataContentType(), b.String()), source())
	require.Equal(t, "Zoë Exämple", l.Contact.FullName)
	require.Equal(t, "zoe@example.com", l.Contact.Email)
	require.Equal(t, []string{"roof", "gutter"}, question(l, "services"))
	require.Equal(t, "42", l.Origin.FormID)
	require.Len(t, l.Answers, 3)

	cut := website.Kind{}.Receive(browser(w.FormDataContentType(), b.String()[:b.Len()-80]), source(), now)
	require.Equal(t, 400, cut.Answer.Status)
	require.Empty(t, cut.Leads)
}

func TestTheEventIDIsTheTags(t *testing.T) {
	t.Parallel()
	l := one(t, browser(urlencoded, "email=a%40example.com&event_id=tag-77"), source())
	require.Equal(t, "tag-77", l.EventID)
}

func TestPageAddress(t *testing.T) {
	t.Parallel()
	l := one(t, browser(urlencoded, "email=a%40example.com&page_url="+"https%3A%2F%2Fshop.example.com%2F%3Femail%3Da%2540example.com%26gclid%3DAbC%26fbclid%3DXyZ%26ttclid%3Dt%26li_fat_id%3Dl%26msclkid%3Dm"), source())
	require.Equal(t, shop+"/?gclid=AbC&fbclid=XyZ&ttclid=t&li_fat_id=l&msclkid=m", l.PageURL)
	require.Equal(t, ledger.Clicks{GClid: "AbC", FBClid: "XyZ", TTClid: "t", LiFatID: "l", MSClkid: "m"}, l.Clicks)

	r := browser(urlencoded, "email=a%40example.com&fbclid=given")
	r.Header.Set("Referer", shop+"/form?fbclid=address&email=a@example.com")
	r.Header.Set("Cookie", "_fbp=fb.1.1.2; _fbc=fb.1.1.x; session=s")
	l = one(t, r, source())
	require.Equal(t, shop+"/form?fbclid=address", l.PageURL)
	require.Equal(t, ledger.Clicks{FBClid: "given", FBP: "fb.1.1.2", FBC: "fb.1.1.x"}, l.Clicks)
}

func TestWhatStandsOpenHoldsNoText(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"mailto:ana@example.com", "ana@example.com", "javascript:1", "/quote?x=1", "https://"} {
		require.Empty(t, one(t, browser("application/json", `{"email":"a@example.com","page_url":"`+page+`"}`), source()).PageURL, page)
	}
	long := strings.Repeat("x", 5000)
	l := one(t, browser(urlencoded, "email=a%40example.com&event_id="+long), source())
	require.Empty(t, l.EventID)
	require.Equal(t, []string{long}, question(l, "event_id"))
}

func TestAServersFormTellsOfTheVisitor(t *testing.T) {
	t.Parallel()
	l := one(t, builder("application/json", `{"email":"a@example.com","client_ip":"203.0.113.7","client_user_agent":"Mozilla/5.0 (v)","submitted_at":"2026-11-18T11:00:00Z"}`), source())
	require.Equal(t, "203.0.113.7", l.IP)
	require.Equal(t, "Mozilla/5.0 (v)", l.UserAgent)
	require.Equal(t, time.Date(2026, 11, 18, 11, 0, 0, 0, time.UTC), l.CreatedAt)

	l = one(t, builder("application/json", `{"email":"a@example.com"}`), source())
	require.Empty(t, l.IP, "the server's own address is not the visitor's")
	require.Empty(t, l.UserAgent)
}

func TestOnlyATimeWithoutDoubtMakesALeadHistory(t *testing.T) {
	t.Parallel()
	created := source().CreatedAt // 2026-11-18 10:06:40 UTC
	for text, at := range map[string]time.Time{
		"2026-11-17T10:06:39Z":            created.Add(-24*time.Hour - time.Second),
		"2026-11-17T11:06:39+01:00":       created.Add(-24*time.Hour - time.Second),
		"2026-11-17 10:06:39 +0000":       created.Add(-24*time.Hour - time.Second),
		"1794909999":                      created.Add(-24*time.Hour - time.Second),
		"1794909999.5":                    created.Add(-24*time.Hour - time.Second),
		"Tue, 17 Nov 2026 10:06:39 GMT":   created.Add(-24*time.Hour - time.Second),
		"Tue, 17 Nov 2026 10:06:39 +0000": created.Add(-24*time.Hour - time.Second),
		"2026-11-17T10:06:40Z":            created.Add(-24 * time.Hour),
		"2026-11-18T10:06:39Z":            created.Add(-time.Second),
		// whose clock it is, nobody says
		"2026-11-01T10:06:40":           now,
		"2026-11-01 10:06:40":           now,
		"2026-11-01 10:06":              now,
		"2026-11-01":                    now,
		"Sun, 01 Nov 2026 10:06:40 CET": now,
		"Sun Nov  1 10:06:40 2026":      now,
		"2026-11-18T12:00:00Z":          now,
		"20261101":                      now,
		"20261101100640":                now,
		"7":                             now,
	} {
		l := one(t, builder("application/json", `{"email":"a@example.com","submitted_at":"`+text+`"}`), source())
		require.Equal(t, at, l.CreatedAt, text)
		require.Equal(t, at.Before(created.Add(-24*time.Hour)), l.History, text)
	}
	l := one(t, browser("application/json", `{"email":"a@example.com","submitted_at":"2026-11-01T10:06:40Z"}`), source())
	require.Equal(t, now, l.CreatedAt, "a browser's own word is not taken")
	require.False(t, l.History)
}

func TestTheFieldMap(t *testing.T) {
	t.Parallel()
	l := one(t, builder("application/json", `{"form_id":"3","id":"9","source_url":"https://shop.example.com/","date_created":"2026-11-18 11:00:00","ip":"203.0.113.7","user_agent":"Mozilla/5.0",
		"1.3":"Ana","1.6":"Example","2":"ana@example.com","4":"secret","5":"Flat","currency":"USD","created_by":null}`),
		withFields(map[string]string{"1.3": "first_name", "1.6": "last_name", "2": "email", "4": "-", "5": "roof", "currency": "money"}))
	require.Equal(t, ledger.Contact{FullName: "Ana Example", FirstName: "Ana", LastName: "Example", Email: "ana@example.com"}, l.Contact)
	require.Equal(t, "3", l.Origin.FormID)
	require.Equal(t, "203.0.113.7", l.IP)
	require.Equal(t, []string{"Flat"}, question(l, "roof"))
	require.Equal(t, []string{"USD"}, question(l, "money"))
	require.Nil(t, question(l, "4"))
	require.Nil(t, question(l, "created_by"))

	l = one(t, builder("application/json", `{"a":{"b":{"c":{"d":{"e":"x@example.com"}}}},"Wann?":"now","mit":"ja","optin":"yes"}`),
		withFields(map[string]string{"a.b.c.d.e": "email", "Wann?": "when", "mit": "email", "optin": "consent"}))
	require.Equal(t, "x@example.com", l.Contact.Email, "the first wins")
	require.Equal(t, []string{"now"}, question(l, "when"))
	require.Equal(t, ledger.ConsentGranted, l.Consent)
}

func TestConsent(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]ledger.Consent{
		"on": ledger.ConsentGranted, "Yes": ledger.ConsentGranted, "1": ledger.ConsentGranted, "no": ledger.ConsentDenied,
		"false": ledger.ConsentDenied, "": ledger.ConsentAbsent, "perhaps": ledger.ConsentAbsent,
	} {
		require.Equal(t, want, one(t, browser(urlencoded, "email=a%40example.com&consent="+value), source()).Consent, value)
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		contentType, body string
		status            int
	}{
		"no JSON":      {"application/json", `{"email":`, 400},
		"a text":       {"application/json", `"email"`, 400},
		"a list":       {"application/json", `[1,2]`, 400},
		"deep":         {"application/json", strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40), 400},
		"many":         {"application/json", `{"a":[` + strings.Repeat("1,", 5000) + `1]}`, 400},
		"no boundary":  {"multipart/form-data", "x", 400},
		"another type": {"image/png", "x", 400},
		"empty":        {urlencoded, "", 422},
		"null":         {"application/json", "null", 422},
		"nothing said": {urlencoded, "email=&name=+", 422},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := website.Kind{}.Receive(browser(c.contentType, c.body), source(), now)
			require.Equal(t, c.status, got.Answer.Status)
			require.Empty(t, got.Leads)
			require.Contains(t, string(got.Answer.Body), `"ok":false,"error":"`)
			require.Equal(t, shop, got.Answer.Headers.Get("Access-Control-Allow-Origin"))
		})
	}
}

func TestOldPagesWriteWindows1252(t *testing.T) {
	t.Parallel()
	require.Equal(t, "Zoë", one(t, browser(urlencoded, "first_name=Zo%EB"), source()).Contact.FirstName)
}

func FuzzReceive(f *testing.F) {
	for _, name := range []string{"website-form.json", "website-webflow.json", "typeform.json", "tally.json"} {
		f.Add("application/json", []byte(sample(f, name)))
	}
	for _, name := range []string{"website-elementor.txt", "website-form-urlencoded.txt", "website-form-spam.txt"} {
		f.Add(urlencoded, []byte(sample(f, name)))
	}
	f.Add("multipart/form-data; boundary=x", []byte("--x\r\nContent-Disposition: form-data; name=\"email\"\r\n\r\na@example.com\r\n--x--\r\n"))
	f.Add(urlencoded, []byte("a=1&a[b]=2&a[b][c]=3&a[]=4&[x]=5&a[][b]=6&=7&b[=8"))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		for _, r := range []leadform.Request{browser(contentType, string(body)), builder(contentType, string(body))} {
			got := website.Kind{}.Receive(r, source(), now)
			require.Contains(t, []int{200, 303, 400, 422}, got.Answer.Status)
			require.True(t, got.Answer.Status < 400 || len(got.Leads) == 0)
			for _, l := range got.Leads {
				require.NotEmpty(t, l.DedupeKey)
				require.NotEmpty(t, l.Answers)
			}
		}
	})
}
