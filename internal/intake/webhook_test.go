package intake_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/intake"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

func sample(t *testing.T, kind, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("../leadform/" + kind + "/testdata/" + name)
	require.NoError(t, err)
	return b
}

// notices tells how many notices of a workspace wait.
func (d *door) notices(t *testing.T, ws *config.Workspace) int64 {
	t.Helper()
	counts, err := d.store.NoticeCounts(t.Context(), ws.ID)
	require.NoError(t, err)
	return counts[store.NoticeWaiting]
}

func (d *door) deliverMeta(body []byte, signature string) answer {
	return d.call(http.MethodPost, hook("forms"), bytes.NewReader(body), "Content-Type", "application/json", "X-Hub-Signature-256", signature)
}

func TestAMetaWebhookIsAnsweredAfterItsNoticesAreOnDisk(t *testing.T) {
	t.Parallel()
	d := open(t)
	body := sample(t, "meta", "meta-leadgen-webhook-batch.json")
	a := d.deliverMeta(body, capitest.Sign("not-the-secret", body))
	require.Equal(t, http.StatusUnauthorized, a.Code)
	require.Equal(t, http.StatusUnauthorized, d.deliverMeta(body, "").Code)
	require.Zero(t, d.notices(t, d.one)+d.notices(t, d.two), "what is not genuine leaves nothing")

	for range 3 {
		require.Equal(t, http.StatusOK, d.deliverMeta(body, capitest.Sign(metaSecret, body)).Code)
	}
	require.EqualValues(t, 2, d.notices(t, d.one))
	require.EqualValues(t, 1, d.notices(t, d.two), "the other page's lead is its own workspace's")
	list, err := d.store.ClaimNotices(t.Context(), d.config.Clock.Now(), 1, 10)
	require.NoError(t, err)
	for _, n := range list {
		if n.Workspace == d.two.ID {
			require.Equal(t, "987650000012347", n.Key)
			require.Equal(t, d.two.Sources[0].ID, n.Source)
		}
	}
	require.Contains(t, d.log.String(), "accepted=3")
	require.Contains(t, d.log.String(), "duplicates=3")
}

func TestAPageThatNobodyHas(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, page := range []string{"100000000000007", "100000000000005"} { // unknown; known with another app's secret
		body := fmt.Appendf(nil, `{"object":"page","entry":[{"id":"%s","changes":[{"field":"leadgen","value":{"leadgen_id":"987650000012399","page_id":"%s"}}]}]}`, page, page)
		require.Equal(t, http.StatusOK, d.deliverMeta(body, capitest.Sign(metaSecret, body)).Code)
	}
	require.Zero(t, d.notices(t, d.one)+d.notices(t, d.two))
	found, err := d.store.Findings(t.Context(), d.one.ID)
	require.NoError(t, err)
	require.Len(t, found, 2)
	for _, f := range found {
		require.Equal(t, ledger.FindingUnknownPage, f.Kind)
	}
}

func TestHandshakes(t *testing.T) {
	t.Parallel()
	d := open(t)
	ask := func(token string) answer {
		return d.call(http.MethodGet, hook("forms")+"?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token="+token, nil)
	}
	a := ask(metaVerify)
	require.Equal(t, http.StatusOK, a.Code)
	require.Equal(t, "1158201444", a.Body.String())
	require.Equal(t, "text/plain", a.Header().Get("Content-Type"))
	require.Equal(t, http.StatusForbidden, ask("wrong").Code)

	a = d.call(http.MethodGet, hook("linkedin")+"?challengeCode=890e4665-4dfe-4ab1-b689-ed553bceeed0&applicationId=12345678", nil)
	require.Equal(t, http.StatusOK, a.Code)
	require.JSONEq(t, string(sample(t, "linkedin", "linkedin-challenge-response.json")), a.Body.String())
}

func TestAnAddressThatIsNobodys(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, path := range []string{"/webhooks/nobody", hook("forms") + "x", hook("forms") + "/x"} {
		a := d.do(t, http.MethodPost, path, strings.NewReader("{}"))
		require.Equal(t, http.StatusNotFound, a.Code, path)
		require.Equal(t, "no_such_source", a.at("error", "code"))
	}
	a := d.do(t, http.MethodDelete, hook("forms"), nil)
	require.Equal(t, http.StatusMethodNotAllowed, a.Code)
	require.Equal(t, "GET, POST", a.Header().Get("Allow"))
	require.NotContains(t, d.log.String(), "0123456789abcdefghij", "the address is a secret")
}

// signature is a request of the samples with what its sender signed it by.
type signature struct {
	Secret, Body string
	Header       map[string]string
}

func signatures(t *testing.T, kind string) []signature {
	t.Helper()
	var list []signature
	require.NoError(t, json.Unmarshal(sample(t, kind, "signatures.json"), &list))
	return list
}

func TestTheOtherKinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, header      string
		leads, noticesToo int
	}{{"tiktok", "X-Open-Signature", 2, 0}, {"linkedin", "X-LI-Signature", 0, 1}} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			for _, s := range signatures(t, c.kind) {
				if s.Body == "" {
					continue // the challenge
				}
				for range 2 {
					a := d.call(http.MethodPost, hook(c.kind), strings.NewReader(s.Body), "Content-Type", "application/json", c.header, s.Header[c.header])
					require.Equal(t, http.StatusOK, a.Code, a.Body.String())
				}
				a := d.call(http.MethodPost, hook(c.kind), strings.NewReader(s.Body+" "), "Content-Type", "application/json", c.header, s.Header[c.header])
				require.Equal(t, http.StatusUnauthorized, a.Code)
				break
			}
			require.Len(t, d.kept(t, d.one), c.leads)
			require.EqualValues(t, c.noticesToo, d.notices(t, d.one))
		})
	}
	t.Run("google", func(t *testing.T) {
		t.Parallel()
		d := open(t)
		body := sample(t, "google", "google-lead-webhook.json")
		for range 2 {
			a := d.do(t, http.MethodPost, hook("google"), bytes.NewReader(body), "Content-Type", "application/json")
			require.Equal(t, http.StatusOK, a.Code)
			require.Equal(t, "{}", a.Body.String())
		}
		a := d.do(t, http.MethodPost, hook("google"), bytes.NewReader(sample(t, "google", "google-lead-webhook-wrong-key.json")))
		require.Equal(t, http.StatusForbidden, a.Code)
		require.NotEmpty(t, a.at("message"))
		require.Len(t, d.kept(t, d.one), 1)
		require.NotContains(t, d.log.String(), "ana.lead")
	})
}

func (d *door) form(path, contentType, body string, headers ...string) answer {
	return d.call(http.MethodPost, path, strings.NewReader(body), append([]string{"Content-Type", contentType}, headers...)...)
}

func TestAWebsitesForm(t *testing.T) {
	t.Parallel()
	d := open(t)
	const urlencoded = "application/x-www-form-urlencoded"
	body := string(sample(t, "website", "website-form-urlencoded.txt"))
	a := d.form(hook("site"), urlencoded, body, "Origin", origin, "Accept", "text/html")
	require.Equal(t, http.StatusSeeOther, a.Code, a.Body.String())
	require.Equal(t, origin+"/thanks", a.Header().Get("Location"))
	require.Len(t, d.kept(t, d.one), 1)

	a = d.form(hook("site"), "application/json", `{"email":"b@example.com"}`, "Origin", origin, "Accept", "application/json")
	require.Equal(t, http.StatusOK, a.Code)
	require.JSONEq(t, `{"ok":true}`, a.Body.String())
	require.Equal(t, origin, a.Header().Get("Access-Control-Allow-Origin"))
	require.Equal(t, "Origin", a.Header().Get("Vary"))
	require.Len(t, d.kept(t, d.one), 2)

	a = d.form(hook("site"), urlencoded, strings.Replace(body, "hp_website=", "hp_website=spam", 1), "Origin", origin, "Accept", "text/html")
	require.Equal(t, http.StatusSeeOther, a.Code, "a robot learns nothing")
	require.Equal(t, http.StatusForbidden, d.form(hook("site"), urlencoded, body, "Origin", "https://evil.example").Code)
	require.Equal(t, http.StatusForbidden, d.form(hook("site"), urlencoded, body).Code)
	require.Len(t, d.kept(t, d.one), 2)

	a = d.call(http.MethodOptions, hook("site"), nil, "Origin", origin, "Access-Control-Request-Method", "POST")
	require.Equal(t, http.StatusNoContent, a.Code)
	require.Equal(t, origin, a.Header().Get("Access-Control-Allow-Origin"))
	require.Equal(t, "POST", a.Header().Get("Access-Control-Allow-Methods"))

	a = d.form(hook("open"), urlencoded, "email=c@example.com", "Accept", "text/html", "User-Agent", "Mozilla/5.0")
	require.Equal(t, http.StatusOK, a.Code)
	require.Equal(t, "text/plain; charset=utf-8", a.Header().Get("Content-Type"), "a thank-you is no JSON")
	require.NotContains(t, strings.ToLower(d.log.String()), "example.com")
}

func TestOneAddressCannotFloodAForm(t *testing.T) {
	t.Parallel()
	d := open(t)
	post := func(i int, path string) answer {
		return d.form(path, "application/json", fmt.Sprintf(`{"email":"p%d@example.com"}`, i), "Origin", origin)
	}
	taken := 0
	var refused answer
	for i := range 100 {
		if a := post(i, hook("site")); a.Code == http.StatusOK {
			taken++
		} else {
			refused = a
		}
	}
	require.GreaterOrEqual(t, taken, 60)
	require.Less(t, taken, 90)
	require.Equal(t, http.StatusTooManyRequests, refused.Code)
	require.NotEmpty(t, refused.Header().Get("Retry-After"))
	require.Equal(t, origin, refused.Header().Get("Access-Control-Allow-Origin"), "the page can read why")
	require.Len(t, d.kept(t, d.one), taken)
	require.Equal(t, http.StatusOK, post(1, hook("open")).Code, "another form is not held up")
}

func TestTheFloodsMemoryIsBounded(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, intake.FloodFrom(10_000), 4096)
}

// busyKind asks for a status of its own while nothing can be written.
type busyKind struct{}

func (busyKind) Options() []leadform.Option { return nil }

func (busyKind) Receive(leadform.Request, leadform.Source, time.Time) leadform.Received {
	return leadform.Received{Leads: []ledger.Lead{{}}, Busy: http.StatusTeapot, Answer: leadform.Answer{Status: http.StatusOK}}
}

func TestAWebhookWhileNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *intake.Config) {
		c.Leads, c.Inbox = noDisk{errors.New("disk full")}, noDisk{errors.New("disk full")}
		c.Forms["google_leads"] = busyKind{}
	})
	body := sample(t, "meta", "meta-leadgen-webhook-batch.json")
	require.Equal(t, http.StatusServiceUnavailable, d.deliverMeta(body, capitest.Sign(metaSecret, body)).Code)
	require.Equal(t, http.StatusTeapot, d.call(http.MethodPost, hook("google"), nil).Code)
	a := d.form(hook("site"), "application/json", `{"email":"ana@example.com"}`, "Origin", origin)
	require.Equal(t, http.StatusServiceUnavailable, a.Code)
	require.NotEmpty(t, a.Header().Get("Retry-After"))
	require.Equal(t, origin, a.Header().Get("Access-Control-Allow-Origin"))
	require.NotContains(t, d.log.String(), "ana@")
}

func TestWebhooksFromManyAtOnce(t *testing.T) {
	t.Parallel()
	d := open(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			_ = d.form(hook("open"), "application/x-www-form-urlencoded", url.Values{"email": {"a@example.com"}, "submission_id": {"s1"}}.Encode())
		})
	}
	wg.Wait()
	require.Len(t, d.kept(t, d.one), 1)
}
