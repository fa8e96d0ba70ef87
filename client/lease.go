package client

import (
	"context"
	"errors"
	"time"

	"onced"
)

// ErrLost is the cause of the end of a handler's context whose reservation is lost.
var ErrLost = errors.New("the reservation of this operation is lost")

// leaseKeeper renews a reservation while its handler runs.
type leaseKeeper struct {
	*operation
	cancel context.CancelCauseFunc // of the handler's context
	until  time.Time               // the lease holds at least until then, by our own clock
	warned bool
}

// keepLease renews the reservation at a third of its lease until stop is called, which returns
// when nothing of it is under way any more.
//
// A handler whose reservation is refused must stop: its context ends with ErrLost. When the lease
// is about to end because no node decides, it must stop only where another may take over
// (onced.Retry): under onced.Hold nobody can, and its late answer is taken.
func (o *operation) keepLease(cancel context.CancelCauseFunc) (stop func()) {
	ctx, end := context.WithCancel(context.WithoutCancel(o.r.Context()))
	done := make(chan struct{})
	k := &leaseKeeper{operation: o, cancel: cancel, until: o.since.Add(o.Lease)}
	go func() {
		defer close(done)
		for next := min(o.Lease/3, max(time.Until(k.until)/2, 1)); next > 0 && rest(ctx, next); {
			next = k.renew(ctx)
		}
	}()
	return func() { end(); <-done }
}

// renew asks once, and returns when to ask again, 0 for never.
func (k *leaseKeeper) renew(ctx context.Context) time.Duration {
	asked := time.Now()
	call, end := context.WithTimeout(ctx, max(k.Lease/3, time.Second))
	defer end()
	if !k.warned { // a call must not hide that the lease ends meanwhile
		alarm := time.AfterFunc(time.Until(k.until)-k.Lease/6, end)
		defer alarm.Stop()
	}
	_, err := k.keeper.Renew(call, onced.RenewRequest{ID: k.id, Token: k.got.Token, Lease: k.Lease})
	switch code := onced.CodeOf(err); {
	case ctx.Err() != nil:
		return 0
	case code == "":
		k.until = asked.Add(k.Lease)
		return k.Lease / 3
	case code == onced.CodeUnavailable:
		k.Logger.Warn("client: the lease could not be renewed; asking again", "error", err)
		if time.Until(k.until) <= k.Lease/6 {
			k.lose(err, k.OnLapse == onced.Retry)
		}
		return k.Lease / 12
	default:
		k.lose(err, true)
		return 0
	}
}

// lose tells that the reservation is lost, or about to be, once. Once the handler has returned
// there is nobody to stop, and a refusal may be due to its own answer, recorded meanwhile.
func (k *leaseKeeper) lose(err error, stop bool) {
	if k.returned.Load() {
		return
	}
	if stop {
		k.cancel(ErrLost)
	}
	if k.warned {
		return
	}
	k.warned = true
	k.Logger.Warn("client: the reservation is lost, or about to be, while its operation runs", "token", uint64(k.got.Token), "error", err)
	if k.Lost != nil {
		k.Lost(k.r, onced.AsProblem(err))
	}
}
