package intake_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/intake"
	"github.com/capiloop/capiloop/internal/leadform/leadformtest"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/store"
)

// disk is one that takes nothing at first, and then fails after it has taken what came.
// Together that is less often than any platform tries.
type disk struct{ refuses, doubts atomic.Int64 }

func newDisk() *disk {
	d := &disk{}
	d.refuses.Store(6)
	d.doubts.Store(5)
	return d
}

var errDisk = errors.New("disk full")

func (d *disk) before() error { return failing(&d.refuses) }

func (d *disk) after() error { return failing(&d.doubts) }

func failing(left *atomic.Int64) error {
	if left.Add(-1) >= 0 {
		return errDisk
	}
	return nil
}

type diskLeads struct {
	intake.LeadRecorder
	*disk
}

func (d diskLeads) Lead(ctx context.Context, ws *config.Workspace, l *ledger.Lead) (record.LeadResult, error) {
	if err := d.before(); err != nil {
		return record.LeadResult{}, err
	}
	done, err := d.LeadRecorder.Lead(ctx, ws, l)
	return done, cmp.Or(err, d.after())
}

type diskInbox struct {
	intake.Inbox
	*disk
}

func (d diskInbox) AddNotices(ctx context.Context, list []store.Notice) (int, error) {
	if err := d.before(); err != nil {
		return 0, err
	}
	n, err := d.Inbox.AddNotices(ctx, list)
	return n, cmp.Or(err, d.after())
}

// platformCase is a source as its platform calls it.
type platformCase struct {
	repeats leadformtest.Repeats
	per     int                // leads in a request
	request func(n int) []byte // the nth
	header  string             // of the signature; "": it signs nothing
	sign    func(body []byte) string
	more    []string // other headers
	forged  func(body []byte) (no []byte, signature string)
	refused int  // requests until what is forged is given up
	notices bool // the leads are read later
}

func hexHMAC(key, before string) func(body []byte) string {
	return func(body []byte) string {
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte(before))
		mac.Write(body)
		return hex.EncodeToString(mac.Sum(nil))
	}
}

func platformCases() map[string]platformCase {
	unsigned := func([]byte) string { return "" }
	forged := func(body []byte) ([]byte, string) { return body, "00" }
	return map[string]platformCase{
		"google": {
			repeats: leadformtest.Google(), per: 1, refused: 1,
			request: func(n int) []byte {
				return fmt.Appendf(nil, `{"lead_id":"lead-%d","user_column_data":[{"column_id":"EMAIL","string_value":"p%d@example.com"}],"form_id":40000000000,"google_key":"%s"}`, n, n, googleKey)
			},
			sign: unsigned,
			forged: func(body []byte) ([]byte, string) {
				return bytes.Replace(body, []byte(googleKey), []byte("another"), 1), ""
			},
		},
		"tiktok": {
			repeats: leadformtest.TikTok(), per: 2, header: "X-Open-Signature", sign: hexHMAC(tiktokSecret, ""), forged: forged, refused: 12,
			request: func(n int) []byte {
				return fmt.Appendf(nil, `{"object":1,"time":1795000000,"entry":[{"id":%[1]d01,"changes":[{"field":"email","value":"p%[1]d@example.com"}]},{"id":%[1]d02,"changes":[{"field":"email","value":"q%[1]d@example.com"}]}]}`, 75000000000000000+n)
			},
		},
		"forms": {
			repeats: leadformtest.Meta(), per: 1, header: "X-Hub-Signature-256", forged: forged, refused: 13, notices: true,
			sign: func(body []byte) string { return capitest.Sign(metaSecret, body) },
			request: func(n int) []byte {
				return fmt.Appendf(nil, `{"object":"page","entry":[{"id":"%[1]s","changes":[{"field":"leadgen","value":{"leadgen_id":"%[2]d","page_id":"%[1]s"}}]}]}`, pageOne, 987650000000000+n)
			},
		},
		"linkedin": {
			repeats: leadformtest.LinkedIn(), per: 1, header: "X-LI-Signature", sign: hexHMAC(linkedinSecret, "hmacsha256="), forged: forged, refused: 97, notices: true,
			request: func(n int) []byte {
				return fmt.Appendf(nil, `{"type":"LEAD_ACTION","leadGenFormResponse":"urn:li:leadGenFormResponse:00000000-0000-4000-8000-%012d-6","leadAction":"CREATED","occurredAt":1795000000000}`, n)
			},
		},
		"site": {
			repeats: leadformtest.Visitor(), per: 1, header: "Origin", refused: 1, more: []string{"Accept", "text/html"},
			forged: func(body []byte) ([]byte, string) { return body, "https://evil.example.net" },
			sign:   func([]byte) string { return origin },
			request: func(n int) []byte {
				return fmt.Appendf(nil, `{"email":"p%d@example.com","message":"a roof"}`, n)
			},
		},
	}
}

// Each platform at a gateway whose storage is down, then in doubt, then well.
func TestPlatformsRepeatUntilALeadIsKeptOnce(t *testing.T) {
	t.Parallel()
	for name, c := range platformCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t, func(conf *intake.Config) {
				broken := newDisk()
				conf.Leads, conf.Inbox = diskLeads{conf.Leads, broken}, diskInbox{conf.Inbox, broken}
			})
			deliver := func(body []byte, signature string) (requests int, taken bool) {
				headers := append([]string{"Content-Type", "application/json"}, c.more...)
				if c.header != "" {
					headers = append(headers, c.header, signature)
				}
				return c.repeats.Deliver(func() int {
					return d.call(http.MethodPost, hook(name), bytes.NewReader(body), headers...).Code
				}, func(time.Duration) {})
			}
			kept := func() int {
				if c.notices {
					return int(d.notices(t, d.one))
				}
				return len(d.kept(t, d.one))
			}
			const events = 12
			var requests, lost atomic.Int64
			var all sync.WaitGroup
			for n := range events {
				for range 1 + n%2 { // every other one twice, side by side: a duplicate, a double click
					all.Go(func() {
						body := c.request(n)
						tries, taken := deliver(body, c.sign(body))
						requests.Add(int64(tries))
						if !taken {
							lost.Add(1)
						}
					})
				}
			}
			all.Wait()
			require.Zero(t, lost.Load())
			require.Equal(t, events*c.per, kept())
			require.EqualValues(t, events*3/2+6+5, requests.Load(), "no request but those that had to be repeated")
			tries, taken := deliver(c.request(3), c.sign(c.request(3)))
			require.True(t, taken)
			require.Equal(t, 1, tries)
			require.Equal(t, events*c.per, kept(), "what comes once more later is no other lead")

			// Somebody else's is refused, and the platform comes to an end of it.
			body, signature := c.forged(c.request(99))
			tries, taken = deliver(body, signature)
			require.False(t, taken)
			require.Equal(t, c.refused, tries)
			require.Equal(t, events*c.per, kept())
			require.NotContains(t, d.log.String(), "@example.com")
		})
	}
}
