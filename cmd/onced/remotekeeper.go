package main

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"onced"
)

// refusedCredentials is told when the nodes do not take what the gateway shows them.
const refusedCredentials = "the nodes do not take this gateway's credentials: expected a token of the role gateway"

// remoteKeeper is the remote cluster as the gateway asks it. What goes wrong between the two is no business of
// the gateway's clients: they are told that nothing was started, and the log says why.
type remoteKeeper struct {
	onced.Keeper
	log  *slog.Logger
	told throttle
}

// Reserve implements onced.Keeper. Its owner is made for this call alone, so that a repeat can only be
// of a try of its own, whose answer was lost.
func (k *remoteKeeper) Reserve(ctx context.Context, r onced.ReserveRequest) (onced.ReserveResult, error) {
	result, err := k.Keeper.Reserve(ctx, r)
	if r.Owner == "" {
		result.Repeated = false
	}
	return result, k.own(ctx, err)
}

// Complete implements onced.Keeper.
func (k *remoteKeeper) Complete(ctx context.Context, r onced.CompleteRequest) (onced.Record, error) {
	rec, err := k.Keeper.Complete(ctx, r)
	return rec, k.own(ctx, err)
}

// Release implements onced.Keeper.
func (k *remoteKeeper) Release(ctx context.Context, r onced.ReleaseRequest) error {
	return k.own(ctx, k.Keeper.Release(ctx, r))
}

// Renew implements onced.Keeper.
func (k *remoteKeeper) Renew(ctx context.Context, r onced.RenewRequest) (onced.Record, error) {
	rec, err := k.Keeper.Renew(ctx, r)
	return rec, k.own(ctx, err)
}

// Get implements onced.Keeper.
func (k *remoteKeeper) Get(ctx context.Context, r onced.GetRequest) (onced.Record, error) {
	rec, err := k.Keeper.Get(ctx, r)
	return rec, k.own(ctx, err)
}

// own turns a fault between this gateway and the nodes into unavailable, without their names, and lets every decision
// on the key through. So whoever holds a reservation asks again, and nothing is lost while the credentials are mended.
func (k *remoteKeeper) own(ctx context.Context, err error) error {
	switch code := onced.CodeOf(err); code {
	case onced.CodeUnauthenticated, onced.CodeForbidden:
		if k.told.allow(time.Now()) {
			k.log.Error(refusedCredentials, "err", err)
		}
		return &onced.Problem{Code: onced.CodeUnavailable, Detail: "the cluster does not take this gateway's credentials", RetryAfter: time.Second}
	case onced.CodeUnavailable:
		if ctx.Err() != context.Canceled && k.told.allow(time.Now()) { // a renew ends with its operation
			k.log.Warn("no node decides in time", "err", err)
		}
		return &onced.Problem{Code: code, Detail: "the cluster could not decide in time", RetryAfter: onced.AsProblem(err).RetryAfter}
	}
	return err
}

// throttle lets one line through in a while, so that an outage does not fill the log.
type throttle struct {
	next atomic.Int64 // when, as time.Time.UnixNano
}

const tellAgain = time.Second

func (t *throttle) allow(now time.Time) bool {
	next := t.next.Load()
	return now.UnixNano() >= next && t.next.CompareAndSwap(next, now.Add(tellAgain).UnixNano())
}

// nodesReadiness remembers for a moment what the nodes said, so that however often /readyz is asked, they are not.
type nodesReadiness struct {
	mu    sync.Mutex
	until time.Time
	err   error
}

// rememberReady is how long an answer is taken for the present.
const rememberReady = 500 * time.Millisecond

// ask returns what the nodes say now, or said a moment ago. Those who come meanwhile wait for the same answer.
func (r *nodesReadiness) ask(nodes func(context.Context) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Now().Before(r.until) {
		return r.err
	}
	r.err = nodes(context.Background())
	r.until = time.Now().Add(rememberReady)
	return r.err
}
