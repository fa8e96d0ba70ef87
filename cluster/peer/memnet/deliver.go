package memnet

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"onced/cluster/peer"
)

// deliver carries a request over and its answer back. It outlives its caller.
func (n *Node) deliver(caller context.Context, to *Node, fault Fault, r *http.Request, done chan<- answer) {
	if !to.pause(fault.Delay) {
		done <- answer{err: errCut}
		return
	}
	if fault.LoseRequests {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// The peer learns that its caller hung up as late as it learned of the request.
	defer context.AfterFunc(caller, func() {
		if to.pause(fault.Delay) {
			cancel()
		}
	})()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-to.closed:
			cancel()
		case <-stop:
		}
	}()
	a := to.serve(r.WithContext(ctx))
	if !to.pause(fault.DelayReplies) {
		a = answer{err: errCut}
	}
	if fault.LoseReplies || n.net.losesReplies(n.id, to.id) {
		return
	}
	done <- a
}

// pause waits, false when the node was closed meanwhile.
func (n *Node) pause(d time.Duration) bool {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-n.closed:
		}
	}
	select {
	case <-n.closed:
		return false
	default:
		return true
	}
}

// serve runs the handler of a request.
func (n *Node) serve(r *http.Request) (a answer) {
	w := &recorder{header: make(http.Header), status: http.StatusOK}
	defer func() {
		switch cause := recover(); cause {
		case nil:
		case http.ErrAbortHandler:
			a = answer{err: errCut}
		default:
			panic(cause)
		}
	}()
	n.gate.ServeHTTP(w, r)
	if w.status != http.StatusOK {
		return answer{err: &peer.StatusError{Code: w.status, Body: w.body.Bytes()}}
	}
	return answer{body: w.body.Bytes()}
}

// recorder is an http.ResponseWriter that keeps what it is told.
type recorder struct {
	header http.Header
	status int
	wrote  bool
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if !w.wrote {
		w.status, w.wrote = status, true
	}
}

func (w *recorder) Write(b []byte) (int, error) {
	w.wrote = true
	return w.body.Write(b)
}

// closer is a body.
type closer struct{ *bytes.Reader }

func (closer) Close() error { return nil }
