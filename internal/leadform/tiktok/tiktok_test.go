package tiktok_test

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

	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/leadform/tiktok"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

const appSecret = "tiktok-app-secret-0001"

var now = time.Unix(1795000000, 0).UTC()

func source(texts map[string]string) leadform.Source {
	return leadform.Source{
		Workspace: 7, Kind: tiktok.Name, Name: "tiktok", CreatedAt: now.Add(-time.Hour),
		Options: secret.NewOptions(texts, nil, nil),
	}
}

func receive(body, signature string) leadform.Received {
	return receiveAt(source(map[string]string{"app_secret": appSecret}), body, signature)
}

func receiveAt(s leadform.Source, body, signature string) leadform.Received {
	r := leadform.Request{Method: http.MethodPost, Header: http.Header{}, Body: []byte(body)}
	if signature != "" {
		r.Header.Set("X-Open-Signature", signature)
	}
	return tiktok.Kind{}.Receive(r, s, now)
}

// read takes an unsigned body.
func read(t *testing.T, body string) []ledger.Lead {
	t.Helper()
	r := receiveAt(source(map[string]string{"require_signature": "false"}), body, "")
	require.Equal(t, 200, r.Answer.Status)
	return r.Leads
}

func sample(tb testing.TB, name string) string {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(tb, err)
	return string(raw)
}

type vector struct {
	Name, Secret, Body string
	Header             map[string]string
}

func vectors(tb testing.TB) []vector {
	tb.Helper()
	var list []vector
	require.NoError(tb, json.Unmarshal([]byte(sample(tb, "signatures.json")), &list))
	require.Len(tb, list, 3)
	return list
}

func TestSignatureVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, appSecret, v.Secret)
			signature := v.Header["X-Open-Signature"]
			r := receive(v.Body, signature)
			require.Equal(t, 200, r.Answer.Status, "%s", r.Answer.Body)
			require.NotEmpty(t, r.Leads)
			require.Equal(t, 200, receive(v.Body, strings.ToUpper(signature)).Answer.Status)

			for i := range len(v.Body) {
				flipped := []byte(v.Body)
				flipped[i] ^= 1
				requireRefused(t, receive(string(flipped), signature))
			}
			requireRefused(t, receive(v.Body, signature[:63]+"z"))
			requireRefused(t, receive(v.Body, signature[:32]))
			requireRefused(t, receive(v.Body, strings.Replace(signature, signature[:1], "0", 1)+"00"))
			requireRefused(t, receive(v.Body, ""))
			requireRefused(t, receiveAt(source(map[string]string{"app_secret": "another"}), v.Body, signature))
			requireRefused(t, receiveAt(source(nil), v.Body, signature))
			requireRefused(t, receiveAt(source(map[string]string{"app_secret": appSecret, "require_signature": "false"}), v.Body, strings.Repeat("0", 64)))
			require.Equal(t, 200, receiveAt(source(map[string]string{"app_secret": appSecret, "require_signature": "false"}), v.Body, "").Answer.Status)
		})
	}
}

func requireRefused(t *testing.T, r leadform.Received) {
	t.Helper()
	require.Equal(t, 401, r.Answer.Status)
	require.Empty(t, r.Leads)
	require.NotContains(t, string(r.Answer.Body), appSecret)
}

func TestSampleFilesAreSignedAsTheyStand(t *testing.T) {
	t.Parallel()
	require.Len(t, receive(sample(t, "tiktok-lead-webhook.json"), "d11b0ccd6a5d0fd48e2dfb3d10358bda72b5250c599a5f7997d934461ab21eae").Leads, 2)
	for _, signature := range []string{
		"a379f06fde20f4da9a46ef27ea34bd4c2e4785a8555824e579adac34513caef4",
		"22d9ed5af3d597f192494a31c54e998f0d3132be4397ae9dcdf8cfa87f349b4e",
	} {
		r := receive(sample(t, "tiktok-lead-webhook-unicode.json"), signature)
		require.Len(t, r.Leads, 1)
		require.Equal(t, "Zoë 王", r.Leads[0].Contact.FullName)
	}
}

func TestTheLeadsOfTheSample(t *testing.T) {
	t.Parallel()
	leads := read(t, sample(t, "tiktok-lead-webhook.json"))
	require.Len(t, leads, 2)
	l := leads[0]
	require.Equal(t, "7500000000000000123", l.LeadID, "a bare number of 19 digits")
	require.Equal(t, ledger.Origin{
		FormID: "7500000000000000200", FormName: "Form A", CampaignID: "7500000000000000400", CampaignName: "Campaign A",
		AdSetID: "7500000000000000500", AdSetName: "Group A", AdID: "7500000000000000600", AdName: "Ad A",
	}, l.Origin)
	require.Equal(t, time.Unix(1794999998, 0).UTC(), l.CreatedAt)
	require.Equal(t, "tiktok", l.Platform)
	require.Equal(t, "tiktok_leads", l.Kind)
	require.Equal(t, "Ana Example", l.Contact.FullName)
	require.Equal(t, "ana.lead@example.com", l.Contact.Email)
	require.Equal(t, "+12025550143", l.Contact.Phone)
	require.Equal(t, ledger.FormAnswer{Question: "What do you need?", Values: []string{"Roof repair"}}, l.Answers[3])
	require.False(t, l.History)

	l = leads[1]
	require.Equal(t, "7500000000000000124", l.LeadID)
	require.Equal(t, "direct_message", l.Origin.Channel)
	require.Equal(t, ledger.Contact{Phone: "+12025550199"}, l.Contact)
}

func TestOtherNewsIsAnswered200(t *testing.T) {
	t.Parallel()
	for _, object := range []string{"2", "3", "8", "10", "11", "14", `"99"`, "null", `{"a":1}`} {
		require.Empty(t, read(t, `{"object":`+object+`,"entry":[{"id":"1","changes":[]}]}`))
	}
	require.Empty(t, read(t, `{}`))
	require.Empty(t, read(t, `{"object":1}`))
	require.Len(t, read(t, `{"object":"1","entry":[{"id":"1"}]}`), 1)
}

func TestWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := source(map[string]string{"require_signature": "no"})
	require.Equal(t, 400, receiveAt(s, "not json", "").Answer.Status)
	require.Equal(t, 400, receiveAt(s, `{"object":1,"entry":{}}`, "").Answer.Status)
	r := tiktok.Kind{}.Receive(leadform.Request{Method: http.MethodGet}, s, now)
	require.Equal(t, 405, r.Answer.Status)
}

func TestOneBadEntryDoesNotTakeTheOthersDown(t *testing.T) {
	t.Parallel()
	leads := read(t, `{"object":1,"entry":[7,{},null,{"id":0},{"id":"8","create_time":"soon","changes":[1,{"field":"email"},{"field":"email","value":null},
		{"field":"phone_number","value":[]},{"field":"Which?","value":["a","b",3]},{"field":"city","value":{"x":1}},{"value":"x"}]},{"id":"9","changes":"none"},
		{"changes":[{"field":"email","value":"a@example.com"}]}]}`)
	require.Len(t, leads, 3)
	require.Equal(t, "8", leads[0].LeadID)
	require.Equal(t, now, leads[0].CreatedAt)
	require.Equal(t, []ledger.FormAnswer{{Question: "Which?", Values: []string{"a", "b", "3"}}}, leads[0].Answers)
	require.Equal(t, "9", leads[1].LeadID)
	require.NotEmpty(t, leads[2].DedupeKey, "no id: known by its text")
}

func TestALeadFromBeforeTheConnectionIsHistory(t *testing.T) {
	t.Parallel()
	leads := read(t, `{"object":1,"entry":[{"id":"1","create_time":1794000000},{"id":"2","create_time":1794999999}]}`)
	require.True(t, leads[0].History)
	require.False(t, leads[1].History)
}

func TestAThousandEntries(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for n := range 1000 {
		fmt.Fprintf(&b, `,{"id":%d,"changes":[{"field":"email","value":"p%d@example.com"}]}`, 7500000000000000000+n, n)
	}
	leads := read(t, `{"object":1,"entry":[`+b.String()[1:]+`]}`)
	require.Len(t, leads, 1000)
	require.Equal(t, "7500000000000000999", leads[999].LeadID)
	require.Equal(t, "p999@example.com", leads[999].Contact.Email)
}

func FuzzReceive(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add([]byte(v.Body), v.Header["X-Open-Signature"], false)
		f.Add([]byte(v.Body), "", true)
	}
	f.Add([]byte("\"\xff😀"), "00", false)
	f.Fuzz(func(t *testing.T, body []byte, signature string, unsigned bool) {
		texts := map[string]string{"app_secret": appSecret}
		if unsigned {
			texts = map[string]string{"require_signature": "false"}
		}
		r := receiveAt(source(texts), string(body), signature)
		require.Contains(t, []int{200, 400, 401}, r.Answer.Status)
		require.True(t, r.Answer.Status == 200 || len(r.Leads) == 0)
		for _, l := range r.Leads {
			require.True(t, l.LeadID != "" || l.DedupeKey != "")
		}
	})
}
