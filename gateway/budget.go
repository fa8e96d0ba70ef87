package gateway

import (
	"context"
	"errors"
	"time"
)

// errTimeout is the cause of an operation's context that ends by its route's time-out.
var errTimeout = errors.New("the upstream did not answer within the route's timeout")

// budget is the time that the upstream has. It stands still while the client is
// written to, so that a slow client does not make the outcome of a finished operation unknown.
type budget struct {
	timer *time.Timer
	since time.Time
	left  time.Duration
}

// newBudget returns a context that ends with errTimeout once d was spent.
func newBudget(parent context.Context, d time.Duration) (context.Context, *budget, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	b := &budget{since: time.Now(), left: d, timer: time.AfterFunc(d, func() { cancel(errTimeout) })}
	return ctx, b, func() {
		b.timer.Stop()
		cancel(context.Canceled)
	}
}

// pause stops the clock.
func (b *budget) pause() {
	b.timer.Stop()
	b.left -= time.Since(b.since)
}

// resume starts it again.
func (b *budget) resume() {
	b.since = time.Now()
	b.timer.Reset(max(b.left, 0))
}
