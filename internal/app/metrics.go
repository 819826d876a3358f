package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
)

// deliveryMetrics counts what deliver does. Labels are few and never personal.
type deliveryMetrics struct {
	settings *config.Live
	clock    ledger.Clock
	requests *prometheus.CounterVec
	events   *prometheus.CounterVec
	took     *prometheus.HistogramVec
	delay    *prometheus.HistogramVec
	held     *prometheus.GaugeVec
}

func newDeliveryMetrics(r prometheus.Registerer, s *config.Live, c ledger.Clock) *deliveryMetrics {
	m := &deliveryMetrics{
		settings: s, clock: c,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "capiloop_delivery_requests_total", Help: "Requests to a destination by outcome: sent, retry, split, refused, held, lost.",
		}, []string{"destination", "outcome"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "capiloop_delivered_events_total", Help: "Events and leads by the state that a request brought them to.",
		}, []string{"destination", "state"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "capiloop_delivery_request_seconds", Help: "Time from sending a request to its answer.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"destination"}),
		delay: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "capiloop_delivery_delay_seconds", Help: "Time from the receipt of an event or a lead to the acceptance by the dataset or CRM.",
			Buckets: []float64{.1, .5, 1, 3, 10, 60, 600, 3600, 6 * 3600, 24 * 3600, 72 * 3600},
		}, []string{"destination"}),
		held: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "capiloop_destination_held", Help: "1 while a destination is held and needs a repair.",
		}, []string{"destination"}),
	}
	r.MustRegister(m.requests, m.events, m.took, m.delay, m.held)
	return m
}

// Delivered counts one request.
func (m *deliveryMetrics) Delivered(st *ledger.Settlement, took time.Duration) {
	name := m.nameOf(st.Batch.Destination)
	m.requests.WithLabelValues(name, st.Outcome).Inc()
	m.took.WithLabelValues(name).Observe(took.Seconds())
	held := 0.0
	if st.Lane.Held != ledger.None {
		held = 1
	}
	m.held.WithLabelValues(name).Set(held)
	now := m.clock.Now()
	delay := m.delay.WithLabelValues(name)
	for _, c := range st.Changes {
		if c.State == ledger.Waiting {
			continue
		}
		m.events.WithLabelValues(name, string(c.State)).Inc()
		if c.State == ledger.Sent {
			delay.Observe(now.Sub(c.Row.ID.Time()).Seconds())
		}
	}
}

// nameOf returns a dataset's id, or a CRM's name after its workspace's.
func (m *deliveryMetrics) nameOf(destination int64) string {
	now := m.settings.Get()
	if d := now.Destination(destination); d != nil {
		return d.Name
	}
	if w, c := now.CRM(destination); c != nil {
		return w.Name + "/" + c.Name
	}
	return "removed"
}
