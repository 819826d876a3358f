package meta_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/leadform/meta"
)

var none *graph

// Cases C151 and C152.
func TestHandshake(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, query string
		change      map[string]string
		status      int
		body        string
	}{
		{"right", "hub.mode=subscribe&hub.challenge=4242424242&hub.verify_token=" + verify, nil, 200, "4242424242"},
		{"wrong token", "hub.mode=subscribe&hub.challenge=42&hub.verify_token=wrong", nil, 403, ""},
		{"no token", "hub.mode=subscribe&hub.challenge=42", nil, 403, ""},
		{"another mode", "hub.mode=unsubscribe&hub.challenge=42&hub.verify_token=" + verify, nil, 403, ""},
		{"nothing", "", nil, 403, ""},
		{"a source without token", "hub.mode=subscribe&hub.challenge=42&hub.verify_token=", map[string]string{"verify_token": ""}, 403, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := meta.New(meta.Config{}).Receive(get(c.query), none.source(c.change), time.Now())
			require.Equal(t, c.status, got.Answer.Status)
			require.Empty(t, got.Notices)
			if c.status == 200 {
				require.Equal(t, "text/plain", got.Answer.ContentType)
				require.Equal(t, c.body, string(got.Answer.Body))
			} else {
				require.NotContains(t, string(got.Answer.Body), "42")
			}
		})
	}
	require.Equal(t, http.StatusMethodNotAllowed, meta.New(meta.Config{}).Receive(leadform.Request{Method: http.MethodPut}, none.source(nil), time.Now()).Answer.Status)
}

type vector struct {
	Name   string            `json:"name"`
	Secret string            `json:"secret"`
	Body   string            `json:"body"`
	Header map[string]string `json:"header"`
}

// The signature vector, and cases C146 to C149: the bytes as received are signed.
func TestSignatures(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/signatures.json")
	require.NoError(t, err)
	var vectors []vector
	require.NoError(t, json.Unmarshal(raw, &vectors))
	require.Len(t, vectors, 5)
	k := meta.New(meta.Config{})
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			s := none.source(map[string]string{"app_secret": v.Secret})
			signature := v.Header["X-Hub-Signature-256"]
			got := k.Receive(post([]byte(v.Body), signature), s, time.Now())
			require.Equal(t, 200, got.Answer.Status)
			require.Len(t, got.Notices, 1)
			require.Equal(t, 200, k.Receive(post([]byte(v.Body), "sha256="+strings.ToUpper(signature[7:])), s, time.Now()).Answer.Status)

			refused := func(body, signature string) {
				t.Helper()
				got := k.Receive(post([]byte(body), signature), s, time.Now())
				require.Contains(t, []int{401, 403}, got.Answer.Status)
				require.Empty(t, got.Notices)
				require.Empty(t, got.Leads)
			}
			for i := range v.Body {
				b := []byte(v.Body)
				b[i] ^= 1
				refused(string(b), signature)
			}
			mac := hmac.New(sha1.New, []byte(v.Secret))
			mac.Write([]byte(v.Body))
			for _, wrong := range []string{
				"", "sha256=", signature[7:], "sha256=zz", "sha256=" + signature[7:40], signature + "00", signature + "0", " " + signature,
				"sha1=" + hex.EncodeToString(mac.Sum(nil)), "sha256=" + hex.EncodeToString(mac.Sum(nil)), capitest.Sign("another", []byte(v.Body)),
			} {
				refused(v.Body, wrong)
			}
			r := post([]byte(v.Body), "")
			r.Header.Set("X-Hub-Signature", "sha1="+hex.EncodeToString(mac.Sum(nil)))
			require.Equal(t, 401, k.Receive(r, s, time.Now()).Answer.Status)
		})
	}
	body := []byte(`{}`)
	require.Equal(t, 401, k.Receive(post(body, capitest.Sign("", body)), none.source(map[string]string{"app_secret": ""}), time.Now()).Answer.Status,
		"no secret verifies nothing")
}

// The samples, and cases C155 to C158 and C166.
func TestNotices(t *testing.T) {
	t.Parallel()
	one := func(change string) string { return `{"object":"page","entry":[{"id":"1","changes":[` + change + `]}]}` }
	cases := []struct {
		name, body string
		want       []string // key owner
	}{
		{"sample", string(sample(t, "meta-leadgen-webhook.json")), []string{"987650000012345 100000000000001"}},
		{"batch", string(sample(t, "meta-leadgen-webhook-batch.json")), []string{
			"987650000012345 100000000000001", "987650000012346 100000000000001", "987650000012347 100000000000009",
		}},
		{
			"C155", `{"object":"page","entry":[{"id":"1","time":1750000000,"changes":[{"field":"leadgen","value":{"leadgen_id":"1234567890123456","page_id":"1","form_id":"2"}},
			{"field":"leadgen","value":{"leadgen_id":"1234567890123457","page_id":"1","form_id":"2"}}]},
			{"id":"3","changes":[{"field":"leadgen","value":{"leadgen_id":"1234567890123458","page_id":"3","form_id":"4"}}]}]}`,
			[]string{"1234567890123456 1", "1234567890123457 1", "1234567890123458 3"},
		},
		{
			"C156", `{"object":"page","entry":[{"id":"1"},{"id":"1","changes":[]},{"id":"1","changes":{}},7,{"id":"1","changes":[{"field":"feed","value":{"item":"post"}},
			null,{"field":"leadgen"},{"field":"leadgen","value":{"page_id":"1"}},{"field":"leadgen","value":{"leadgen_id":"1234567890123456","page_id":"1"}}]}]}`,
			[]string{"1234567890123456 1"},
		},
		{"C157 user", `{"object":"user","entry":[]}`, nil},
		{"C157 no entry", `{"object":"page"}`, nil},
		{"C157 no JSON", `not json`, nil},
		{"nothing", ``, nil},
		{
			"C158", one(`{"field":"leadgen","value":{"leadgen_id":1234567890123456,"ad_id":0}},{"field":"leadgen","value":{"leadgen_id":"1234567890123456"}}`),
			[]string{"1234567890123456 1"},
		},
		{"C166", one(`{"field":"leadgen","value":{"leadgen_id":"{leadgen_id}"}},{"field":"leadgen","value":{"leadgen_id":1e15}}`), nil},
	}
	k := meta.New(meta.Config{})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, n := range deliver(t, k, none.source(nil), []byte(c.body)) {
				require.False(t, n.Deleted)
				got = append(got, n.Key+" "+n.Owner)
			}
			require.Equal(t, c.want, got)
		})
	}
	n := deliver(t, k, none.source(nil), sample(t, "meta-leadgen-webhook.json"))
	require.JSONEq(t, `{"leadgen_id":"987650000012345","page_id":"100000000000001","form_id":"200000000000002","ad_id":"300000000000003","created_time":"1794999997"}`, string(n[0].Body))
	n = deliver(t, k, none.source(nil), []byte(cases[8].body))
	require.JSONEq(t, `{"leadgen_id":"1234567890123456","page_id":"1"}`, string(n[0].Body), "no ad")
}

func FuzzReceive(f *testing.F) {
	f.Add([]byte(`{"object":"page","entry":[{"id":1,"changes":[{"field":"leadgen","value":{"leadgen_id":"1234567890123456"}}]}]}`), "sha256=00", "hub.mode=subscribe")
	f.Add([]byte(`{"object":"page","entry":[null,[],{"changes":[{"field":"leadgen","value":[]}]}]}`), "sha256=zz", "")
	k, s := meta.New(meta.Config{}), none.source(nil)
	f.Fuzz(func(t *testing.T, body []byte, signature, query string) {
		if !strings.EqualFold(signature, capitest.Sign(appSecret, body)) {
			got := k.Receive(post(body, signature), s, time.Time{})
			require.Equal(t, leadform.Received{Answer: got.Answer}, got)
			require.GreaterOrEqual(t, got.Answer.Status, 401)
		}
		got := k.Receive(post(body, capitest.Sign(appSecret, body)), s, time.Time{})
		require.Equal(t, 200, got.Answer.Status)
		for _, n := range got.Notices {
			require.NotEmpty(t, n.Key)
			require.True(t, json.Valid(n.Body))
		}
		k.Receive(get(query), s, time.Time{})
	})
}
