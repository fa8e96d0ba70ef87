package httpapi

import (
	"log/slog"
	"net/http"

	"github.com/gorilla/mux"

	"onced"
	"onced/metrics"
)

// CompanionConfig is what NewCompanion needs. Ready and Metrics are required.
type CompanionConfig struct {
	Ready   func() error // nil, or why no requests are wanted
	Metrics *metrics.Metrics
	Logger  *slog.Logger // nil = nothing is logged
}

// NewCompanion returns the handler of a process that stands beside the cluster: /healthz, /readyz, /metrics and the pages that explain
// each problem. It has no call of a key, and asks nobody for credentials.
func NewCompanion(cfg CompanionConfig) http.Handler {
	if cfg.Ready == nil || cfg.Metrics == nil {
		panic("httpapi: NewCompanion needs Ready and Metrics")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	a := &api{Config: Config{Cluster: companion(cfg.Ready), Metrics: cfg.Metrics, Logger: cfg.Logger}}
	r := mux.NewRouter().UseEncodedPath().SkipClean(true)
	r.Handle("/metrics", page{"metrics", cfg.Metrics.Handler().ServeHTTP})
	a.routePages(r)
	return a.observe(a.guard(r))
}

// companion is the Cluster of a process that is no member of one.
type companion func() error

func (companion) Status() onced.ClusterStatus { return onced.ClusterStatus{} }
func (c companion) Ready() error              { return c() }
