package tiktok_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/leadform"
)

// sender stands in for TikTok: batches, ids as bare numbers of 19 digits, texts beyond
// ASCII signed escaped, every fourth batch twice; what is not answered 200 is repeated.
type sender struct {
	post func(body, signature string) leadform.Answer
	sent int
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
	times := 1
	if batch%4 == 0 {
		times = 2
	}
	for range times {
		for range 10 {
			s.sent++
			if s.post(body(&entries), hex.EncodeToString(mac.Sum(nil))).Status == 200 {
				break
			}
		}
	}
}

func TestTheSenderLosesNothing(t *testing.T) {
	t.Parallel()
	kept := map[string]string{}
	count := 0
	s := &sender{post: func(body, signature string) leadform.Answer {
		r := receive(body, signature)
		if count++; count%3 == 0 { // the storage is down
			return leadform.Answer{Status: r.Busy}
		}
		for _, l := range r.Leads {
			kept[l.LeadID] = l.Contact.FullName
		}
		return r.Answer
	}}
	for batch := range 40 {
		s.send(batch)
	}
	require.Len(t, kept, 120)
	require.Greater(t, s.sent, 50)
	require.Equal(t, "Zoë 王 😀", kept["7500000000000000119"])
}
