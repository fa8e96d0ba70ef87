package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"onced"
	"onced/cluster"
	"onced/httpapi"
	"onced/internal/config"
)

// node is what serve needs of a member of the cluster.
type node interface {
	onced.Keeper
	httpapi.Admin
	Status() onced.ClusterStatus
	Ready() error                   // nil, or why it cannot take requests
	Done() <-chan struct{}          // closed when it stopped for a reason of its own
	Err() error                     // that reason
	ReloadTLS() error               // reads the certificates between the nodes anew
	Shutdown(context.Context) error // hands leadership over and closes
}

// bounds are how many bytes of log ask for a snapshot and how many are kept behind one; 0 = the
// cluster's own.
type bounds struct{ snapshot, trailing int64 }

// server is one running `onced serve`. Its parts are started in the order of the
// fields and end in the opposite one.
type server struct {
	settings config.Serve
	reload   func() (config.Serve, error) // reads the settings anew
	wall     func() time.Time
	bounds   bounds
	fault    func(step string) error // makes a write to the disk stall; nil but in builds for tests of it
	open     func(context.Context, *server) (node, error)
	exit     func(error) // ends the process with the error's exit code

	credentials *httpapi.Credentials // nil where callers are not asked for any

	registry *prometheus.Registry
	node     node
	front
}

// run serves until ctx ends or something breaks. An error of type refusal means that
// nothing was served.
func (s *server) run(ctx context.Context) error {
	if err := s.start(ctx); err != nil {
		s.closePorts()
		return err
	}
	stopHangups := watchHangups(s.hangups, s.reloadTokens, s.reloadCertificates, s.reloadRoutes)
	defer stopHangups()
	s.announce()
	var cause error
	select {
	case <-ctx.Done():
		s.log.Info("stopping", "drain_timeout", s.settings.DrainTimeout)
	case <-s.node.Done():
		cause = whyStopped(s.node.Err())
	case cause = <-s.failed:
	}
	if cause != nil && !errors.As(cause, new(refusal)) { // a refusal is told in one line, at the end
		s.log.Error("stopping after a fault", "err", cause)
	}
	err := s.stop(ctx)
	return errors.Join(cause, err)
}

// whyStopped is the node's reason. One that was refused by the cluster, which it can
// only ask after its port is open, is a refused start.
func whyStopped(err error) error {
	switch {
	case err == nil:
		return errors.New("the node stopped and gave no reason")
	case cluster.Refused(err):
		return refusal{err}
	}
	return fmt.Errorf("the node stopped: %w", err)
}

// start binds the ports first, so that one that is taken is told before anything
// is written, and begins to answer last.
func (s *server) start(ctx context.Context) (err error) {
	if err := s.bind(); err != nil {
		return refusal{err}
	}
	s.registry = newRegistry()
	if s.node, err = s.open(ctx, s); err != nil {
		return err
	}
	if err := s.build(); err != nil {
		return errors.Join(refusal{err}, s.node.Shutdown(context.WithoutCancel(ctx)))
	}
	s.begin()
	return nil
}

func (s *server) bind() error {
	gatewayAddr := ""
	if s.settings.Gateway != nil {
		gatewayAddr = s.settings.GatewayAddr
	}
	if err := s.front.bind(s.settings.HTTPAddr, gatewayAddr); err != nil {
		return err
	}
	if err := tryPort(s.settings.ClusterAddr); err != nil {
		return fmt.Errorf("cluster_addr: %w", err)
	}
	return nil
}

// tryPort finds out whether addr is free. The node itself listens there only once its data directory is
// open, and a start that is refused for a port should not have made one.
func tryPort(addr string) error {
	if addr == "" {
		return nil // a node without a port, in tests
	}
	port, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return port.Close()
}

func (s *server) announce() {
	args := []any{"api", s.url(), "cluster", s.settings.ClusterAdvertise, "data_dir", s.settings.DataDir}
	if s.doorPort != nil {
		args = append(args, "gateway", s.doorURL(), "upstream", s.settings.Gateway.Upstream)
	}
	s.log.Info("serving", args...)
	switch {
	case s.settings.NoAuth:
		s.log.Warn("no_auth: every caller is an operator, for every tenant")
	case s.credentials != nil:
		s.warnNobody(s.credentials.Len())
	}
	if s.settings.TokensInClear() {
		s.log.Warn("tokens travel in clear: http_addr is not loopback and has no TLS of its own", "http_addr", s.settings.HTTPAddr)
	}
	s.warnCertificate()
}

// doorURL is where the gateway is.
func (s *server) doorURL() string {
	scheme := "http"
	if s.settings.Gateway.TLSCert != "" {
		scheme = "https"
	}
	return scheme + "://" + s.doorPort.Addr().String()
}

// fatal ends the process at once: a disk that erred or stalled, or a table that must not be trusted, leaves
// nothing that could end in order, and a leader that lingers would stop the cluster (raft#503).
func (s *server) fatal(err error) {
	s.exit(fmt.Errorf("the node stopped: %w", err))
}

// Ready tells /readyz whether requests are wanted here: not while stopping, else
// what the node says.
func (s *server) Ready() error {
	if s.stopping.Load() {
		return errStopping
	}
	return s.node.Ready()
}

// Status tells /v1/cluster what the node sees.
func (s *server) Status() onced.ClusterStatus { return s.node.Status() }
