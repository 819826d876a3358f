package meta_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/leadform/leadformtest"
	"github.com/capiloop/capiloop/internal/leadform/meta"
)

// sender stands in for Meta's webhooks: several leads in a request, news of other fields
// among them, each request signed and repeated as Meta does, every fifth one twice.
type sender struct {
	secret string
	post   func(r leadform.Request) int

	mu   sync.Mutex
	sent int
	lost int // requests given up
}

func (s *sender) send(n int) {
	body := fmt.Appendf(nil, `{"object":"page","entry":[{"id":"%[1]s","time":1794999997,"changes":[{"field":"feed","value":{"item":"post"}},`+
		`{"field":"leadgen","value":{"leadgen_id":"%[2]d","page_id":"%[1]s","form_id":"%[3]s","created_time":1794999997}},`+
		`{"field":"leadgen","value":{"leadgen_id":"%[4]d","page_id":"%[1]s","form_id":"%[3]s","created_time":1794999997}}]}]}`,
		page, 987650000000000+2*n, formA, 987650000000001+2*n)
	times := 1
	if n%5 == 0 {
		times = 2
	}
	for range times {
		requests, taken := leadformtest.Meta().Deliver(func() int { return s.post(post(body, capitest.Sign(s.secret, body))) }, time.Sleep)
		s.mu.Lock()
		s.sent += requests
		if !taken {
			s.lost++
		}
		s.mu.Unlock()
	}
}

func TestTheSenderLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		k := meta.New(meta.Config{})
		var mu sync.Mutex
		kept := map[string]int{}
		answer := func(r leadform.Request) int {
			mu.Lock()
			defer mu.Unlock()
			got := k.Receive(r, none.source(nil), time.Now())
			if down := time.Since(began); down > 10*time.Minute && down < 17*time.Hour { // the storage is
				return http.StatusServiceUnavailable
			}
			fresh := false
			for _, n := range got.Notices {
				fresh = fresh || kept[n.Key] == 0
				kept[n.Key]++
			}
			if fresh {
				return 0 // it is kept, but the answer came too late
			}
			return got.Answer.Status
		}
		s := &sender{secret: appSecret, post: answer}
		var all sync.WaitGroup
		for n := range 40 {
			all.Go(func() { s.send(n) })
			time.Sleep(time.Minute)
		}
		all.Wait()
		require.Len(t, kept, 80, "each of them, and no other news")
		require.Zero(t, s.lost)
		require.Greater(t, s.sent, 200, "most were repeated for hours")

		stranger := &sender{secret: "another", post: answer}
		stranger.send(1)
		require.Less(t, stranger.sent, 15, "a signature that is none is refused for a day and a half, without a storm")
		require.Equal(t, 1, stranger.lost)
		require.Len(t, kept, 80)
	})
}
