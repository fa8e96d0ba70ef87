package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// dial opens a connection to the node at addr and comes back when that node has
// agreed to it. The address is resolved anew each time.
func (p *Port) dial(ctx context.Context, kind byte, addr, to string) (*conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	d := net.Dialer{KeepAliveConfig: keepAlive}
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("dialling %s: %w", addr, err)
	}
	c, err := p.introduce(ctx, raw, kind, addr, to)
	if err != nil {
		raw.Close()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("dialling %s: %w", addr, err)
	}
	return c, nil
}

// introduce does the dialler's part of the handshake.
func (p *Port) introduce(ctx context.Context, raw net.Conn, kind byte, addr, to string) (*conn, error) {
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	if err := raw.SetDeadline(time.Now().Add(p.cfg.handshake)); err != nil {
		return nil, err
	}
	secured, err := p.cfg.TLS.dial(ctx, raw, addr)
	if err != nil {
		return nil, err
	}
	hello, err := preface{kind: kind, cluster: p.gate.ClusterID(), from: p.cfg.NodeID, to: to}.encode()
	if err != nil {
		return nil, err
	}
	if _, err := secured.Write(hello); err != nil {
		return nil, err
	}
	refusal, err := readVerdict(secured)
	if err != nil {
		return nil, p.cfg.TLS.explain(silence(err), addr)
	}
	if refusal != "" {
		return nil, &RefusedError{Addr: addr, Text: printable(refusal)}
	}
	if err := raw.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	c := &conn{Conn: secured, port: p, raft: kind == kindRaft}
	if kind == kindRPC {
		c.writeTimeout = idleWrite
	}
	if !p.track(c) {
		return nil, net.ErrClosed
	}
	return c, nil
}

// silence says in words that the other side hung up instead of answering.
func silence(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it closed the connection without a word: no onced node, or one with other TLS settings")
	}
	return err
}
