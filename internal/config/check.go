package config

import (
	"errors"
	"fmt"
	"regexp"
	"time"
)

var nodeIDForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// check returns the first setting that is impossible or unsafe.
func (s *Serve) check() error {
	for _, check := range []func() error{
		s.checkIdentity, s.checkAddresses, s.checkPeers, s.checkClusterExposure, s.checkHTTPTLS, s.checkAuth, s.checkTenants, s.checkBounds, s.checkLog,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Serve) checkIdentity() error {
	if !nodeIDForm.MatchString(s.NodeID) {
		return fmt.Errorf("node_id: %.80q is no node's name: expected 1 to 64 of A-Z a-z 0-9 . _ -", s.NodeID)
	}
	if s.DataDir == "" {
		return errors.New("data_dir: is empty: expected a directory")
	}
	if s.LogStore != "" && s.LogStore != "bolt" && s.LogStore != "wal" {
		return fmt.Errorf("log_store: is %.40q: expected bolt or wal", s.LogStore)
	}
	return nil
}

// checkAddresses allows port 0 (any free one) where nobody else must know it.
func (s *Serve) checkAddresses() error {
	clusterMin := 0
	if len(s.Peers.List) > 0 || s.Join != "" {
		clusterMin = 1
	}
	for _, a := range []struct {
		name, addr string
		min        int
	}{
		{"http_addr", s.HTTPAddr, 0},
		{"gateway_addr", s.GatewayAddr, 0},
		{"cluster_addr", s.ClusterAddr, clusterMin},
		{"cluster_advertise", s.ClusterAdvertise, clusterMin},
	} {
		if err := checkAddr(a.addr, a.min); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	if isUnspecified(s.ClusterAdvertise) {
		return fmt.Errorf("cluster_advertise: is needed, since nobody can dial the cluster_addr %s", s.ClusterAdvertise)
	}
	return nil
}

func (s *Serve) checkPeers() error {
	if s.Join != "" && len(s.Peers.List) > 0 {
		return errors.New("join: is set beside peers: expected join for a node that is added to a running cluster, peers for the first members")
	}
	if s.Join != "" {
		if err := checkAddr(s.Join, 1); err != nil {
			return fmt.Errorf("join: %w", err)
		}
	}
	if len(s.Peers.List) == 0 {
		return nil
	}
	ids, addrs := map[string]bool{}, map[string]bool{}
	for _, p := range s.Peers.List {
		if !nodeIDForm.MatchString(p.ID) {
			return fmt.Errorf("peers: %.80q is no node's name: expected 1 to 64 of A-Z a-z 0-9 . _ -", p.ID)
		}
		if err := checkAddr(p.Addr, 1); err != nil {
			return fmt.Errorf("peers: %s: %w", p.ID, err)
		}
		if ids[p.ID] || addrs[p.Addr] {
			return fmt.Errorf("peers: %s=%s repeats a name or an address of the list", p.ID, p.Addr)
		}
		ids[p.ID], addrs[p.Addr] = true, true
	}
	switch own := s.Peers.Addr(s.NodeID); own {
	case "":
		return fmt.Errorf("peers: does not list this node, %s: expected the same list on every node, itself included", s.NodeID)
	case s.ClusterAdvertise:
		return nil
	default:
		return fmt.Errorf("cluster_advertise: is %s, but peers lists this node at %s: expected the same", s.ClusterAdvertise, own)
	}
}

// checkClusterExposure refuses a cluster port that strangers could reach without
// proving who they are.
func (s *Serve) checkClusterExposure() error {
	files := 0
	for _, file := range []string{s.ClusterTLSCert, s.ClusterTLSKey, s.ClusterTLSCA} {
		if file != "" {
			files++
		}
	}
	if files != 0 && files != 3 {
		return errors.New("cluster_tls_cert, cluster_tls_key, cluster_tls_ca: expected all three or none")
	}
	if s.Secret == nil && files == 0 {
		for _, addr := range s.clusterAddrs() {
			if !isLoopback(addr) {
				return fmt.Errorf("cluster_secret_file: (or cluster_tls_cert, _key and _ca) is needed, since the cluster address %s is not loopback and whoever reaches it can write", addr)
			}
		}
	}
	return nil
}

func (s *Serve) checkHTTPTLS() error { return checkBoth(s.HTTPTLSCert, s.HTTPTLSKey) }

// checkBoth refuses a certificate without its key, and the other way round.
func checkBoth(cert, key string) error {
	if (cert == "") != (key == "") {
		return errors.New("http_tls_cert, http_tls_key: expected both or none")
	}
	return nil
}

// TokensInClear tells whether callers from other machines show their tokens to everybody on the way.
func (s *Serve) TokensInClear() bool {
	return s.TokensFile != "" && s.HTTPTLSCert == "" && !isLoopback(s.HTTPAddr)
}

// checkAuth wants it said who may call, unless only this machine can.
func (s *Serve) checkAuth() error {
	switch {
	case s.NoAuth && s.TokensFile != "":
		return errors.New("no_auth: is set beside tokens_file: expected one of them")
	case s.NoAuth || s.TokensFile != "":
		return nil
	}
	addrs := append([]string{s.HTTPAddr}, s.clusterAddrs()...)
	if s.Gateway != nil {
		addrs = append(addrs, s.GatewayAddr)
	}
	for _, addr := range addrs {
		if !isLoopback(addr) {
			return fmt.Errorf("tokens_file: (or no_auth, if nobody is to be asked for credentials) must be said, since %s is not loopback", addr)
		}
	}
	return nil
}

// checkTenants judges the bounds of each tenant; 0 is none.
func (s *Serve) checkTenants() error {
	switch {
	case s.TenantRate != 0 && !(s.TenantRate >= MinTenantRate && s.TenantRate <= MaxTenantRate): // NaN is neither
		return fmt.Errorf("tenant_rate: is %g: expected %g to %g reserves a second, or 0 for any", s.TenantRate, MinTenantRate, MaxTenantRate)
	case s.TenantBurst < 0 || s.TenantBurst > MaxTenantBurst:
		return fmt.Errorf("tenant_burst: is %d: expected 1 to %d, or 0 for those of one second", s.TenantBurst, MaxTenantBurst)
	case s.TenantBurst > 0 && s.TenantRate == 0:
		return errors.New("tenant_burst: is set without tenant_rate: expected both")
	case s.TenantMaxKeys < 0:
		return fmt.Errorf("tenant_max_keys: is %d: expected how many records, or 0 for any", s.TenantMaxKeys)
	}
	return nil
}

// clusterAddrs are all the cluster addresses that the settings name.
func (s *Serve) clusterAddrs() []string {
	addrs := []string{s.ClusterAddr, s.ClusterAdvertise}
	for _, p := range s.Peers.List {
		addrs = append(addrs, p.Addr)
	}
	if s.Join != "" {
		addrs = append(addrs, s.Join)
	}
	return addrs
}

// span is a duration with its bounds.
type span struct {
	name     string
	d        time.Duration
	min, max time.Duration
}

func checkSpans(spans ...span) error {
	for _, s := range spans {
		if s.d < s.min || s.d > s.max {
			return fmt.Errorf("%s: is %s: expected %s to %s", s.name, s.d, s.min, s.max)
		}
	}
	return nil
}

func (s *Serve) checkBounds() error {
	err := checkSpans(
		span{"request_timeout", s.RequestTimeout, MinRequestTimeout, MaxRequestTimeout},
		span{"election_timeout", s.ElectionTimeout, MinElectionTimeout, MaxElectionTimeout},
		span{"drain_timeout", s.DrainTimeout, MinDrainTimeout, MaxDrainTimeout},
	)
	if err != nil {
		return err
	}
	for _, b := range []struct {
		name string
		b    Bytes
	}{{"max_request_bytes", s.MaxRequestBytes}, {"max_response_bytes", s.MaxResponseBytes}} {
		if b.b < 1 || b.b > MaxBodyBytes {
			return fmt.Errorf("%s: is %s: expected 1 to %s", b.name, b.b, MaxBodyBytes)
		}
	}
	return nil
}

func (s *Serve) checkLog() error { return checkLog(s.LogLevel, s.LogFormat) }

func checkLog(level, format string) error {
	switch level {
	case "debug", "info", "warn", "error":
	default:
		return fmt.Errorf("log_level: is %.40q: expected debug, info, warn or error", level)
	}
	switch format {
	case "text", "json":
		return nil
	}
	return fmt.Errorf("log_format: is %.40q: expected text or json", format)
}
