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
	"github.com/capiloop/capiloop/internal/leadform/leadformtest"
)

// sender stands in for Google: ids as numbers beyond 2^53, a capital G in every fifth
// key, fields of tomorrow, every tenth lead twice, and again as Google does.
type sender struct {
	t    *testing.T
	key  string
	post func(body []byte) leadform.Answer

	mu   sync.Mutex
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
	s.deliver(body)
	if n%10 == 0 {
		s.deliver(body)
	}
}

func (s *sender) deliver(body []byte) {
	requests, taken := leadformtest.Google().Deliver(func() int {
		a := s.post(body)
		if a.Status != http.StatusOK && a.Status < 500 {
			require.Contains(s.t, string(a.Body), `{"message":"`)
		}
		return a.Status
	}, time.Sleep)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent += requests
	if !taken {
		s.lost++
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
