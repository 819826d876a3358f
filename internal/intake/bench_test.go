package intake_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/capiloop/capiloop/internal/intake"
)

// BenchmarkOneEvent is what the door costs by itself: all but the disk.
func BenchmarkOneEvent(b *testing.B) {
	d := open(b, func(c *intake.Config) { c.Recorder, c.Log = dry{}, nil })
	for name, c := range map[string]struct{ target, body string }{
		"v1":    {"/v1/events", lead("a")},
		"graph": {"/v26.0/" + datasetOne + "/events", `{"data":[` + lead("a") + `]}`},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				r := httptest.NewRequest(http.MethodPost, c.target, nil)
				r.Header.Set("Authorization", "Bearer "+keyOne)
				r.Header.Set("Content-Type", "application/json")
				r.ContentLength = int64(len(c.body))
				for p.Next() {
					r.Body = io.NopCloser(strings.NewReader(c.body))
					w := httptest.NewRecorder()
					d.ServeHTTP(w, r)
					if w.Code >= 300 {
						b.Fatal(w.Body.String())
					}
				}
			})
		})
	}
}

// BenchmarkTag is a report of the tag with the disk: what a page waits for, if it did.
func BenchmarkTag(b *testing.B) {
	d := open(b, func(c *intake.Config) { c.Log, c.TrustedProxies = nil, prefixes("192.0.2.0/24") })
	took := make([]time.Duration, 0, 1<<16)
	for n := 0; b.Loop(); n++ {
		body := said("shop-hold", granted, tagged("Purchase", strconv.Itoa(n), `,"custom_data":{"value":49.9,"currency":"EUR"},"user_data":{"em":"jane@example.com","fbp":"fb.1.1759270000000.123"}`))
		start := time.Now()
		a := d.report(body, "X-Forwarded-For", netip.AddrFrom4([4]byte{100, byte(n >> 16), byte(n >> 8), byte(n)}).String())
		took = append(took, time.Since(start))
		if a.Code != http.StatusNoContent {
			b.Fatal(a.Body.String())
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
