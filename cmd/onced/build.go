package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"onced"
	"onced/cluster"
	"onced/cluster/peer"
	"onced/gateway"
	"onced/httpapi"
	"onced/internal/config"
	"onced/internal/limits"
	"onced/metrics"
	"onced/store"
)

// openNode opens this node's part of the cluster. It returns as soon as the cluster's port
// is open; /readyz tells when there is a leader.
func openNode(ctx context.Context, s *server) (node, error) {
	tls, err := clusterTLS(s.settings)
	if err != nil {
		return nil, refusal{err}
	}
	n, err := cluster.Open(ctx, cluster.Config{
		NodeID:           s.settings.NodeID,
		DataDir:          s.settings.DataDir,
		LogStore:         store.LogKind(s.settings.LogStore),
		ClusterAddr:      s.settings.ClusterAddr,
		ClusterAdvertise: s.settings.ClusterAdvertise,
		Peers:            peersOf(s.settings.Peers),
		Join:             s.settings.Join,
		TLS:              tls,
		ElectionTimeout:  s.settings.ElectionTimeout,
		RequestTimeout:   s.settings.RequestTimeout,
		SnapshotBytes:    s.bounds.snapshot,
		TrailingBytes:    s.bounds.trailing,
		Wall:             s.wall,
		Logger:           s.log,
		Registry:         s.registry,
		Fatal:            s.fatal,
		Fault:            s.fault,
	})
	switch {
	case err == nil:
		return n, nil
	case cluster.Refused(err):
		return nil, refusal{err}
	}
	return nil, err
}

// clusterTLS is what the nodes prove themselves to each other with; nil, on loopback
// only, where nothing was said.
func clusterTLS(c config.Serve) (*peer.TLS, error) {
	switch {
	case c.ClusterTLSCert != "":
		return peer.FileTLS(c.ClusterTLSCert, c.ClusterTLSKey, c.ClusterTLSCA)
	case c.Secret != nil:
		return peer.SecretTLS(c.Secret, c.NodeID)
	}
	return nil, nil
}

func peersOf(p config.Peers) []cluster.Peer {
	var peers []cluster.Peer
	for _, peer := range p.List {
		peers = append(peers, cluster.Peer{ID: peer.ID, Address: peer.Addr})
	}
	return peers
}

// newRegistry holds the metrics of this node, or of a gateway on its own, and those of the process.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// build makes the API and the gateway on the node.
func (s *server) build() error {
	counters := metrics.New(metrics.Options{Registry: s.registry, ByTenant: s.settings.MetricsByTenant})
	// The API and the gateway share the bounds of a tenant.
	keeper := limits.Keeper(s.node, limits.Config{Rate: s.settings.TenantRate, Burst: s.settings.TenantBurst, MaxKeys: s.settings.TenantMaxKeys})
	s.apiServer = httpapi.NewServer(httpapi.ServerConfig{
		Addr:           s.settings.HTTPAddr,
		TLS:            s.apiTLS(),
		RequestTimeout: s.settings.RequestTimeout,
		Logger:         s.log,
		Handler: s.lettingGo(httpapi.New(httpapi.Config{
			Keeper:           keeper,
			Cluster:          s,
			Authority:        s.authority(),
			Admin:            s.node,
			Metrics:          counters,
			Logger:           s.log,
			MaxRequestBytes:  int64(s.settings.MaxRequestBytes),
			MaxResponseBytes: int64(s.settings.MaxResponseBytes),
			RequestTimeout:   s.settings.RequestTimeout,
		})),
	})
	if s.settings.Gateway == nil {
		return nil
	}
	return s.openDoor(*s.settings.Gateway, doorDeps(s.log, counters, keeper, s.node, s.settings.GatewaySecret, s.settings.RequestTimeout))
}

// doorDeps are what a gateway works with, wherever it runs.
func doorDeps(log *slog.Logger, counters *metrics.Metrics, keeper, aside onced.Keeper, secret []byte, timeout time.Duration) gateway.Deps {
	return gateway.Deps{
		Keeper:         counters.Keeper(keeper),
		Aside:          aside, // the gateway's own records are no reserves of anybody's
		Logger:         log,
		Secret:         secret,
		RequestTimeout: timeout,
		Observe: func(e gateway.Event) {
			counters.Gateway(e.Route, string(e.Outcome), e.Took)
			if e.Sighting != "" {
				counters.Probe(e.Route, string(e.Sighting))
			}
		},
		Meter: counters.GatewayMeter(),
	}
}

// apiTLS are the settings of the API's TLS, nil for plain HTTP.
func (s *server) apiTLS() *tls.Config {
	if s.certificate == nil {
		return nil
	}
	return s.certificate.Config()
}

// authority judges callers by the tokens file, where there is one.
func (s *server) authority() httpapi.Authority {
	if s.credentials == nil {
		return httpapi.NoAuth{}
	}
	return s.credentials
}
