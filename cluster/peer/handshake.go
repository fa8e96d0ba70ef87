package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

const (
	handshakeTimeout = 5 * time.Second  // TLS and preface, both directions
	dialTimeout      = 5 * time.Second  // a call's dial, all in all
	idleWrite        = 30 * time.Second // one write where nobody else sets a deadline
	maxHandshakes    = 256              // under way at once; more are closed unheard
)

// keepAlive finds a peer that vanished without a word within about half a minute.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// accept takes connections until the port is closed.
func (p *Port) accept() {
	var pause time.Duration
	for {
		c, err := p.listener.Accept()
		if err == nil {
			pause = 0
			p.admit(c)
			continue
		}
		if p.ctx.Err() != nil {
			return
		}
		// Out of file descriptors, mostly: they come back, and spinning would not help.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		if p.quiet.allow("accept") {
			p.logger().Error("accepting a connection on the cluster port", "error", err)
		}
		select {
		case <-time.After(pause):
		case <-p.ctx.Done():
			return
		}
	}
}

// admit starts the handshake of an accepted connection, unless too many are under way.
func (p *Port) admit(c net.Conn) {
	select {
	case p.slots <- struct{}{}:
	default:
		if p.quiet.allow("handshakes") {
			p.logger().Warn("closing connections to the cluster port unheard: too many handshakes are under way", "limit", maxHandshakes)
		}
		c.Close()
		return
	}
	p.running.Go(func() {
		defer func() { <-p.slots }()
		stop := context.AfterFunc(p.ctx, func() { c.Close() })
		defer stop()
		if err := p.receive(c); err != nil {
			c.Close()
			p.refused(c.RemoteAddr(), err)
		}
	})
}

// receive does the acceptor's part of the handshake and hands the connection on.
func (p *Port) receive(raw net.Conn) error {
	if err := raw.SetDeadline(time.Now().Add(p.cfg.handshake)); err != nil {
		return err
	}
	secured, err := p.cfg.TLS.accept(p.ctx, raw)
	if err != nil {
		return err
	}
	pre, err := readPreface(secured)
	if err != nil {
		return err
	}
	if refusal := p.judge(pre); refusal != "" {
		_ = writeVerdict(secured, refusal)
		return fmt.Errorf("node %s: %s", printable(pre.from), refusal)
	}
	c := &conn{Conn: secured, port: p, writeTimeout: idleWrite, raft: pre.kind == kindRaft}
	if !p.track(c) {
		return net.ErrClosed
	}
	if err := writeVerdict(secured, ""); err != nil {
		c.Close()
		return err
	}
	if err := raw.SetDeadline(time.Time{}); err != nil {
		c.Close()
		return err
	}
	return p.handOn(pre, c)
}

// judge says why a connection is refused, "" when it is welcome.
func (p *Port) judge(pre preface) string {
	if pre.to != "" && pre.to != p.cfg.NodeID {
		return fmt.Sprintf("this address leads to node %s, not to node %s", p.cfg.NodeID, printable(pre.to))
	}
	if pre.kind == kindRPC {
		return "" // each request says its cluster; hello has to work before there is one
	}
	own := p.gate.ClusterID()
	switch {
	case own == "":
		return fmt.Sprintf("node %s belongs to no cluster yet", p.cfg.NodeID)
	case pre.cluster != own:
		return fmt.Sprintf("node %s belongs to cluster %s, the caller to %s", p.cfg.NodeID, own, printable(pre.cluster))
	case pre.from == p.cfg.NodeID:
		return fmt.Sprintf("the caller and the node called are both named %s", p.cfg.NodeID)
	case p.stream() == nil:
		return fmt.Sprintf("raft is not running yet on node %s", p.cfg.NodeID)
	}
	return ""
}

// handOn gives an accepted connection to its owner.
func (p *Port) handOn(pre preface, c *conn) error {
	if pre.kind == kindRPC {
		return p.rpc.offer(p.ctx, c)
	}
	s := p.stream()
	if s == nil {
		c.Close()
		return nil
	}
	return s.offer(p.ctx, c)
}

// refused logs why an accepted connection was closed, once per peer and minute.
func (p *Port) refused(from net.Addr, err error) {
	if p.ctx.Err() != nil || errors.Is(err, io.EOF) {
		return // closing, or a port scan that said nothing
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w: it did not introduce itself within %v", errPreface, p.cfg.handshake)
	}
	host, _, splitErr := net.SplitHostPort(from.String())
	if splitErr != nil {
		host = from.String()
	}
	text := err.Error()
	if p.quiet.allow(host + " " + text) {
		p.logger().Warn("refused a connection to the cluster port", "peer", from.String(), "reason", text)
	}
}

// printable makes what a stranger sent fit for a log line.
func printable(s string) string {
	if s == "" {
		return "(none)"
	}
	out := []rune(s)
	for i, r := range out {
		if r < 0x20 || r == 0x7F || r == 0xFFFD {
			out[i] = '?'
		}
	}
	return string(out)
}
