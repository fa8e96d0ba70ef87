package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"onced/cluster/peer/internal/gate"
)

// Port is the inter-node port of one node. Make it with Listen.
type Port struct {
	cfg      Config
	addr     string // advertised
	gate     *gate.Gate
	listener net.Listener
	rpc      *rpcListener
	server   *http.Server
	client   *http.Transport
	quiet    quiet
	slots    chan struct{} // one per handshake under way

	ctx     context.Context // ends at Close
	cancel  context.CancelFunc
	running sync.WaitGroup // goroutines of the port itself

	members atomic.Pointer[map[string]string] // address → node id

	mu     sync.Mutex
	closed bool               // guarded by mu
	conns  map[*conn]struct{} // every open connection past its preface; guarded by mu
	raft   *raftTransport     // the one in use, or nil; guarded by mu
}

// Listen opens the port. Its errors name the setting that is wrong, or the
// address that is in use.
func Listen(cfg Config) (*Port, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	ln, err := lc.Listen(context.Background(), "tcp", cfg.Addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("cluster address %s is in use by another process", cfg.Addr)
	}
	if err != nil {
		return nil, fmt.Errorf("opening cluster address %s: %w", cfg.Addr, err)
	}
	p := newPort(cfg, ln)
	p.running.Go(p.accept)
	p.running.Go(func() { _ = p.server.Serve(p.rpc) })
	return p, nil
}

// newPort wires a port around its listener.
func newPort(cfg Config, ln net.Listener) *Port {
	p := &Port{
		cfg:      cfg,
		addr:     cfg.Advertise,
		gate:     gate.New(cfg.NodeID, cfg.Logger),
		listener: ln,
		rpc:      newRPCListener(ln.Addr()),
		slots:    make(chan struct{}, maxHandshakes),
		conns:    make(map[*conn]struct{}),
	}
	if host, port, _ := splitAddr(cfg.Advertise); port == 0 {
		p.addr = net.JoinHostPort(host, strconv.Itoa(ln.Addr().(*net.TCPAddr).Port))
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.SetMembers(nil)
	p.server = newServer(p)
	p.client = newClient(p)
	return p
}

// Addr returns the advertised address.
func (p *Port) Addr() string { return p.addr }

// NodeID returns the id of this node.
func (p *Port) NodeID() string { return p.cfg.NodeID }

// Handle adds the handler of a call for nodes of the same cluster.
func (p *Port) Handle(path string, h http.Handler) { p.gate.Handle(path, h) }

// HandleAny adds the handler of a call for nodes of any cluster, or none yet.
func (p *Port) HandleAny(path string, h http.Handler) { p.gate.HandleAny(path, h) }

// SetClusterID says which cluster this node belongs to.
func (p *Port) SetClusterID(id string) { p.gate.SetClusterID(id) }

// SetMembers says which node id is expected at which address.
func (p *Port) SetMembers(byAddr map[string]string) {
	m := maps.Clone(byAddr)
	p.members.Store(&m)
}

// ReloadTLS reads the certificate files anew. When they are broken the old ones stay
// in force and the error says why. Where they are others than before raft's and the idle connections are
// closed, so that they are made again under the new certificates.
func (p *Port) ReloadTLS() error {
	if p.cfg.TLS == nil {
		return nil
	}
	if changed, err := p.cfg.TLS.reload(); err != nil || !changed {
		return err
	}
	p.client.CloseIdleConnections()
	p.mu.Lock()
	t := p.raft
	p.mu.Unlock()
	if t != nil {
		t.cut()
	}
	return nil
}

// Close ends raft's transport, the calls under way in both directions and every
// connection, and waits for what ran.
func (p *Port) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	t := p.raft
	p.mu.Unlock()

	p.cancel()
	err := p.listener.Close()
	if t != nil {
		_ = t.Close()
	}
	_ = p.server.Close()
	p.cut(func(*conn) bool { return true })
	p.client.CloseIdleConnections()
	if !p.gate.Close() {
		p.cfg.Logger.Warn("a peer's call is still running after the cluster port was closed")
	}
	p.running.Wait()
	return err
}

// track keeps a connection so that Close finds it; false when the port is closed.
func (p *Port) track(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Port) forget(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// cut closes the connections that match.
func (p *Port) cut(match func(*conn) bool) {
	p.mu.Lock()
	var doomed []*conn
	for c := range p.conns {
		if match(c) {
			doomed = append(doomed, c)
		}
	}
	p.mu.Unlock()
	for _, c := range doomed {
		c.Close()
	}
}

// logger returns the port's logger.
func (p *Port) logger() *slog.Logger { return p.cfg.Logger }
