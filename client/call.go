package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"onced"
)

const (
	firstPause = 50 * time.Millisecond
	longPause  = time.Second
	shortTry   = 50 * time.Millisecond // a try gets at least this
	tellAgain  = time.Second           // between two lines about failovers: an outage must not fill the log
)

// call is one call on its way from node to node.
type call struct {
	c     *Client
	r     *request
	start int   // the node it begins with
	tried []try // one for each node

	// maybe: a try's fate is not known, so the call may have been done, or still be.
	maybe bool
}

// try is what one call knows of one node.
type try struct {
	count     int
	notBefore time.Time
	problem   *onced.Problem // of its last try
}

// do sends r to the nodes until one decides, or the time is over. maybe tells whether, in spite of an
// error, r may have been done, or still be done by a try that is under way.
func (c *Client) do(ctx context.Context, r *request) (maybe bool, err error) {
	ctx, cancel := c.deadline(ctx, r)
	defer cancel()
	k := &call{c: c, r: r, start: c.startNode(), tried: make([]try, len(c.nodes))}
	for ctx.Err() == nil {
		i, pause := k.next()
		if i < 0 || !rest(ctx, pause) {
			break
		}
		f := c.send(ctx, c.nodes[i], r, k.limit(ctx), k.wait())
		switch {
		case f == nil:
			c.works(i, k.start)
			return false, nil
		case f.decided:
			c.works(i, k.start)
			return k.maybe, f.problem
		}
		k.maybe = k.maybe || !f.unsent
		k.failed(ctx, i, f)
		if r.once && !f.unsent {
			break
		}
	}
	return k.maybe, k.giveUp(ctx)
}

// deadline gives a call without one the Client's time-out.
func (c *Client) deadline(ctx context.Context, r *request) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.Timeout+max(time.Until(r.waitUntil), 0))
}

// next returns the node to ask, and how long to wait before: the first in turn that may be asked
// now, else the one that may be asked soonest. -1 when every node had its rounds.
func (k *call) next() (index int, pause time.Duration) {
	now := time.Now()
	index = -1
	for step := range k.tried {
		i := (k.start + step) % len(k.tried)
		t := k.tried[i]
		if k.c.Rounds > 0 && !k.r.insist && t.count >= k.c.Rounds {
			continue
		}
		wait := max(t.notBefore.Sub(now), 0)
		if wait == 0 {
			return i, 0
		}
		if index < 0 || wait < pause {
			index, pause = i, wait
		}
	}
	return index, pause
}

// limit is how long the next try may take. While a node has not been asked yet, half of the time
// is left for it.
func (k *call) limit(ctx context.Context) time.Duration {
	limit := k.c.TryTimeout
	deadline, _ := ctx.Deadline()
	left := time.Until(deadline) - k.wait()
	if k.r.once {
		return left
	}
	untried := 0
	for _, t := range k.tried {
		if t.count == 0 {
			untried++
		}
	}
	if untried > 1 {
		limit = min(limit, left/2)
	}
	return max(limit, shortTry)
}

// wait is what is left of the time that the call asked a node to wait for.
func (k *call) wait() time.Duration {
	return max(time.Until(k.r.waitUntil), 0).Truncate(time.Millisecond)
}

// failed notes a try that ended in no decision, and has later calls begin elsewhere.
func (k *call) failed(ctx context.Context, i int, f *fault) {
	t := &k.tried[i]
	pause := min(firstPause<<min(t.count, 8), longPause)
	pause = pause/2 + rand.N(pause/2+1)
	t.count++
	t.notBefore = time.Now().Add(max(pause, f.problem.RetryAfter))
	t.problem = f.problem
	if errors.Is(ctx.Err(), context.Canceled) {
		return // the caller's doing, not the node's
	}
	k.c.moveFrom(i, f.problem)
}

// giveUp returns the problem of a call that was not decided.
func (k *call) giveUp(ctx context.Context) *onced.Problem {
	var said []string
	after := time.Second
	for step := range k.tried {
		if p := k.tried[(k.start+step)%len(k.tried)].problem; p != nil {
			said = append(said, p.Detail)
			after = max(after, p.RetryAfter)
		}
	}
	why := "no node decided in time"
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		why = "the caller ended the call"
	case k.r.once && k.maybe:
		why = "it may have been done; read the record to find out"
	case ctx.Err() == nil:
		why = "no node decides"
	}
	if len(said) > 0 {
		why += ": " + strings.Join(said, "; ")
	}
	return &onced.Problem{Code: onced.CodeUnavailable, Detail: why, RetryAfter: after}
}

// rest waits for d. It returns false, at once, when ctx would end before.
func rest(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// startNode returns the node that a call begins with: the one that worked last, or now and
// then the first again.
func (c *Client) startNode() int {
	current := c.current.Load()
	if current == 0 || c.ReturnAfter == 0 {
		return int(current)
	}
	moved, now := c.movedAt.Load(), time.Now()
	if now.Sub(time.Unix(0, moved)) >= c.ReturnAfter && c.movedAt.CompareAndSwap(moved, now.UnixNano()) {
		return 0
	}
	return int(current)
}

// works notes that node i answered a call that began with node start.
func (c *Client) works(i, start int) {
	if i == start && i == 0 {
		c.current.Store(0) // the first is back, if it was away
	}
}

// moveFrom has later calls begin with the node after i, unless they do not begin with i any more.
func (c *Client) moveFrom(i int, p *onced.Problem) {
	if len(c.nodes) == 1 {
		return
	}
	to := (i + 1) % len(c.nodes)
	if !c.current.CompareAndSwap(int64(i), int64(to)) {
		return
	}
	now := time.Now().UnixNano()
	c.movedAt.Store(now)
	if told := c.toldAt.Load(); now-told >= int64(tellAgain) && c.toldAt.CompareAndSwap(told, now) {
		c.Logger.Warn("client: a node fails; going on with the next", "node", c.nodes[i].base, "next", c.nodes[to].base, "reason", p.Detail)
	}
}
