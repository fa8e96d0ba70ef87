package httpapi

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"onced"
	"onced/metrics"
)

// Defaults of Config.
const (
	DefaultMaxRequestBytes  = 1 << 20
	DefaultMaxResponseBytes = 1 << 20
	DefaultRequestTimeout   = 10 * time.Second
)

// Cluster is what the API tells of the node's cluster.
type Cluster interface {
	// Status returns the cluster as this node sees it. It does not block.
	Status() onced.ClusterStatus
	// Ready returns nil when there is a leader and this node has caught up with it, else why
	// not. It does not block.
	Ready() error
}

// Config is what New needs. Keeper, Cluster and Authority are required.
type Config struct {
	Keeper    onced.Keeper // New measures it, where there are Metrics
	Cluster   Cluster
	Authority Authority
	Admin     Admin // nil = no call changes or copies the cluster

	Metrics *metrics.Metrics // nil = no /metrics, nothing is counted
	Logger  *slog.Logger     // nil = nothing is logged

	// MaxRequestBytes bounds the body of a call other than complete and resolve. 0 = DefaultMaxRequestBytes.
	MaxRequestBytes int64
	// MaxResponseBytes bounds the body of a response to be stored; the JSON around it may be
	// 4/3 of that and 64 KiB. 0 = DefaultMaxResponseBytes.
	MaxResponseBytes int64
	// RequestTimeout is how long a call may take, its wait aside. 0 = DefaultRequestTimeout.
	RequestTimeout time.Duration
}

func (c Config) withDefaults() Config {
	if c.Keeper == nil || c.Cluster == nil || c.Authority == nil {
		panic("httpapi: New needs a Keeper, a Cluster and an Authority")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.MaxRequestBytes == 0 {
		c.MaxRequestBytes = DefaultMaxRequestBytes
	}
	if c.MaxResponseBytes == 0 {
		c.MaxResponseBytes = DefaultMaxResponseBytes
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = DefaultRequestTimeout
	}
	if c.Metrics != nil {
		c.Keeper = c.Metrics.Keeper(c.Keeper)
	}
	return c
}

// api is the handler's configuration, never changed after New.
type api struct {
	Config
	room batchRoom
}

// New returns the handler of the whole API.
func New(cfg Config) http.Handler {
	a := &api{Config: cfg.withDefaults(), room: newBatchRoom(batchSlots, maxBatchReplays)}
	return a.observe(a.guard(shortcut(a.keyCalls(), a.router())))
}

// router knows every path.
func (a *api) router() *mux.Router {
	r := mux.NewRouter().UseEncodedPath().SkipClean(true)
	a.routeKeys(r)
	r.Handle("/v1/cluster", a.verbs(verbs{"GET": {name: "cluster", serve: (*call).cluster}}))
	a.routeAdmin(r)
	if a.Metrics != nil {
		r.Handle("/metrics", a.verbs(verbs{"GET": {name: "metrics", everyTenant: a.Metrics.ByTenant(), serve: (*call).metrics}}))
	}
	r.Handle("/openapi.yaml", page{"openapi", openAPI})
	a.routePages(r)
	return r
}

// keysPath is what the path of a key begins with. The key is the next segment, and the verb the one after.
const keysPath = "/v1/keys/"

// shortcut takes the calls of a key past the router, which would match one pattern after the other: it is most of what a node is
// asked, and always of the same shape.
func shortcut(byVerb map[string]http.Handler, router http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rest, ok := strings.CutPrefix(r.URL.EscapedPath(), keysPath); ok {
			_, verb, _ := strings.Cut(rest, "/")
			if h := byVerb[verb]; h != nil {
				h.ServeHTTP(w, r)
				return
			}
		}
		router.ServeHTTP(w, r)
	})
}

// routePages adds what asks nobody for credentials.
func (a *api) routePages(r *mux.Router) {
	r.Handle("/healthz", page{"healthz", a.healthz})
	r.Handle("/readyz", page{"readyz", a.readyz})
	r.Handle("/problems/", page{"problems", explainAll})
	r.Handle("/problems/{code}", page{"problem", explainOne})
	r.NotFoundHandler = http.HandlerFunc(notFound)
}

// keyCalls are the handlers of a key's calls by their verb.
func (a *api) keyCalls() map[string]http.Handler {
	scope := []string{"scope"}
	return map[string]http.Handler{
		"reserve":  a.verbs(verbs{"POST": {name: "reserve", keyed: true, params: scope, serve: (*call).reserve}}),
		"complete": a.verbs(verbs{"POST": {name: "complete", keyed: true, params: scope, serve: (*call).complete}}),
		"release":  a.verbs(verbs{"POST": {name: "release", keyed: true, params: scope, serve: (*call).release}}),
		"renew":    a.verbs(verbs{"POST": {name: "renew", keyed: true, params: scope, serve: (*call).renew}}),
		"resolve":  a.verbs(verbs{"POST": {name: "resolve", keyed: true, operator: true, params: scope, serve: (*call).resolve}}),
	}
}

// routeKeys adds the calls on keys. The pattern of a key takes the empty one too, so that it
// is refused as a key and not as a path.
func (a *api) routeKeys(r *mux.Router) {
	const key = keysPath + "{key:[^/]*}"
	r.Handle("/v1/batch", a.verbs(verbs{"POST": {name: "batch", serve: (*call).batch}}))
	for verb, handler := range a.keyCalls() {
		r.Handle(key+"/"+verb, handler)
	}
	r.Handle(key, a.verbs(verbs{
		"GET":    {name: "get", keyed: true, params: []string{"scope", "wait", "stale"}, serve: (*call).get},
		"DELETE": {name: "forget", keyed: true, operator: true, params: []string{"scope", "force", "reason"}, serve: (*call).forget},
	}))
	r.Handle("/v1/keys", a.verbs(verbs{
		"GET": {name: "list", params: []string{"scope", "state", "prefix", "limit", "cursor"}, serve: (*call).list},
	}))
}
