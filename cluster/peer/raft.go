package peer

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// raftPool is how many connections to one peer raft keeps: heartbeat, pipeline, and one over.
const raftPool = 3

// raftTransport is raft's network transport on this port.
//
// It swallows SetHeartbeatHandler: with one, heartbeats are handled on the
// transport's goroutine beside raft's main loop and may raise the term under it
// (raft#695). Without, they go through the main loop as the library allows.
//
// Raft names its target by id and address; the id travels down to the dial inside
// the address ("id=host:port"), so that the preface says whom it means to reach.
type raftTransport struct {
	*raft.NetworkTransport
	stream  *streamLayer
	timeout time.Duration // of a message
}

var (
	_ raft.Transport   = (*raftTransport)(nil)
	_ raft.WithPreVote = (*raftTransport)(nil)
	_ raft.WithClose   = (*raftTransport)(nil)
)

// RaftTransport returns raft's way to the other nodes. timeout bounds a dial and
// each message (a snapshot gets more, by its size). It panics while an earlier
// one is not closed.
func (p *Port) RaftTransport(timeout time.Duration) raft.Transport {
	if p.stream() != nil {
		panic("peer: a raft transport is in use already")
	}
	s := &streamLayer{rpcListener: newRPCListener(raftAddr(p.addr)), port: p}
	t := &raftTransport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream:  s,
			MaxPool: raftPool,
			Timeout: timeout,
			Logger:  RaftLogger("raft-net", p.logger()),
		}),
		stream:  s,
		timeout: timeout,
	}
	p.mu.Lock()
	closed := p.closed
	p.raft = t
	p.mu.Unlock()
	if closed {
		_ = t.Close()
	}
	return t
}

// stream returns the stream layer that takes connections, or nil.
func (p *Port) stream() *streamLayer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.raft == nil || p.raft.IsShutdown() {
		return nil
	}
	return p.raft.stream
}

// SetHeartbeatHandler does nothing; see raftTransport.
func (t *raftTransport) SetHeartbeatHandler(func(raft.RPC)) {}

// AppendEntriesPipeline implements raft.Transport.
func (t *raftTransport) AppendEntriesPipeline(id raft.ServerID, addr raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.NetworkTransport.AppendEntriesPipeline(id, target(id, addr))
	if err != nil {
		return nil, err
	}
	return &pipeline{AppendPipeline: p, limit: 2 * t.timeout}, nil
}

// AppendEntries implements raft.Transport.
func (t *raftTransport) AppendEntries(id raft.ServerID, addr raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	return t.NetworkTransport.AppendEntries(id, target(id, addr), args, resp)
}

// RequestVote implements raft.Transport.
func (t *raftTransport) RequestVote(id raft.ServerID, addr raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return t.NetworkTransport.RequestVote(id, target(id, addr), args, resp)
}

// RequestPreVote implements raft.WithPreVote.
func (t *raftTransport) RequestPreVote(id raft.ServerID, addr raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return t.NetworkTransport.RequestPreVote(id, target(id, addr), args, resp)
}

// InstallSnapshot implements raft.Transport.
func (t *raftTransport) InstallSnapshot(id raft.ServerID, addr raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	return t.NetworkTransport.InstallSnapshot(id, target(id, addr), args, resp, data)
}

// TimeoutNow implements raft.Transport.
func (t *raftTransport) TimeoutNow(id raft.ServerID, addr raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return t.NetworkTransport.TimeoutNow(id, target(id, addr), args, resp)
}

// Close stops the transport and closes its connections in both directions: the
// library leaves those that wait for a message open.
func (t *raftTransport) Close() error {
	err := t.NetworkTransport.Close()
	t.cut()
	return err
}

// cut closes every raft connection; a running raft makes new ones.
func (t *raftTransport) cut() {
	t.CloseStreams()
	t.stream.port.cut(func(c *conn) bool { return c.raft })
}

// target puts id and address into one; split takes them apart.
func target(id raft.ServerID, addr raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(string(id) + "=" + string(addr))
}

func split(target raft.ServerAddress) (id, addr string) {
	id, addr, ok := strings.Cut(string(target), "=")
	if !ok {
		return "", string(target)
	}
	return id, addr
}

// streamLayer is raft.StreamLayer on the port.
type streamLayer struct {
	*rpcListener
	port *Port
}

var _ raft.StreamLayer = (*streamLayer)(nil)

// Dial opens a raft connection to the node that the target names.
func (s *streamLayer) Dial(t raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	select {
	case <-s.closed:
		return nil, fmt.Errorf("dialling %s: %w", t, net.ErrClosed)
	default:
	}
	ctx, cancel := context.WithTimeout(s.port.ctx, timeout)
	defer cancel()
	id, addr := split(t)
	c, err := s.port.dial(ctx, kindRaft, addr, id)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// raftAddr is the advertised name as a net.Addr: what raft tells the others.
type raftAddr string

func (a raftAddr) Network() string { return "tcp" }
func (a raftAddr) String() string  { return string(a) }
