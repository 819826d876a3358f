package google_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/leadform/google"
)

// sender stands in for Google: ids as numbers beyond 2^53, a capital G in every fifth
// key, fields of tomorrow, every tenth lead twice. What was answered 5xx it repeats with a
// growing delay, as Google says; how long it does and how often Google does not publish
// (support.google.com/google-ads/answer/16729613): here a minute, doubled up to an hour,
// for a day. What was answered 4xx it gives up.
type sender struct {
	t    *testing.T
	key  string
	post func(body []byte) leadform.Answer

	mu   sync.Mutex
	sent int // requests
	lost int // leads given up
}

const (
	firstDelay  = time.Minute
	longestWait = time.Hour
	givesUp     = 24 * time.Hour
)

func (s *sender) send(n int) {
	name := "google_key"
	if n%5 == 0 {
		name = "Google_key"
	}
	body := []byte(fmt.Sprintf(`{"lead_id":"lead-%d","user_column_data":[{"column_id":"EMAIL","string_value":"p%d@example.com"}],"api_version":"1.0",`+
		`"form_id":%d,"campaign_id":%d,%q:%q,"is_test":false,"gcl_id":"","lead_source":"x","tomorrow":{"a":[1]}}`, n, n, 40000000000+n, 9007199254740993+n, name, s.key))
	s.deliver(body)
	if n%10 == 0 {
		s.deliver(body)
	}
}

// deliver posts until it is taken or refused.
func (s *sender) deliver(body []byte) {
	began := time.Now()
	for delay := firstDelay; ; delay = min(2*delay, longestWait) {
		s.mu.Lock()
		s.sent++
		s.mu.Unlock()
		a := s.post(body)
		if a.Status < 400 {
			return
		}
		if a.Status < 500 || time.Since(began) > givesUp {
			require.Contains(s.t, string(a.Body), `{"message":"`)
			s.mu.Lock()
			s.lost++
			s.mu.Unlock()
			return
		}
		time.Sleep(delay)
	}
}

func TestTheSenderLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex
		kept := map[string]string{} // lead id to campaign
		post := func(body []byte) leadform.Answer {
			mu.Lock()
			defer mu.Unlock()
			r := google.Kind{}.Receive(leadform.Request{Method: http.MethodPost, Body: body}, source(), now)
			if down := time.Since(began); len(r.Leads) > 0 && down > 10*time.Minute && down < 5*time.Hour { // the storage is
				return leadform.Answer{Status: r.Busy}
			}
			for _, l := range r.Leads {
				kept[l.LeadID] = l.Origin.CampaignID
			}
			return r.Answer
		}
		s := &sender{t: t, key: "google-key-0001", post: post}
		var all sync.WaitGroup
		for n := range 100 {
			all.Go(func() { s.send(n) })
			time.Sleep(20 * time.Second)
		}
		all.Wait()
		require.Len(t, kept, 100)
		require.Zero(t, s.lost)
		require.Greater(t, s.sent, 400, "most were repeated for hours")
		require.Equal(t, "9007199254740994", kept["lead-1"])

		s = &sender{t: t, key: strings.ToUpper("google-key-0001"), post: post}
		s.send(1)
		require.Equal(t, 1, s.sent, "a refusal is not repeated")
		require.Equal(t, 1, s.lost)
	})
}
