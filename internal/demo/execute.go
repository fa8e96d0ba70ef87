package demo

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// execution is one run of a plan against a set of doors.
type execution struct {
	client      *client
	concurrency int
	half        func(sent int)        // called once when half of the steps have been taken; may be nil
	progress    func(done, total int) // called after every step, from many goroutines
	results     []result              // of the steps, by their number
	took        time.Duration
}

// newTransport keeps one connection for each of n clients and door.
func newTransport(n int) *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: n, MaxIdleConns: 0, IdleConnTimeout: 30 * time.Second, DisableCompression: true}
}

// run sends every step with the given number of clients at once, in the plan's order; a
// repeat waits until the first request of its key is on its way. It returns early,
// with some results empty, when ctx ends.
func (e *execution) run(ctx context.Context) {
	start := time.Now()
	steps := e.client.plan.steps
	e.results = make([]result, len(steps))
	for i := range e.results {
		e.results[i].ending = aborted
	}
	firsts := newGates(e.client.plan.keys)
	var next, done atomic.Int64
	var half sync.Once
	var workers sync.WaitGroup
	for range e.concurrency {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(steps) {
					return
				}
				if e.half != nil && i >= len(steps)/2 {
					half.Do(func() { e.half(i) })
				}
				e.results[i] = e.step(ctx, i, firsts)
				e.progress(int(done.Add(1)), len(steps))
			}
		})
	}
	workers.Wait()
	e.took = time.Since(start)
}

// step sends step i. Its door goes round robin.
func (e *execution) step(ctx context.Context, i int, firsts gates) result {
	s := e.client.plan.steps[i]
	if s.repeat {
		if !firsts.wait(ctx, s.key) {
			return result{ending: aborted}
		}
		return e.client.do(ctx, s, i, func() {})
	}
	return e.client.do(ctx, s, i, func() { firsts.open(s.key) })
}

// gates holds one gate for each key, opened when its first request has gone out.
type gates []gate

type gate struct {
	once *sync.Once
	ch   chan struct{}
}

func newGates(n int) gates {
	g := make(gates, n)
	for i := range g {
		g[i] = gate{new(sync.Once), make(chan struct{})}
	}
	return g
}

func (g gates) open(key int) { g[key].once.Do(func() { close(g[key].ch) }) }

// wait tells whether the gate of key opened before ctx ended.
func (g gates) wait(ctx context.Context, key int) bool {
	select {
	case <-g[key].ch:
		return true
	case <-ctx.Done():
		return false
	}
}
