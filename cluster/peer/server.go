package peer

import (
	"context"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	maxIdlePerPeer = 32
	clientIdle     = 90 * time.Second // shorter than the server's, so that the caller hangs up first:
	serverIdle     = 3 * time.Minute  // a server that does may cut a request that is just arriving
	headerTimeout  = 10 * time.Second
	maxHeader      = 16 << 10 // bytes
)

// newServer is the answering half.
func newServer(p *Port) *http.Server {
	return &http.Server{
		Handler:           p.gate,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       serverIdle,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(serverLog{p.logger()}, "", 0),
	}
}

// serverLog takes net/http's own lines.
type serverLog struct{ logger *slog.Logger }

func (l serverLog) Write(line []byte) (int, error) {
	l.logger.Warn("cluster port", "http", strings.TrimSpace(string(line)))
	return len(line), nil
}

// rpcListener hands connections past their preface to net/http.
type rpcListener struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newRPCListener(addr net.Addr) *rpcListener {
	return &rpcListener{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// offer waits until the owner takes c; it closes c when there is none any more.
func (l *rpcListener) offer(ctx context.Context, c *conn) error {
	select {
	case l.conns <- c:
		return nil
	case <-l.closed:
	case <-ctx.Done():
	}
	c.Close()
	return nil
}

// Accept returns the next connection, net.ErrClosed after Close.
func (l *rpcListener) Accept() (net.Conn, error) {
	select {
	case <-l.closed: // first: a closed listener must not take one more
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. Repeated: no effect.
func (l *rpcListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns the address that the port listens on.
func (l *rpcListener) Addr() net.Addr { return l.addr }
