package propose

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"onced/fsm/command"
)

// Proposer brings commands into the log, from whichever node it runs on. Create it
// with New and end it with Close. It is safe for concurrent use.
type Proposer struct {
	cfg      Config
	queue    queue
	estimate estimate

	wake    chan struct{} // something waits, or something under way has ended
	entries underWay
	frames  underWay

	ctx    context.Context // of the life of the proposer
	cancel context.CancelFunc
	wg     sync.WaitGroup // pump and frames; not the entries, whose end is the log's

	// Owned by pump.
	route       Route
	routeCtx    context.Context // ends with route
	routeCancel context.CancelFunc
}

// underWay counts the entries (frames) that are under way. The pump alone begins one; whoever ends one kicks the pump afterwards.
type underWay struct {
	batches  atomic.Int32
	commands atomic.Int32 // in them
}

func (u *underWay) begin(commands int) {
	u.commands.Add(int32(commands))
	u.batches.Add(1)
}

func (u *underWay) end(commands int) {
	u.batches.Add(-1)
	u.commands.Add(-int32(commands))
}

// New returns a running Proposer.
func New(cfg Config) *Proposer {
	cfg = cfg.withDefaults()
	p := &Proposer{cfg: cfg, wake: make(chan struct{}, 1)}
	p.queue.reserves.share, p.queue.holders.share = cfg.Reserves, cfg.Holders
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.routeCtx, p.routeCancel = context.WithCancel(p.ctx)
	p.wg.Go(p.pump)
	return p
}

// Close ends the proposer: who waits gets ErrNotApplied or ErrUnknown at once. It waits for
// its goroutines, but for those that wait on a Future: they end with the log.
func (p *Proposer) Close() {
	p.queue.close()
	p.cancel()
	p.wg.Wait()
}

// Do is one try to have cmd applied. It blocks until the result is known, ctx ends, the route to
// the leader changes under it, or the proposer is closed. cmd must not be changed
// afterwards, and may be used for another try.
//
// Errors: ErrNotApplied (and what wraps it), ErrUnknown, ErrBadCommand.
func (p *Proposer) Do(ctx context.Context, cmd *command.Command) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("proposing: %w: %w", ErrNotApplied, err)
	}
	deadline := time.Now().Add(p.cfg.Budget)
	if end, ok := ctx.Deadline(); ok && end.Before(deadline) {
		deadline = end
	}
	c, err := newCall(cmd, deadline)
	if err != nil {
		return Result{}, fmt.Errorf("proposing: %w", err)
	}
	calls := []*call{c}
	p.enqueue(calls)
	p.await(ctx, c.group, calls)
	p.count(c.err)
	if c.err != nil {
		return Result{}, fmt.Errorf("proposing: %w", c.err)
	}
	return c.result, nil
}

// enqueue puts calls into the queue; those that find no room are settled.
func (p *Proposer) enqueue(calls []*call) {
	p.queue.push(calls, func(c *call, err error) {
		if c.reserve && err == ErrOverloaded {
			p.cfg.Counters.RefusedReserves.Add(1)
		} else if err == ErrOverloaded {
			p.cfg.Counters.RefusedHolders.Add(1)
		}
		c.settle(Result{}, err)
	})
	p.kick()
}

// await returns when every call of g is settled. When ctx or the proposer ends first,
// those that were still waiting are ErrNotApplied and those on their way ErrUnknown.
func (p *Proposer) await(ctx context.Context, g *group, calls []*call) {
	queued, underWay := ErrClosed, errUnderWay
	select {
	case <-g.done:
		return
	case <-ctx.Done():
		queued = fmt.Errorf("%w: %w", ErrNotApplied, ctx.Err())
		underWay = fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	case <-p.ctx.Done():
	}
	for _, c := range calls {
		if p.queue.remove(c) {
			c.settle(Result{}, queued)
		} else {
			c.settle(Result{}, underWay)
		}
	}
}

func (p *Proposer) count(err error) {
	switch {
	case err == nil:
	case errors.Is(err, ErrUnknown):
		p.cfg.Counters.Unknown.Add(1)
	default:
		p.cfg.Counters.NotApplied.Add(1)
	}
}

// kick wakes the pump. One kick that is pending is as good as many.
func (p *Proposer) kick() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// pump is the one goroutine that makes batches.
func (p *Proposer) pump() {
	for p.ctx.Err() == nil {
		route, changed := p.cfg.Routes.Get()
		p.follow(route)
		p.send(route)
		select {
		case <-p.wake:
		case <-changed:
		case <-p.ctx.Done():
		}
	}
}

// follow takes note of the route. When it is another one, frames on the old one are given up as
// unknown, since their leader may be dead and its successor can decide at once; and what
// came in a frame of another term is refused.
func (p *Proposer) follow(route Route) {
	if route == p.route {
		return
	}
	p.route = route
	p.routeCancel()
	p.routeCtx, p.routeCancel = context.WithCancel(p.ctx)
	settleAll(p.queue.takeIf(func(c *call) bool {
		return c.hop != 0 && !(route.Self && route.Term == c.hop)
	}), ErrNoLeader)
}

// loose is how many may be under way for a batch that is not full to leave as well. With one, everybody waits for each step of its way
// in turn; more than two split what waits into small ones that wait for the same disk.
const loose = 2

// send lets what waits leave, as far as there is room under way.
func (p *Proposer) send(route Route) {
	under, most, leave := &p.entries, int32(p.cfg.MaxEntries), p.lead
	switch {
	case !route.Known:
		settleAll(p.queue.takeIf(func(*call) bool { return true }), ErrNoLeader)
		return
	case !route.Self:
		under, most, leave = &p.frames, int32(p.cfg.MaxFrames), p.forward
	}
	for under.batches.Load() < most && p.mayLeave(under) {
		batch := p.queue.take(p.cfg.MaxBatch, p.cfg.MaxBatchBytes)
		if batch == nil {
			return
		}
		leave(route, batch)
	}
}

// mayLeave tells whether what waits may leave beside what is under way. A full batch may. Another one may as the first or the second; but
// as the second entry only if it has at least as many commands as the first: the callers of a small one come back soon, and
// would leave as a small one again, for the price of a whole entry each time. Entries are decided in order, so that it gains little
// by leaving early. Frames are not: one whose connection is stuck must not hold up the next.
func (p *Proposer) mayLeave(under *underWay) bool {
	least := 0
	switch batches := under.batches.Load(); {
	case batches >= loose:
		return p.queue.fills(p.cfg.MaxBatch, p.cfg.MaxBatchBytes)
	case batches > 0 && under == &p.entries:
		least = min(int(under.commands.Load()), p.cfg.MaxBatch)
	}
	return p.queue.fills(least, p.cfg.MaxBatchBytes)
}

func settleAll(calls []*call, err error) {
	for _, c := range calls {
		c.settle(Result{}, err)
	}
}
