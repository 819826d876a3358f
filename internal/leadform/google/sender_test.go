package google_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/leadform/google"
)

// sender stands in for Google: ids as numbers beyond 2^53, a capital G in every fifth
// key, fields of tomorrow, every tenth lead twice; it repeats what was answered 5xx and
// gives up what was answered 4xx.
type sender struct {
	t    *testing.T
	key  string
	post func(body []byte) leadform.Answer
	sent int // requests
	lost int // leads given up
}

func (s *sender) send(n int) {
	name := "google_key"
	if n%5 == 0 {
		name = "Google_key"
	}
	body := []byte(fmt.Sprintf(`{"lead_id":"lead-%d","user_column_data":[{"column_id":"EMAIL","string_value":"p%d@example.com"}],"api_version":"1.0",`+
		`"form_id":%d,"campaign_id":%d,%q:%q,"is_test":false,"gcl_id":"","lead_source":"x","tomorrow":{"a":[1]}}`, n, n, 40000000000+n, 9007199254740993+n, name, s.key))
	times := 1
	if n%10 == 0 {
		times = 2
	}
	for range times {
		for range 10 {
			s.sent++
			a := s.post(body)
			if a.Status >= 500 {
				continue
			}
			if a.Status >= 400 {
				require.Contains(s.t, string(a.Body), `{"message":"`)
				s.lost++
			}
			break
		}
	}
}

func TestTheSenderLosesNothing(t *testing.T) {
	t.Parallel()
	kept := map[string]string{} // lead id to campaign
	count := 0
	post := func(body []byte) leadform.Answer {
		r := google.Kind{}.Receive(leadform.Request{Method: http.MethodPost, Body: body}, source(), now)
		if count++; count%3 == 0 && len(r.Leads) > 0 { // the storage is down
			return leadform.Answer{Status: r.Busy}
		}
		for _, l := range r.Leads {
			kept[l.LeadID] = l.Origin.CampaignID
		}
		return r.Answer
	}
	s := &sender{t: t, key: "google-key-0001", post: post}
	for n := range 100 {
		s.send(n)
	}
	require.Len(t, kept, 100)
	require.Zero(t, s.lost)
	require.Greater(t, s.sent, 110)
	require.Equal(t, "9007199254740994", kept["lead-1"])

	s = &sender{t: t, key: strings.ToUpper("google-key-0001"), post: post}
	s.send(1)
	require.Equal(t, 1, s.sent, "a refusal is not repeated")
	require.Equal(t, 1, s.lost)
}
