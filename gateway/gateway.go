package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"onced"
)

// Deps are what a Gateway works with.
type Deps struct {
	Keeper onced.Keeper // required
	Logger *slog.Logger // nil = slog.Default()
	// Secret is the cluster's secret, equal on all nodes: it keys fingerprints and accounts. Without
	// one they are plain digests, and a warning says so.
	Secret []byte
	// RequestTimeout bounds a Reserve, and how long a client waits for its answer to be
	// recorded; 0 = DefaultRequestTimeout.
	RequestTimeout time.Duration
	// Aside keeps the gateway's own records (look-ups under way, answers that freed their key). It should be
	// the same table without limits: they belong to operations that were admitted. nil = Keeper.
	Aside onced.Keeper
	// MaxAsync bounds the operations that are under way for clients that were answered 202; one more is
	// answered when it ends. 0 = DefaultMaxAsync.
	MaxAsync int
	// Dial connects to the upstream; nil = TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Observe is told of every request that was answered; nil = nobody. It must not block.
	Observe func(Event)
	Meter   Meter // nil = nobody
}

// DefaultRequestTimeout is that of Deps.RequestTimeout.
const DefaultRequestTimeout = 10 * time.Second

// Gateway is the http.Handler that protects an upstream. It is safe for concurrent use.
type Gateway struct {
	keeper, aside  onced.Keeper
	log            *slog.Logger
	secret         []byte
	requestTimeout time.Duration
	observe        func(Event)
	meter          Meter
	upstreams      transports
	secure         *tls.Config // of the listener
	detector       *detector
	bodies         bound // bytes of bodies in memory
	sweeping       sync.Once

	table atomic.Pointer[table]
	ops   operations
	async slots
	// closing ends when a shutdown begins: then nobody waits for an operation of somebody else.
	closing context.Context
	close   context.CancelFunc
	// late is the context of everything that goes on after its request was answered; it ends
	// when a drain gives up.
	late   context.Context
	giveUp context.CancelFunc
}

// New returns a Gateway.
//
// Errors: those of Reload, and a missing Keeper.
func New(c Config, d Deps) (*Gateway, error) {
	if d.Keeper == nil {
		return nil, errors.New("gateway: it needs a Keeper")
	}
	g := &Gateway{keeper: d.Keeper, aside: d.Aside, log: d.Logger, secret: d.Secret, requestTimeout: d.RequestTimeout, observe: d.Observe,
		meter: d.Meter, upstreams: newTransports(d.Dial), detector: newDetector()}
	if g.log == nil {
		g.log = slog.Default()
	}
	if g.requestTimeout <= 0 {
		g.requestTimeout = DefaultRequestTimeout
	}
	if g.observe == nil {
		g.observe = func(Event) {}
	}
	g.secure = g.secureConfig()
	if g.aside == nil {
		g.aside = d.Keeper
	}
	if d.MaxAsync <= 0 {
		d.MaxAsync = DefaultMaxAsync
	}
	g.async = make(slots, d.MaxAsync)
	g.closing, g.close = context.WithCancel(context.Background())
	if g.meter == nil {
		g.meter = noMeter{}
	}
	g.late, g.giveUp = context.WithCancel(context.Background())
	if err := g.Reload(c); err != nil {
		return nil, err
	}
	return g, nil
}

// Reload puts another configuration in force. Requests that are under way end under
// the one they began with. Addr is not looked at.
//
// Errors: those of Config.Validate, and a place for blobs that cannot be used; the old configuration stays in force
// then.
func (g *Gateway) Reload(c Config) error {
	t, err := compile(c, g.secret)
	if err != nil {
		return err
	}
	if t.blobs, err = t.blobPlan.open(); err != nil {
		return &placed{text: "gateway: ", err: at("blobs", err)}
	}
	t.proxy = g.newProxy(t)
	t.adopt(g.table.Load())
	g.bodies.limit.Store(t.bodyMemory)
	g.warn(c, t)
	g.upstreams.believe(t.roots)
	g.table.Store(t)
	if t.blobs != nil {
		g.sweeping.Do(func() { go g.sweepBlobs() })
	}
	return nil
}

// warn says aloud what is allowed but dangerous.
func (g *Gateway) warn(c Config, t *table) {
	if t.account.single {
		g.log.Warn("gateway: tenant is single: every caller shares one set of keys, and the upstream's own authorisation is not asked before a replay")
	}
	if t.account.key != nil {
		g.log.Warn("gateway: tenant is authorization: a refreshed credential is another account, and its keys are new ones")
	}
	if len(g.secret) == 0 {
		g.log.Warn("gateway: there is no cluster secret: fingerprints are plain digests, from which a short body can be guessed by whoever reads the table")
	}
	for _, r := range c.Routes {
		if r.Probe != "" && r.OnUnknown != "probe" {
			g.log.Warn("gateway: probe is said but on_unknown is not probe: it is never asked", "route", r.Match)
		}
	}
}

// Drain refuses new protected requests with 503 and waits until those under way are
// answered and recorded. When ctx ends first it stops recording, and its error says how many are left:
// their records lapse to unknown, or to a takeover.
func (g *Gateway) Drain(ctx context.Context) error {
	g.close()
	err := g.ops.drain(ctx)
	g.giveUp()
	g.upstreams.close()
	return err
}

// Server returns an http.Server for the gateway at c's address, with the time-outs that
// keep slow clients from holding connections. A body and an answer have their own. It is to serve a
// port that went through [Gateway.Listener].
func (g *Gateway) Server(c Config) *http.Server {
	s := &http.Server{
		Addr: c.Addr, Handler: g, ReadHeaderTimeout: g.table.Load().headerTimeout, IdleTimeout: idleFor, MaxHeaderBytes: requestHead,
		Protocols: protocols(), ConnContext: withConn, ErrorLog: slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
	}
	s.RegisterOnShutdown(g.close)
	return s
}

// ServeHTTP protects the requests of protected routes and passes all others on.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = withRequestID(r)
	if explained(w, r) {
		return
	}
	t := g.table.Load()
	r = t.cors.remember(r)
	own, odd := ownPath(r.URL.EscapedPath())
	if own {
		g.serveOwn(w, r, t)
		return
	}
	c, err := t.choose(r.Method, r.URL.EscapedPath())
	if err == nil {
		err = t.checkOverride(r, c)
	}
	if odd {
		err = onced.Problemf(onced.CodeInvalidRequest, "the path can also be read as one below /%s/, which is the gateway's own; send it in its plain form", ownSegment)
	}
	if err == nil && r.Method == http.MethodConnect {
		err = onced.Problemf(onced.CodeInvalidRequest, "CONNECT is not taken here: this is a proxy for one upstream")
	}
	if err != nil {
		g.observe(Event{Outcome: Refused})
		newClient(w, r, c.contract()).refuse(refusal{problem: onced.AsProblem(err)})
		return
	}
	if !c.route.protected() || c.route.key == keyOptional && len(r.Header[onced.KeyHeader]) == 0 {
		leave, ok := g.passPlace(c.route)
		if !ok {
			g.observe(Event{Outcome: Refused})
			newClient(w, r, c.contract()).refuse(refusal{problem: fullProblem(c.route)})
			return
		}
		defer leave()
		g.observe(Event{Outcome: Passed})
		w.Header()["Content-Type"] = nil // where the upstream says none, net/http must not guess one
		t.proxy.ServeHTTP(w, r)
		return
	}
	g.protect(w, r, t, c)
}
