package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"onced"
	"onced/fsm/memkeeper"
	"onced/httpapi"
	"onced/internal/config"
)

// doubleNode is a node in memory whose end the test decides.
type doubleNode struct {
	onced.Keeper
	httpapi.Admin
	done     chan struct{}
	err      error
	shutdown func(context.Context) error
}

func (d *doubleNode) Status() onced.ClusterStatus { return onced.ClusterStatus{NodeID: "n1"} }
func (d *doubleNode) Ready() error                { return nil }
func (d *doubleNode) Done() <-chan struct{}       { return d.done }
func (d *doubleNode) Err() error                  { return d.err }
func (d *doubleNode) ReloadTLS() error            { return nil }
func (d *doubleNode) Shutdown(ctx context.Context) error {
	if d.shutdown == nil {
		return nil
	}
	return d.shutdown(ctx)
}

// newServer returns a server on free ports whose node is d; opening it fails with openErr.
func newServer(d *doubleNode, openErr error) *server {
	d.Keeper = memkeeper.New(func() onced.Instant { return 1 })
	return &server{
		settings: config.Serve{NodeID: "n1", HTTPAddr: "127.0.0.1:0", RequestTimeout: time.Second, DrainTimeout: time.Second},
		front:    front{log: slog.New(slog.DiscardHandler), apiName: "API"},
		wall:     time.Now,
		open: func(context.Context, *server) (node, error) {
			if openErr != nil {
				return nil, openErr
			}
			return d, nil
		},
	}
}

func TestNodeThatStopsEndsTheServer(t *testing.T) {
	d := &doubleNode{done: make(chan struct{}), err: errors.New("the disk is gone")}
	close(d.done)
	err := newServer(d, nil).run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the disk is gone") || errors.As(err, new(refusal)) {
		t.Errorf("error %v", err)
	}
}

func TestRefusedNode(t *testing.T) {
	s := newServer(&doubleNode{}, refusal{errors.New("this node was wiped")})
	if err := s.run(t.Context()); !errors.As(err, new(refusal)) {
		t.Errorf("error %v", err)
	}
	if _, err := s.apiPort.Accept(); err == nil {
		t.Error("the port is still open")
	}
}

// TestOrderOfTheEnd looks around at the moment in which the node leaves the cluster: no
// request may be taken any more, and /readyz must have failed before.
func TestOrderOfTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := &doubleNode{done: make(chan struct{})}
	s := newServer(d, nil)
	var during error
	d.shutdown = func(ctx context.Context) error {
		if s.Ready() == nil {
			t.Error("it says that it is ready")
		}
		_, during = http.Get("http://" + s.apiPort.Addr().String() + "/healthz")
		return ctx.Err()
	}
	cancel()
	if err := s.run(ctx); err != nil {
		t.Errorf("error %v", err)
	}
	if during == nil {
		t.Error("the API still takes requests while the node leaves")
	}
}

func TestFailedHandoverIsAFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := &doubleNode{done: make(chan struct{}), shutdown: func(context.Context) error { return errors.New("nobody takes it") }}
	if err := newServer(d, nil).run(ctx); err == nil || !strings.Contains(err.Error(), "nobody takes it") {
		t.Errorf("error %v", err)
	}
}

// TestBrokenListenerEndsTheServer takes the port away from under the API.
func TestBrokenListenerEndsTheServer(t *testing.T) {
	d := &doubleNode{done: make(chan struct{})}
	s := newServer(d, nil)
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.apiPort.Close()
	if err := <-s.failed; err == nil || !strings.Contains(err.Error(), "serving the API") {
		t.Errorf("error %v", err)
	}
}
