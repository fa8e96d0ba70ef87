package gateway

import (
	"context"
	"fmt"
	"sync"
)

// operations counts what is under way, so that a shutdown can wait for it.
type operations struct {
	mu      sync.Mutex
	n       int
	closing bool
	idle    chan struct{} // closed once closing and n is 0
}

// begin counts one operation more, false once a drain has begun.
func (o *operations) begin() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing {
		return false
	}
	o.n++
	return true
}

// branch counts one more as a part of an operation that is under way.
func (o *operations) branch() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n++
}

// end counts one less.
func (o *operations) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n--
	if o.closing && o.n == 0 {
		close(o.idle)
	}
}

// drain lets nothing begin any more and waits until nothing is under way, or ctx is over.
func (o *operations) drain(ctx context.Context) error {
	o.mu.Lock()
	if !o.closing {
		o.closing = true
		o.idle = make(chan struct{})
		if o.n == 0 {
			close(o.idle)
		}
	}
	idle := o.idle
	o.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n == 0 {
		return nil
	}
	return fmt.Errorf("draining the gateway: %d operations are still under way: %w", o.n, context.Cause(ctx))
}
