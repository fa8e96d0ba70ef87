// Package limits keeps each tenant's reserves within bounds: how many a second
// on this node, and how many records in the table.
//
// Invariants:
//
//   - Only reserves are refused. A holder's complete, release and renew pass through untouched, and
//     so does the cancel of an owner.
//   - A reserve over the rate is refused before the Keeper is asked: nothing was looked up or written.
//   - The rate is a node's own: a cluster of three admits three times as much. The quota of records is judged
//     by the log, so it is the cluster's.
//   - A tenant that has used nothing of late takes no memory, and the number of those that take some is bounded.
package limits

import (
	"context"
	"time"

	"onced"
)

// Config are the bounds of each tenant.
type Config struct {
	Rate    float64 // reserves a second that go on for ever; 0 = any
	Burst   int     // reserves at once after a pause; 0 = those of one second, at least 1
	MaxKeys int64   // records; 0 = any
}

// Keeper returns k with the reserves of each tenant held to the bounds of c. All that takes
// requests on a node (the API, the gateway) should ask one and the same.
func Keeper(k onced.Keeper, c Config) onced.Keeper {
	if c.Rate <= 0 && c.MaxKeys <= 0 {
		return k
	}
	l := &limited{Keeper: k, maxKeys: c.MaxKeys}
	if c.Rate > 0 {
		l.rate = newRates(c.Rate, c.Burst)
	}
	return l
}

// limited is a Keeper whose reserves have bounds.
type limited struct {
	onced.Keeper
	rate    *rates // nil = any
	maxKeys int64
}

// Reserve implements onced.Keeper. Further problems: rate_limited, quota_exceeded.
func (l *limited) Reserve(ctx context.Context, r onced.ReserveRequest) (onced.ReserveResult, error) {
	if l.rate != nil {
		if wait := l.rate.take(r.Tenant, time.Now()); wait > 0 {
			p := onced.Problemf(onced.CodeRateLimited, "the tenant sends more reserves than the %g a second that it may to this node; this one changed nothing", l.rate.perSecond)
			p.RetryAfter = wait
			return onced.ReserveResult{}, p
		}
	}
	if l.maxKeys > 0 && (r.MaxKeys == 0 || r.MaxKeys > l.maxKeys) {
		r.MaxKeys = l.maxKeys
	}
	return l.Keeper.Reserve(ctx, r)
}
