package memnet

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// transport is raft's transport in memory, under the network's faults.
type transport struct {
	*raft.InmemTransport // the peers and its queue
	node                 *Node
	timeout              time.Duration
	closed               chan struct{}
	once                 sync.Once
}

var _ raft.LoopbackTransport = (*transport)(nil)

// RaftTransport implements peer.Link.
func (n *Node) RaftTransport(timeout time.Duration) raft.Transport {
	_, inner := raft.NewInmemTransportWithTimeout(raft.ServerAddress(n.addr), timeout)
	t := &transport{InmemTransport: inner, node: n, timeout: timeout, closed: make(chan struct{})}
	n.mu.Lock()
	before := n.raft
	n.raft = t
	n.mu.Unlock()
	if before.open() {
		panic("memnet: a raft transport is in use already")
	}
	select {
	case <-n.closed:
		_ = t.Close()
	default:
	}
	return t
}

// open tells whether t takes messages.
func (t *transport) open() bool {
	if t == nil {
		return false
	}
	select {
	case <-t.closed:
		return false
	default:
		return true
	}
}

// Close implements raft.WithClose.
func (t *transport) Close() error {
	t.once.Do(func() { close(t.closed) })
	return t.InmemTransport.Close()
}

// AppendEntriesPipeline implements raft.Transport: there is none, so that every
// message meets the faults.
func (t *transport) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// AppendEntries implements raft.Transport.
func (t *transport) AppendEntries(id raft.ServerID, addr raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	return t.exchange(id, addr, func() error { return t.InmemTransport.AppendEntries(id, addr, args, resp) })
}

// RequestVote implements raft.Transport.
func (t *transport) RequestVote(id raft.ServerID, addr raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return t.exchange(id, addr, func() error { return t.InmemTransport.RequestVote(id, addr, args, resp) })
}

// RequestPreVote implements raft.WithPreVote.
func (t *transport) RequestPreVote(id raft.ServerID, addr raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return t.exchange(id, addr, func() error { return t.InmemTransport.RequestPreVote(id, addr, args, resp) })
}

// InstallSnapshot implements raft.Transport.
func (t *transport) InstallSnapshot(id raft.ServerID, addr raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	return t.exchange(id, addr, func() error { return t.InmemTransport.InstallSnapshot(id, addr, args, resp, data) })
}

// TimeoutNow implements raft.Transport.
func (t *transport) TimeoutNow(id raft.ServerID, addr raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return t.exchange(id, addr, func() error { return t.InmemTransport.TimeoutNow(id, addr, args, resp) })
}

// exchange sends one message under the faults and waits for its answer.
func (t *transport) exchange(id raft.ServerID, addr raft.ServerAddress, send func() error) error {
	to, fault, err := t.reach(string(id), string(addr))
	if err != nil {
		return fmt.Errorf("reaching node %s at %s: %w", id, addr, err)
	}
	if fault.LoseRequests {
		t.node.pause(t.timeout)
		return errors.New("timed out")
	}
	if !t.node.pause(fault.Delay) {
		return errCut
	}
	t.Connect(addr, to.InmemTransport)
	if err := send(); err != nil {
		return err
	}
	if !t.node.pause(fault.DelayReplies) {
		return errCut
	}
	if fault.LoseReplies || t.node.net.losesReplies(t.node.id, to.node.id) {
		t.node.pause(t.timeout)
		return errors.New("timed out")
	}
	return nil
}

// reach finds the other side and refuses as a port does.
func (t *transport) reach(id, addr string) (*transport, Fault, error) {
	if !t.open() {
		return nil, Fault{}, errCut
	}
	node := t.node.net.at(addr)
	if node == nil {
		return nil, Fault{}, errors.New("connection refused")
	}
	fault := t.node.net.fault(Message{From: t.node.id, To: node.id, Path: Raft})
	node.mu.Lock()
	to := node.raft
	node.mu.Unlock()
	own, other := t.node.gate.ClusterID(), node.gate.ClusterID()
	switch {
	case fault.Refuse:
		return nil, fault, errors.New("connection refused")
	case node.id != id:
		return nil, fault, fmt.Errorf("this address leads to node %s", node.id)
	case other == "" || own != other:
		return nil, fault, fmt.Errorf("node %s belongs to cluster %q, the caller to %q", node.id, other, own)
	case !to.open():
		return nil, fault, fmt.Errorf("raft is not running yet on node %s", node.id)
	}
	return to, fault, nil
}
