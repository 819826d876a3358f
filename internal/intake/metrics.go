package intake

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts requests and events. The zero value counts nothing.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	events   [3]prometheus.Counter // accepted, duplicate, rejected
}

func newMetrics(r prometheus.Registerer) *metrics {
	if r == nil {
		return &metrics{}
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "capiloop_intake_requests_total", Help: "Requests by machines, by route and HTTP status.",
		}, []string{"route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "capiloop_intake_seconds", Help: "Time from a request's first byte to its answer, the disk included.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"route"}),
	}
	events := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capiloop_intake_events_total", Help: "Events that came in, by what became of them at the door.",
	}, []string{"result"})
	for i, result := range []string{"accepted", "duplicate", "rejected"} {
		m.events[i] = events.WithLabelValues(result)
	}
	r.MustRegister(m.requests, m.seconds, events)
	return m
}

func (m *metrics) observe(c *call, status int, took time.Duration) {
	if m.requests == nil {
		return
	}
	m.requests.WithLabelValues(c.route.String(), strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(c.route.String()).Observe(took.Seconds())
	for i, n := range []int{c.tally.accepted, c.tally.duplicates, c.tally.rejected} {
		if n > 0 {
			m.events[i].Add(float64(n))
		}
	}
}
