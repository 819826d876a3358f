package linkedin_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/leadform/leadformtest"
	"github.com/capiloop/capiloop/internal/leadform/linkedin"
)

// sender stands in for LinkedIn's webhooks: it asks every two hours whether it is still us,
// and after three wrong answers in a row sends nothing more; every fourth event twice, and
// again as assumed of LinkedIn.
type sender struct {
	post func(r leadform.Request) leadform.Answer

	mu      sync.Mutex
	wrong   int // challenges in a row
	blocked bool
	sent    int
	lost    int // events given up or never sent
}

const challenge, challengeResponse = "890e4665-4dfe-4ab1-b689-ed553bceeed0", "0469fb6fa7e71745ece55ececf37219c81facc5147330a18db15c56b0ac165c1"

// ask puts the challenge of signatures.json.
func (s *sender) ask() {
	a := s.post(leadform.Request{Method: http.MethodGet, Query: url.Values{"challengeCode": {challenge}}, Header: http.Header{}})
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.Status == http.StatusOK && a.ContentType == "application/json" && strings.Contains(string(a.Body), challengeResponse) {
		s.wrong = 0
		return
	}
	s.wrong++
	s.blocked = s.blocked || s.wrong == 3
}

func (s *sender) send(n int, action string) {
	body := fmt.Appendf(nil, `{"type":"LEAD_ACTION","leadGenFormResponse":"urn:li:leadGenFormResponse:00000000-0000-4000-8000-%012d-6",`+
		`"owner":{"sponsoredAccount":"%s"},"leadType":"SPONSORED","leadAction":"%s","occurredAt":1795000000000}`, n, owner, action)
	times := 1
	if n%4 == 0 {
		times = 2
	}
	for range times {
		requests, taken := 0, false
		if s.mayPost() {
			requests, taken = leadformtest.LinkedIn().Deliver(func() int { return s.post(post(body, sign("hmacsha256=", body))).Status }, time.Sleep)
		}
		s.mu.Lock()
		s.sent += requests
		if !taken {
			s.lost++
		}
		s.mu.Unlock()
	}
}

func (s *sender) mayPost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.blocked
}

func TestTheSenderLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		k := linkedin.New(linkedin.Config{})
		var mu sync.Mutex
		kept := map[string]bool{} // key and what happened
		s := &sender{post: func(r leadform.Request) leadform.Answer {
			mu.Lock()
			defer mu.Unlock()
			got := k.Receive(r, none.source(nil), time.Now())
			if down := time.Since(began); len(got.Notices) > 0 && down > 10*time.Minute && down < 5*time.Hour { // the storage is
				return leadform.Answer{Status: http.StatusServiceUnavailable}
			}
			for _, n := range got.Notices {
				kept[fmt.Sprint(n.Key, n.Deleted)] = true
			}
			return got.Answer
		}}
		var all sync.WaitGroup
		for n := range 40 {
			if n%10 == 0 {
				s.ask()
			}
			all.Go(func() {
				s.send(n, "CREATED")
				if n < 5 {
					s.send(n, "DELETED")
				}
			})
			time.Sleep(12 * time.Minute)
		}
		all.Wait()
		require.Len(t, kept, 45)
		require.Zero(t, s.lost)
		require.Greater(t, s.sent, 500, "most were repeated for hours")

		stranger := &sender{post: func(r leadform.Request) leadform.Answer {
			return k.Receive(r, none.source(map[string]string{"client_secret": "another"}), time.Now()).Answer
		}}
		stranger.send(1, "CREATED")
		require.Equal(t, 97, stranger.sent, "a signature that is none is refused every five minutes for eight hours")
		for range 3 {
			stranger.ask()
		}
		stranger.send(2, "CREATED")
		require.Equal(t, 97, stranger.sent, "who answers three challenges wrong is told nothing more")
		require.Equal(t, 2, stranger.lost)
	})
}
