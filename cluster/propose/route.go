package propose

import "sync"

// Route says who leads, as this node sees it.
type Route struct {
	Known  bool   // a leader is known
	Self   bool   // this node leads and has applied everything up to its term
	Leader string // its node id
	Addr   string // of its cluster port
	Term   uint64 // that it leads in
}

// Routes holds the present Route and tells of its changes. Create it with NewRoutes.
type Routes struct {
	mu      sync.Mutex
	route   Route
	changed chan struct{} // closed when route is replaced
}

// NewRoutes returns Routes with no known leader.
func NewRoutes() *Routes { return &Routes{changed: make(chan struct{})} }

// Set replaces the route. The same route again is no change.
func (r *Routes) Set(route Route) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if route == r.route {
		return
	}
	r.route = route
	close(r.changed)
	r.changed = make(chan struct{})
}

// Get returns the route and a channel that is closed once it is not the present one.
func (r *Routes) Get() (Route, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.route, r.changed
}
