package metrics

import "github.com/prometheus/client_golang/prometheus"

// GatewayMeter counts what a gateway does beside answering. Its methods may be called at once.
type GatewayMeter struct {
	byTenant   bool
	underWay   *prometheus.GaugeVec
	overloaded *prometheus.CounterVec
	bodies     prometheus.Gauge
	suspected  *prometheus.CounterVec
	blobs      *prometheus.CounterVec
}

func newGatewayMeter(o Options) *GatewayMeter {
	g := &GatewayMeter{
		byTenant: o.ByTenant,
		underWay: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "onced_gateway_under_way",
			Help: "Requests at the upstream now, by the route's match.",
		}, []string{"route"}),
		overloaded: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onced_gateway_overloaded_total",
			Help: "Requests at the gateway that were refused for want of room, by the route's match and reason. Nothing was started.",
		}, []string{"route", "reason"}),
		bodies: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "onced_gateway_body_bytes",
			Help: "Bytes of bodies of requests and answers that the gateway holds in memory.",
		}),
		blobs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onced_gateway_blobs_total",
			Help: "Large answers that are kept outside of the record, by what became of them.",
		}, []string{"event"}),
	}
	var labels []string
	if o.ByTenant {
		labels = []string{"tenant"}
	}
	g.suspected = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "onced_suspected_key_regeneration_total",
		Help: "Operations whose payload had come under another key of their tenant shortly before: a client may make a new key at each retry.",
	}, labels)
	if !o.ByTenant {
		g.suspected.WithLabelValues() // shown as 0 from the start
	}
	o.Registry.MustRegister(g.underWay, g.overloaded, g.bodies, g.suspected, g.blobs)
	return g
}

// UnderWay tells that so many requests of a route more, or fewer, are at the upstream.
func (g *GatewayMeter) UnderWay(route string, change int) {
	g.underWay.WithLabelValues(route).Add(float64(change))
}

// Overloaded tells of a refused request. The reasons are a fixed set.
func (g *GatewayMeter) Overloaded(route, reason string) {
	g.overloaded.WithLabelValues(route, reason).Inc()
}

// BodyBytes tells that so many bytes of bodies more, or fewer, are held.
func (g *GatewayMeter) BodyBytes(change int64) { g.bodies.Add(float64(change)) }

// Suspected tells of a payload that came again under another key of its tenant.
func (g *GatewayMeter) Suspected(tenant string) {
	if g.byTenant {
		g.suspected.WithLabelValues(tenant).Inc()
		return
	}
	g.suspected.WithLabelValues().Inc()
}

// Blob tells what became of n large answers. The events are a fixed set.
func (g *GatewayMeter) Blob(event string, n int) { g.blobs.WithLabelValues(event).Add(float64(n)) }
