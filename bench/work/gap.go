package work

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	gapCallers = 16
	gapBefore  = time.Second
	gapAfter   = 4 * time.Second
	// gapWithin is what a caller waits for an answer of a member that may be gone.
	gapWithin = 2 * time.Second
)

// Gap kills the leader while callers write, starts it again, and returns the longest time in which no pair was completed.
//
// Errors: system.ErrNoLeader.
func (l *Load) Gap(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	doors := dial(l.sys.Doors(), gapWithin)
	defer hangUp(doors)
	var seen gaps
	var working sync.WaitGroup
	key := l.keys("g")
	for number, c := range callers(doors, gapCallers) {
		working.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := c.pair(key(number, i), l.answer); err != nil {
					c.next()
					pause(ctx, pauseAfterError)
					continue
				}
				seen.done(time.Now())
			}
		})
	}
	pause(ctx, gapBefore)
	seen.begin(time.Now())
	err := l.sys.KillLeader(ctx)
	if err == nil {
		pause(ctx, gapAfter)
	}
	longest := seen.end(time.Now())
	cancel()
	working.Wait()
	if err != nil {
		return 0, err
	}
	return longest, errors.Join(l.sys.Revive(context.WithoutCancel(ctx)))
}

// gaps keeps the longest time between two successes, from begin to end. It is safe for concurrent use.
type gaps struct {
	mu      sync.Mutex
	last    time.Time // zero: it has not begun
	longest time.Duration
}

func (g *gaps) begin(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = now
}

func (g *gaps) done(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last.IsZero() {
		return
	}
	g.longest, g.last = max(g.longest, now.Sub(g.last)), now
}

// end returns the longest, one that has not ended yet too.
func (g *gaps) end(now time.Time) time.Duration {
	g.done(now)
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.longest
}
