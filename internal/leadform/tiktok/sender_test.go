package tiktok_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/leadform/leadformtest"
)

// sender stands in for TikTok: batches, ids as bare numbers of 19 digits, texts beyond
// ASCII signed escaped, every fourth batch twice, and again as TikTok does.
type sender struct {
	post func(body, signature string) leadform.Answer

	mu   sync.Mutex
	sent int
	lost int // batches given up
}

func (s *sender) send(batch int) {
	var entries, escaped strings.Builder
	for i := range 3 {
		id := 7500000000000000000 + batch*3 + i
		const entry = `{"id":%d,"lead_source":"INSTANT_FORM","create_time":1794999998,"changes":[{"field":"name","value":"%s"},{"field":"email","value":"p%d@example.com"}]},`
		fmt.Fprintf(&entries, entry, id, "Zoë 王 😀", id)
		fmt.Fprintf(&escaped, entry, id, `Zo\u00eb \u738b \ud83d\ude00`, id)
	}
	body := func(b *strings.Builder) string {
		return `{"object":1,"time":1795000000,"entry":[` + strings.TrimSuffix(b.String(), ",") + `]}`
	}
	mac := hmac.New(sha256.New, []byte(appSecret))
	mac.Write([]byte(body(&escaped)))
	signature := hex.EncodeToString(mac.Sum(nil))
	s.deliver(body(&entries), signature)
	if batch%4 == 0 {
		s.deliver(body(&entries), signature)
	}
}

func (s *sender) deliver(body, signature string) {
	requests, taken := leadformtest.TikTok().Deliver(func() int { return s.post(body, signature).Status }, time.Sleep)
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
		kept := map[string]string{}
		s := &sender{post: func(body, signature string) leadform.Answer {
			mu.Lock()
			defer mu.Unlock()
			r := receive(body, signature)
			if down := time.Since(began); down > 10*time.Minute && down < 7*time.Hour { // the storage is
				return leadform.Answer{Status: r.Busy}
			}
			for _, l := range r.Leads {
				kept[l.LeadID] = l.Contact.FullName
			}
			return r.Answer
		}}
		var all sync.WaitGroup
		for batch := range 40 {
			all.Go(func() { s.send(batch) })
			time.Sleep(time.Minute)
		}
		all.Wait()
		require.Len(t, kept, 120)
		require.Zero(t, s.lost)
		require.Greater(t, s.sent, 200, "most were repeated for hours")
		require.Equal(t, "Zoë 王 😀", kept["7500000000000000119"])

		stranger := &sender{post: func(body, _ string) leadform.Answer { return receive(body, "00").Answer }}
		stranger.send(1)
		require.Less(t, stranger.sent, 15, "a signature that is none is refused for a day, without a storm")
		require.Equal(t, 1, stranger.lost)
	})
}
