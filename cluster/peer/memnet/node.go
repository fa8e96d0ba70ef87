package memnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"sync"

	"onced/cluster/peer"
	"onced/cluster/peer/internal/gate"
)

// errCut is the fate-unknown error of a node that went away.
var errCut = errors.New("connection cut")

// Node is one node's port. Make it with Network.Join.
type Node struct {
	net    *Network
	id     string
	addr   string
	gate   *gate.Gate
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	members map[string]string // address → node id; guarded by mu
	raft    *transport        // guarded by mu
}

var _ peer.Link = (*Node)(nil)

func newNode(n *Network, id, addr string, logger *slog.Logger) *Node {
	return &Node{net: n, id: id, addr: addr, gate: gate.New(id, logger), closed: make(chan struct{})}
}

// Addr implements peer.Link.
func (n *Node) Addr() string { return n.addr }

// Handle implements peer.Link.
func (n *Node) Handle(path string, h http.Handler) { n.gate.Handle(path, h) }

// HandleAny implements peer.Link.
func (n *Node) HandleAny(path string, h http.Handler) { n.gate.HandleAny(path, h) }

// SetClusterID implements peer.Link.
func (n *Node) SetClusterID(id string) { n.gate.SetClusterID(id) }

// SetMembers implements peer.Link.
func (n *Node) SetMembers(byAddr map[string]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.members = maps.Clone(byAddr)
}

// Close implements peer.Link: the address is free at once, whoever waits for an
// answer of this node is cut off.
func (n *Node) Close() error {
	n.once.Do(func() {
		n.net.leave(n)
		close(n.closed)
		n.mu.Lock()
		t := n.raft
		n.mu.Unlock()
		if t != nil {
			_ = t.Close()
		}
		n.gate.Close()
	})
	return nil
}

// Closed is closed as soon as nothing leaves or reaches the node any more; Close may
// still be waiting for handlers then.
func (n *Node) Closed() <-chan struct{} { return n.closed }

// answer is how a call ended.
type answer struct {
	body []byte
	err  error
}

// Call implements peer.Link.
func (n *Node) Call(ctx context.Context, addr, path string, body []byte) ([]byte, error) {
	to, fault, err := n.connect(ctx, addr, path)
	if err != nil {
		return nil, fmt.Errorf("calling %s on %s: %w: %w", path, addr, peer.ErrNotSent, err)
	}
	request := n.request(path, bytes.Clone(body))
	done := make(chan answer, 1)
	n.net.under.Go(func() { n.deliver(ctx, to, fault, request, done) })
	var a answer
	select {
	case a = <-done:
	case <-ctx.Done():
		a.err = context.Cause(ctx)
	case <-n.closed:
		a.err = errCut
	}
	if a.err != nil {
		return nil, fmt.Errorf("calling %s on %s: %w", path, addr, a.err)
	}
	return a.body, nil
}

// connect does what a dial does: everything that can fail before a byte is sent.
func (n *Node) connect(ctx context.Context, addr, path string) (*Node, Fault, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, Fault{}, err
	}
	select {
	case <-n.closed:
		return nil, Fault{}, errCut
	default:
	}
	to := n.net.at(addr)
	if to == nil {
		return nil, Fault{}, errors.New("connection refused")
	}
	fault := n.net.fault(Message{From: n.id, To: to.id, Path: path})
	if fault.Refuse {
		return nil, Fault{}, errors.New("connection refused")
	}
	n.mu.Lock()
	want := n.members[addr]
	n.mu.Unlock()
	if want != "" && want != to.id {
		return nil, Fault{}, &peer.RefusedError{Addr: addr, Text: fmt.Sprintf("this address leads to node %s, not to node %s", to.id, want)}
	}
	return to, fault, nil
}

// request is one as the port would send it.
func (n *Node) request(path string, body []byte) *http.Request {
	r := &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: path}, Header: make(http.Header),
		ContentLength: int64(len(body)), Body: http.NoBody,
	}
	if len(body) > 0 {
		r.Body = closer{bytes.NewReader(body)}
	}
	r.Header.Set(gate.HeaderCluster, n.gate.ClusterID())
	r.Header.Set(gate.HeaderNode, n.id)
	return r
}
