package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"onced/gateway"
	"onced/internal/certificate"
)

// front is what takes requests in a process: the HTTP address (of a node's API, or of a gateway's health) and the
// gateway. A node and a gateway on its own have one each. Its parts are started in the order of the fields.
type front struct {
	log     *slog.Logger
	apiName string           // what the HTTP address is for, in a message
	hangups <-chan os.Signal // SIGHUPs since the start; nil where nobody sends any

	apiPort     net.Listener
	doorPort    net.Listener      // of the gateway; nil without routes
	certificate *certificate.Pair // of the HTTP address; nil = plain HTTP
	stopping    atomic.Bool       // requests are no longer wanted; /readyz says so
	arrivals    arrivals          // at both servers
	apiServer   *http.Server
	door        *gateway.Gateway // nil without routes
	doorServer  *http.Server
	failed      chan error // a listener that broke
}

var errStopping = errors.New("this process is stopping")

// bind opens the ports. gatewayAddr is "" where there are no routes.
func (f *front) bind(httpAddr, gatewayAddr string) (err error) {
	if f.apiPort, err = net.Listen("tcp", httpAddr); err != nil {
		return fmt.Errorf("http_addr: %w", err)
	}
	if gatewayAddr == "" {
		return nil
	}
	if f.doorPort, err = net.Listen("tcp", gatewayAddr); err != nil {
		return fmt.Errorf("gateway_addr: %w", err)
	}
	return nil
}

func (f *front) closePorts() {
	for _, port := range []net.Listener{f.apiPort, f.doorPort} {
		if port != nil {
			port.Close()
		}
	}
}

// openDoor makes the gateway.
func (f *front) openDoor(c gateway.Config, d gateway.Deps) (err error) {
	if f.door, err = gateway.New(c, d); err != nil {
		return err
	}
	f.doorServer = f.door.Server(c)
	f.doorServer.Handler = f.lettingGo(f.doorServer.Handler)
	f.doorPort = f.door.Listener(f.doorPort)
	return nil
}

// begin answers from here on.
func (f *front) begin() {
	f.failed = make(chan error, 2)
	f.serve(f.apiServer, f.apiPort, f.apiName)
	if f.doorServer != nil {
		f.serve(f.doorServer, f.doorPort, "gateway")
	}
}

func (f *front) serve(h *http.Server, port net.Listener, name string) {
	h.ConnState = f.arrivals.track
	go func() {
		serve := h.Serve
		if h.TLSConfig != nil {
			serve = func(l net.Listener) error { return h.ServeTLS(l, "", "") }
		}
		if err := serve(port); !errors.Is(err, http.ErrServerClosed) && !f.stopping.Load() {
			f.failed <- fmt.Errorf("serving the %s: %w", name, err)
		}
	}()
}

// url is where the HTTP address is reached.
func (f *front) url() string {
	if f.certificate != nil {
		return "https://" + f.apiPort.Addr().String()
	}
	return "http://" + f.apiPort.Addr().String()
}

// farewell is how long it is only said that no requests are wanted, by /readyz and by the end of each
// connection with its next answer. A connection that is closed while a request is on its way leaves a caller who cannot
// tell what came of it, so the busy ones should be gone by then.
const farewell = 200 * time.Millisecond

// end says that no requests are wanted, finishes those under way and lets the gateway store what is still to be
// stored, for at most drain. It goes on after ctx, whose end is what usually brought it here.
func (f *front) end(ctx context.Context, drain time.Duration) error {
	f.stopping.Store(true)
	if ctx.Err() != nil { // it was asked to end; after a fault there is nothing to wait for
		time.Sleep(farewell)
		f.closePorts()
		f.arrivals.wait()
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	return f.drain(draining)
}

// drain waits for the requests under way.
func (f *front) drain(ctx context.Context) error {
	var errs [2]error
	var parts sync.WaitGroup
	parts.Go(func() { errs[0] = shut(ctx, f.apiServer, f.apiName) })
	if f.doorServer != nil {
		parts.Go(func() {
			errs[1] = shut(ctx, f.doorServer, "gateway")
			if err := f.door.Drain(ctx); err != nil {
				errs[1] = errors.Join(errs[1], fmt.Errorf("draining the gateway: %w", err))
			}
		})
	}
	parts.Wait()
	return errors.Join(errs[:]...)
}

// shut stops h from taking requests and waits for those under way; those that outlast
// ctx are cut.
func shut(ctx context.Context, h *http.Server, name string) error {
	if err := h.Shutdown(ctx); err != nil {
		h.Close()
		return fmt.Errorf("requests to the %s were cut: %w", name, err)
	}
	return nil
}

// lettingGo lets each connection end with its next answer once the process is stopping.
func (f *front) lettingGo(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.stopping.Load() {
			w = lastAnswer{w}
		}
		h.ServeHTTP(w, r)
	})
}

// lastAnswer writes the last answer of a connection. The line that says so is set last, since the gateway
// answers with the upstream's headers and no others.
type lastAnswer struct{ http.ResponseWriter }

// WriteHeader is part of http.ResponseWriter.
func (l lastAnswer) WriteHeader(status int) {
	if status >= http.StatusOK { // not an informational one, nor 101: that connection is not HTTP's any more
		l.Header().Set("Connection", "close")
	}
	l.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (l lastAnswer) Unwrap() http.ResponseWriter { return l.ResponseWriter }
