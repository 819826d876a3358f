package intake_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
