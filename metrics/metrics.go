// Package metrics counts what a node does, for Prometheus.
//
// Invariants:
//
//   - Everything is in one registry that its maker owns; there is no global one.
//   - Each reserve that was answered adds to at most one of the counters by outcome, on the node that got
//     it, and only there.
//   - A tenant is a label only where that was asked for: names of tenants have no bound.
package metrics

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"onced"
)

// Options are what New needs.
type Options struct {
	Registry *prometheus.Registry // where the metrics go, and what Handler shows
	ByTenant bool                 // adds the label tenant to the counters
}

// Metrics are the metrics of one node. Its methods may be called at once.
type Metrics struct {
	registry *prometheus.Registry
	byTenant bool

	executed, replayed, inProgress, conflicts, unknown *prometheus.CounterVec

	rateLimited, quotaExceeded *prometheus.CounterVec

	requests   *prometheus.HistogramVec
	gateway    *prometheus.HistogramVec
	probes     *prometheus.CounterVec
	operations *prometheus.CounterVec

	door *GatewayMeter
}

// durations are the bounds of the histograms, in seconds: from a replay to the longest wait.
var durations = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// New registers the metrics. A registry takes one Metrics; a second is a broken invariant.
func New(o Options) *Metrics {
	var labels []string
	if o.ByTenant {
		labels = []string{"tenant"}
	}
	counter := func(name, help string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		o.Registry.MustRegister(c)
		if !o.ByTenant {
			c.WithLabelValues() // shown as 0 from the start
		}
		return c
	}
	m := &Metrics{
		registry:      o.Registry,
		byTenant:      o.ByTenant,
		executed:      counter("onced_executed_total", "Reserves that were granted: each is one right to run an operation."),
		replayed:      counter("onced_replayed_total", "Reserves that were answered with the stored response."),
		inProgress:    counter("onced_in_progress_total", "Reserves that were refused because the first one was still running."),
		conflicts:     counter("onced_conflicts_total", "Reserves that were refused because the key was used for another request."),
		unknown:       counter("onced_unknown_total", "Reserves that were refused because the operation may have happened."),
		rateLimited:   counter("onced_rate_limited_total", "Reserves that were refused because their tenant sends more than it may."),
		quotaExceeded: counter("onced_quota_exceeded_total", "Reserves that were refused because their tenant has as many records as it may."),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "onced_request_duration_seconds",
			Help:    "How long the calls of the HTTP API took, waits included, by call and outcome.",
			Buckets: durations,
		}, []string{"call", "outcome"}),
		gateway: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "onced_gateway_request_duration_seconds",
			Help:    "How long it took until the answer to a request at the gateway was decided, the upstream included, by the route's match and outcome.",
			Buckets: durations,
		}, []string{"route", "outcome"}),
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onced_gateway_probes_total",
			Help: "Look-ups by which the gateway asked the upstream what became of an operation, by the route's match and result.",
		}, []string{"route", "result"}),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onced_batch_operations_total",
			Help: "Operations of batches, by call and outcome. The batch itself is a call of onced_request_duration_seconds.",
		}, []string{"call", "outcome"}),
	}
	m.door = newGatewayMeter(o)
	o.Registry.MustRegister(m.requests, m.gateway, m.probes, m.operations)
	return m
}

// ByTenant tells whether the metrics name tenants.
func (m *Metrics) ByTenant() bool { return m.byTenant }

// Handler shows the registry as Prometheus text.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Request tells of one call of the HTTP API. Both names come from fixed sets.
func (m *Metrics) Request(call, outcome string, took time.Duration) {
	m.requests.WithLabelValues(call, outcome).Observe(took.Seconds())
}

// Operation tells of one operation of a batch. Both names come from fixed sets.
func (m *Metrics) Operation(call, outcome string) {
	m.operations.WithLabelValues(call, outcome).Inc()
}

// Gateway tells of one request at the gateway. The routes come from its settings, the outcomes from a fixed set.
func (m *Metrics) Gateway(route, outcome string, took time.Duration) {
	m.gateway.WithLabelValues(route, outcome).Observe(took.Seconds())
}

// Probe tells of one look-up of the gateway's. The routes come from its settings, the results from a fixed set.
func (m *Metrics) Probe(route, result string) {
	m.probes.WithLabelValues(route, result).Inc()
}

// GatewayMeter returns what counts the rest of a gateway.
func (m *Metrics) GatewayMeter() *GatewayMeter { return m.door }

// Keeper returns k with its reserves counted. Whoever takes requests (the API, a gateway) wraps
// the Keeper that it asks, once.
func (m *Metrics) Keeper(k onced.Keeper) onced.Keeper { return &measured{k, m} }

// measured counts the reserves of a Keeper.
type measured struct {
	onced.Keeper
	m *Metrics
}

// Reserve implements onced.Keeper.
func (k *measured) Reserve(ctx context.Context, r onced.ReserveRequest) (onced.ReserveResult, error) {
	result, err := k.Keeper.Reserve(ctx, r)
	if c := k.m.counterOf(result, err); c != nil {
		if k.m.byTenant {
			c.WithLabelValues(r.Tenant).Inc()
		} else {
			c.WithLabelValues().Inc()
		}
	}
	return result, err
}

// counterOf returns the counter of a reserve's outcome, nil for one that has none. A repeated
// reserve was counted when it was granted.
func (m *Metrics) counterOf(result onced.ReserveResult, err error) *prometheus.CounterVec {
	switch onced.CodeOf(err) {
	case "":
		switch {
		case result.Replayed:
			return m.replayed
		case result.Repeated:
			return nil
		}
		return m.executed
	case onced.CodeRequestInProgress:
		return m.inProgress
	case onced.CodeConflict:
		return m.conflicts
	case onced.CodeOutcomeUnknown:
		return m.unknown
	case onced.CodeRateLimited:
		return m.rateLimited
	case onced.CodeQuotaExceeded:
		return m.quotaExceeded
	}
	return nil
}
