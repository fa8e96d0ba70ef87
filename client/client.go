package client

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"onced"
)

// Defaults of Config.
const (
	DefaultTimeout        = 30 * time.Second
	DefaultTryTimeout     = 5 * time.Second
	DefaultMaxAnswerBytes = 64 << 20
)

// Config is what New needs. Only Nodes is required.
type Config struct {
	// Nodes are the base URLs of the cluster's nodes, http://HOST:PORT or https://HOST:PORT, all of
	// one cluster, the preferred one first.
	Nodes []string
	// Token is the credential, sent to every node, until UseToken. "" = none.
	Token string
	// RootCAs are the authorities that the certificates of https:// nodes are of. nil = the system's. Not with
	// a Transport, which has its own.
	RootCAs *x509.CertPool
	// Tenant is that of a request whose ID names none. "" = the credential's own.
	Tenant string

	// Timeout bounds a call whose context has no deadline; its wait comes on top. 0 = DefaultTimeout.
	Timeout time.Duration
	// TryTimeout is how long one node may take to answer, the call's wait and the time for a large
	// body aside, before the next is asked. 0 = DefaultTryTimeout.
	TryTimeout time.Duration
	// Rounds is how often every node may be asked in one call. 0 = until the call's time is over.
	Rounds int
	// ReturnAfter is how long after a failover the first of Nodes is tried again. 0 = never: the
	// client stays with a node that works.
	ReturnAfter time.Duration
	// MaxAnswerBytes bounds what is read of an answer. 0 = DefaultMaxAnswerBytes.
	MaxAnswerBytes int64

	// Transport sends the requests. It must send each at most once. nil = one of the Client's own, which
	// keeps connections alive and uses no proxy.
	Transport http.RoundTripper
	Logger    *slog.Logger // for failovers and cancels that did not succeed; nil = nothing
}

func (c Config) withDefaults() Config {
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.TryTimeout == 0 {
		c.TryTimeout = DefaultTryTimeout
	}
	if c.MaxAnswerBytes == 0 {
		c.MaxAnswerBytes = DefaultMaxAnswerBytes
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// check returns an error that names the first setting that is wrong.
func (c Config) check() error {
	if c.Timeout < 0 || c.TryTimeout < 0 || c.ReturnAfter < 0 || c.Rounds < 0 || c.MaxAnswerBytes < 0 {
		return errors.New("a negative time-out, number of rounds or size: expected 0 for the default, or more")
	}
	if c.Tenant != "" {
		if err := onced.CheckTenant(c.Tenant); err != nil {
			return errors.New(onced.AsProblem(err).Detail)
		}
	}
	if c.RootCAs != nil && c.Transport != nil {
		return errors.New("RootCAs are set beside a Transport: expected them in its own settings")
	}
	return checkToken(c.Token)
}

func checkToken(token string) error {
	for i := 0; i < len(token); i++ {
		if b := token[i]; b <= 0x20 || b > 0x7E {
			return fmt.Errorf("the token has byte 0x%02X at %d: expected printable ASCII without spaces", b, i)
		}
	}
	return nil
}

// Client is a onced.Keeper on a remote cluster, safe for concurrent use. Close it at the end.
//
// A ReserveRequest's MaxKeys is not sent: a tenant's quota is the nodes' to set. Of a reserve,
// a renew or a list, only what the API tells is in the returned records.
type Client struct {
	Config
	nodes     []*node
	transport http.RoundTripper
	traced    bool                   // transport tells when it has a connection
	token     atomic.Pointer[string] // in force

	current atomic.Int64 // index of the node that calls begin with
	movedAt atomic.Int64 // when current was last changed or the first node tried again, as time.Time.UnixNano

	toldAt atomic.Int64 // when a failover was logged last, as time.Time.UnixNano

	mu      sync.Mutex
	closed  bool
	owed    int           // cancels under way
	settled chan struct{} // closed when closed and owed is 0; made by Close
	stop    context.CancelFunc
	life    context.Context // of the cancels
}

var _ onced.Keeper = (*Client)(nil)

// New returns a Client. It sends nothing yet.
//
// Errors name the setting that is wrong.
func New(cfg Config) (*Client, error) {
	nodes, err := parseNodes(cfg.Nodes)
	if err != nil {
		return nil, err
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	c := &Client{Config: cfg.withDefaults(), nodes: nodes, transport: cfg.Transport}
	if c.transport == nil {
		c.transport = NewTransport(cfg.RootCAs)
	}
	_, c.traced = c.transport.(*http.Transport)
	c.token.Store(&cfg.Token)
	c.life, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// UseToken has every request from now on show another token.
//
// Errors say what no token can be; the old one stays in force then.
func (c *Client) UseToken(token string) error {
	if err := checkToken(token); err != nil {
		return err
	}
	c.token.Store(&token)
	return nil
}

// Close waits until the cancels that are owed are done, or until ctx ends, and then lets go of
// its connections. Calls that are under way are not waited for; end them before.
//
// Errors: ctx's, when cancels were given up for it.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed {
		c.closed, c.settled = true, make(chan struct{})
		if c.owed == 0 {
			close(c.settled)
		}
	}
	settled := c.settled
	c.mu.Unlock()
	var err error
	select {
	case <-settled:
	case <-ctx.Done():
		err = fmt.Errorf("waiting for the cancels of reserves that were given up: %w", ctx.Err())
	}
	c.stop()
	<-settled
	if own, ok := c.transport.(*http.Transport); ok && c.Transport == nil {
		own.CloseIdleConnections()
	}
	return err
}
