package gateway

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"onced"
)

const (
	defaultConcurrent = 1024
	mostConcurrent    = 1 << 20
	defaultBodyMemory = 256 << 20
	mostBodyMemory    = 1 << 40
)

// bound counts what is in use of something that has a limit. The limit may change under it.
type bound struct{ used, limit atomic.Int64 }

// take takes n where that stays within the limit.
func (b *bound) take(n int64) bool {
	if b.used.Add(n) > b.limit.Load() {
		b.used.Add(-n)
		return false
	}
	return true
}

// crowded tells whether more than half of it is in use.
func (b *bound) crowded() bool { return 2*b.used.Load() > b.limit.Load() }

func (b *bound) give(n int64) { b.used.Add(-n) }

// adopt gives every route the count of what is under way at it: that of the table before for a route of the same match,
// so that a reload does not double what an upstream has to bear.
func (t *table) adopt(before *table) {
	for _, rt := range t.routes {
		rt.concurrent = before.boundOf(rt.pattern.text)
		rt.concurrent.limit.Store(rt.maxConcurrent)
	}
}

// boundOf returns the count of the route with this match, a new one where there is none.
func (t *table) boundOf(match string) *bound {
	if t != nil {
		for _, rt := range t.routes {
			if rt.pattern.text == match {
				return rt.concurrent
			}
		}
	}
	return &bound{}
}

// enter takes a place at the upstream and reserves, with a look-up where the outcome is unknown and the route has
// one. The place comes first, since nothing may be reserved that cannot be run; it is given back at once where there
// is nothing to run. Duplicates wait without one where places are rare, so that they cannot take them all.
//
// Problems: those of Keeper.Reserve, and unavailable where the route has no room.
func (o *operation) enter() (onced.ReserveResult, error) {
	for end := time.Now().Add(o.wait); ; {
		if !o.takePlace() {
			return o.withoutPlace()
		}
		wait := max(0, time.Until(end))
		if o.route.concurrent.crowded() {
			wait = 0
		}
		granted, err := o.reserve(0, wait)
		if rec, unknown := unknownRecord(err); unknown && o.route.probe != nil {
			granted, err = o.lookUp(rec, err)
		}
		if err == nil && !granted.Replayed {
			return granted, nil
		}
		o.leave()
		left := time.Until(end)
		if onced.CodeOf(err) != onced.CodeRequestInProgress || left <= 0 || !o.awaitEnd(left) {
			return granted, err
		}
	}
}

func (o *operation) takePlace() bool {
	if !o.route.concurrent.take(1) {
		return false
	}
	o.placed = true
	o.g.meter.UnderWay(o.route.pattern.text, 1)
	return true
}

// leave gives the place back, if there is one.
func (o *operation) leave() {
	if o.placed {
		o.placed = false
		o.route.concurrent.give(1)
		o.g.meter.UnderWay(o.route.pattern.text, -1)
	}
}

// withoutPlace answers from this node's table what needs no upstream: the replay of a completed record, and
// that its key belongs to another request. Everything else is told to come again.
func (o *operation) withoutPlace() (onced.ReserveResult, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.req.Context()), o.g.requestTimeout)
	defer cancel()
	rec, err := o.g.keeper.Get(ctx, onced.GetRequest{ID: o.id, Stale: true})
	if err == nil && rec.State == onced.StateCompleted && rec.ExpiresAt.Time().After(time.Now()) {
		if rec.Fingerprint == o.fingerprint {
			return onced.ReserveResult{Replayed: true, Record: rec}, nil
		}
		return onced.ReserveResult{}, onced.Problemf(onced.CodeConflict, "this key was used for another request")
	}
	o.g.meter.Overloaded(o.route.pattern.text, reasonConcurrent)
	return onced.ReserveResult{}, fullProblem(o.route)
}

// awaitEnd waits until the running operation of the key has ended, or can be taken over, for as long as left. False
// means that it cannot be told.
func (o *operation) awaitEnd(left time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.req.Context()), left+o.g.requestTimeout)
	defer cancel()
	var lease onced.Instant
	for end := time.Now().Add(left); left > 0; left = time.Until(end) {
		look := left
		if o.route.onLapse == onced.Retry { // its lapse changes no state: it is seen by a lease that stays as it is
			look = min(left, o.route.lease)
		}
		rec, err := o.g.keeper.Get(ctx, onced.GetRequest{ID: o.id, Wait: min(look, onced.MaxWait)})
		switch {
		case onced.CodeOf(err) == onced.CodeKeyNotFound:
			return true
		case err != nil:
			return false
		case rec.State != onced.StateInProgress || rec.LeaseExpiresAt == lease:
			return true
		}
		lease = rec.LeaseExpiresAt
	}
	return true
}

// passPlace is takePlace for a request that is passed on, by a route or by none. It returns what gives the place
// back.
func (g *Gateway) passPlace(rt *route) (leave func(), ok bool) {
	if rt == nil {
		return func() {}, true
	}
	if !rt.concurrent.take(1) {
		g.meter.Overloaded(rt.pattern.text, reasonConcurrent)
		return nil, false
	}
	g.meter.UnderWay(rt.pattern.text, 1)
	return func() {
		rt.concurrent.give(1)
		g.meter.UnderWay(rt.pattern.text, -1)
	}, true
}

// fullProblem is the refusal of a request for which a route has no place.
func fullProblem(rt *route) *onced.Problem {
	return &onced.Problem{Code: onced.CodeUnavailable, RetryAfter: time.Second, Detail: fmt.Sprintf(
		"this route has as many operations under way as it may (max_concurrent %d); nothing was started", rt.concurrent.limit.Load())}
}

// hold counts n bytes of the request's body as held in memory until the end of the operation.
//
// Problems: unavailable where there is no room for them. Nothing was reserved then.
func (o *operation) hold(n int64) error {
	if !o.g.bodies.take(n) {
		return o.noRoom()
	}
	o.noteHeld(n)
	return nil
}

func (o *operation) noRoom() error {
	o.g.meter.Overloaded(o.route.pattern.text, reasonMemory)
	return onced.Problemf(onced.CodeUnavailable,
		"this gateway holds as many bytes of bodies as it may (max_body_memory %d); nothing was started", o.g.bodies.limit.Load())
}

// holdAnswer counts an answer, also where there is no room for it: what has happened is kept, whatever it takes.
func (o *operation) holdAnswer(n int64) {
	o.g.bodies.used.Add(n)
	o.noteHeld(n)
}

func (o *operation) noteHeld(n int64) {
	o.held += n
	o.g.meter.BodyBytes(n)
}

// letGo ends the counting of what was held.
func (o *operation) letGo() {
	o.g.bodies.give(o.held)
	o.noteHeld(-o.held)
}
