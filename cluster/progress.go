package cluster

import (
	"context"
	"sync"
	"sync/atomic"
)

// progress tells how far the table is, and lets readers wait for an index.
type progress struct {
	index atomic.Uint64

	mu      sync.Mutex
	waiting int
	moved   chan struct{} // closed and replaced when index moves while somebody waits
}

func newProgress(index uint64) *progress {
	p := &progress{moved: make(chan struct{})}
	p.index.Store(index)
	return p
}

// reached notes that the table has everything up to index.
func (p *progress) reached(index uint64) {
	p.index.Store(index)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting > 0 {
		close(p.moved)
		p.moved = make(chan struct{})
	}
}

// wait returns once the table has everything up to index, or with ctx's error.
func (p *progress) wait(ctx context.Context, index uint64) error {
	for p.index.Load() < index {
		p.mu.Lock()
		p.waiting++
		moved := p.moved
		p.mu.Unlock()
		var err error
		if p.index.Load() < index {
			select {
			case <-moved:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		p.mu.Lock()
		p.waiting--
		p.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}
