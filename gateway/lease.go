package gateway

import (
	"context"
	"time"

	"onced"
)

// keepLease renews the reservation at a third of its lease until stop is called. A
// holder that is told that it holds no more stops asking: its answer will be refused
// too, and the client gets what the record says. One that hears nothing says loudly when its lease is
// over by its own clock, and goes on asking: a late renewal revives it unless somebody took over.
func (o *operation) keepLease() (stop func()) {
	ctx, cancel := context.WithCancel(o.g.late)
	o.g.ops.branch()
	go func() {
		defer o.g.ops.end()
		every := o.route.lease / 3
		timer := time.NewTimer(every)
		defer timer.Stop()
		renewed, said := time.Now(), false
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			asked := time.Now()
			next, ok := o.renew(ctx, every)
			switch {
			case !ok:
				return
			case next == every:
				renewed, said = asked, false
			case !said && time.Since(renewed) >= o.route.lease:
				said = true
				o.log.Error("gateway: the lease is over and cannot be renewed; the operation goes on, and its answer counts only if nobody takes over")
			}
			timer.Reset(next)
		}
	}()
	return cancel
}

// renew asks once. It returns when to ask again, false for never.
func (o *operation) renew(ctx context.Context, every time.Duration) (time.Duration, bool) {
	call, cancel := context.WithTimeout(ctx, max(every, o.g.requestTimeout))
	defer cancel()
	_, err := o.g.keeper.Renew(call, onced.RenewRequest{ID: o.id, Token: o.token, Lease: o.route.lease})
	switch code := onced.CodeOf(err); {
	case ctx.Err() != nil:
		return 0, false
	case code == "":
		return every, true
	case code == onced.CodeUnavailable:
		o.log.Warn("gateway: the lease could not be renewed; asking again", "error", err)
		return every / 4, true
	default:
		o.log.Warn("gateway: the reservation is lost while its operation runs", "error", err)
		return 0, false
	}
}
