package main

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// arrivals are the connections that were taken and have not sent a request yet. Once net/http
// shuts down it closes such a connection even when its request has just been read, which leaves a caller who
// sent it in time without an answer.
type arrivals struct {
	mu    sync.Mutex
	fresh map[net.Conn]struct{}
}

// track is for http.Server.ConnState.
func (a *arrivals) track(c net.Conn, state http.ConnState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if state != http.StateNew {
		delete(a.fresh, c)
		return
	}
	if a.fresh == nil {
		a.fresh = map[net.Conn]struct{}{}
	}
	a.fresh[c] = struct{}{}
}

func (a *arrivals) none() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.fresh) == 0
}

const (
	// lastRequest is how long the connections that were taken last have to send their request.
	lastRequest = time.Second
	// readRequest is more than net/http takes from the first byte of a request to its handler.
	readRequest = 20 * time.Millisecond
)

// wait returns once every connection has sent its request, or lastRequest is over. No port may be open any more.
func (a *arrivals) wait() {
	for end := time.Now().Add(lastRequest); !a.none() && time.Now().Before(end); {
		time.Sleep(readRequest / 4)
	}
	time.Sleep(readRequest)
}
