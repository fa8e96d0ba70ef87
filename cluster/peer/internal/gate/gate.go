// Package gate stands before the RPC handlers of a node, whatever carries the
// requests there: it finds the handler, refuses another cluster's callers, reads
// the body within its bounds, and says it loudly when a handler panics.
//
// Invariants:
//
//   - A handler added by Handle runs only for a caller of the same cluster, and
//     not before this node has one.
//   - A handler sees the whole body or is not called: no operation starts on half a request.
//   - After Close no handler is started, and Close waits for those that run.
package gate

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Headers of every request.
const (
	HeaderCluster = "Onced-Cluster" // the caller's cluster id, "" while it has none
	HeaderNode    = "Onced-Node"    // the caller's node id
)

// closeWait bounds how long Close waits for running handlers.
const closeWait = 5 * time.Second

// Gate is an http.Handler. Make it with New.
type Gate struct {
	node    string
	logger  *slog.Logger
	cluster atomic.Pointer[string]

	mu     sync.RWMutex
	routes map[string]route // guarded by mu
	closed bool             // guarded by mu
	active sync.WaitGroup   // handlers that run; Add only while mu is held and closed is false
}

type route struct {
	handler http.Handler
	any     bool // callers of no or another cluster too
}

// New returns a gate without handlers.
func New(node string, logger *slog.Logger) *Gate {
	g := &Gate{node: node, logger: logger, routes: make(map[string]route)}
	g.SetClusterID("")
	return g
}

// SetClusterID says which cluster this node belongs to.
func (g *Gate) SetClusterID(id string) { g.cluster.Store(&id) }

// ClusterID returns what SetClusterID was told, "" before.
func (g *Gate) ClusterID() string { return *g.cluster.Load() }

// Handle adds the handler of a path for callers of this node's cluster.
func (g *Gate) Handle(path string, h http.Handler) { g.add(path, route{handler: h}) }

// HandleAny adds the handler of a path for callers of any cluster or none.
func (g *Gate) HandleAny(path string, h http.Handler) { g.add(path, route{handler: h, any: true}) }

func (g *Gate) add(path string, r route) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.routes[path] = r
}

// Close refuses what comes from now on and waits, up to 5 s, for the handlers
// that run. It tells whether all ended.
func (g *Gate) Close() bool {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	done := make(chan struct{})
	go func() {
		g.active.Wait()
		close(done)
	}()
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// enter looks a path up and counts its handler as running.
func (g *Gate) enter(path string) (r route, ok, closed bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.closed {
		return route{}, false, true
	}
	r, ok = g.routes[path]
	if ok {
		g.active.Add(1)
	}
	return r, ok, false
}

// ServeHTTP lets one request through to its handler, or says why not.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rt, ok, closed := g.enter(r.URL.Path)
	switch {
	case closed:
		http.Error(w, "node "+g.node+" is shutting down", http.StatusServiceUnavailable)
		return
	case !ok:
		http.Error(w, "node "+g.node+" knows no call "+r.URL.Path, http.StatusNotFound)
		return
	}
	defer g.active.Done()
	if status, text := g.admit(rt, r.Header.Get(HeaderCluster)); status != 0 {
		http.Error(w, text, status)
		return
	}
	if status, err := buffer(w, r); err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	defer g.report(r)
	rt.handler.ServeHTTP(w, r)
}

// admit compares the caller's cluster with this node's. Status 0 lets it through.
func (g *Gate) admit(rt route, caller string) (status int, text string) {
	own := g.ClusterID()
	switch {
	case rt.any || (own == caller && own != ""):
		return 0, ""
	case own == "":
		return http.StatusServiceUnavailable, fmt.Sprintf("node %s belongs to no cluster yet", g.node)
	case caller == "":
		return http.StatusMisdirectedRequest, fmt.Sprintf("node %s belongs to cluster %s, the caller to none yet", g.node, own)
	}
	return http.StatusMisdirectedRequest, fmt.Sprintf("node %s belongs to cluster %s, the caller to cluster %s", g.node, own, caller)
}

// report logs a handler's panic with its stack and then cuts the connection: how
// far the handler came is not known, so the caller must not take any status for a "no".
func (g *Gate) report(r *http.Request) {
	cause := recover()
	if cause == nil {
		return
	}
	if cause != http.ErrAbortHandler {
		g.logger.Error("handler of a peer's call panicked; the call is cut off", "path", r.URL.Path,
			"peer", r.Header.Get(HeaderNode), "panic", cause, "stack", string(debug.Stack()))
	}
	panic(http.ErrAbortHandler)
}
