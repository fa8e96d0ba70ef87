package limits

import (
	"math"
	"sync"
	"time"
)

// maxTenants bounds how many tenants are remembered: about 20 MB.
const maxTenants = 1 << 17

// rates admits each tenant's events at a steady rate with bursts. It is the generic cell rate
// algorithm rather than a bucket for each tenant: one time is all there is to remember, and when
// that time is past, forgetting the tenant changes nothing.
type rates struct {
	perSecond float64
	interval  time.Duration // what one event costs
	tolerance time.Duration // how far ahead of the clock a tenant may be and still be admitted

	most int // how many tenants are remembered

	mu      sync.Mutex
	paid    map[string]time.Time // until when each tenant's events have used up its rate
	sweepAt int                  // how many tenants there may be before those whose time is past are forgotten
}

// newRates admits perSecond events a second, and burst at once after a pause; 0 = those of
// one second, at least 1.
func newRates(perSecond float64, burst int) *rates {
	if burst <= 0 {
		burst = max(1, int(math.Ceil(perSecond)))
	}
	interval := max(1, time.Duration(float64(time.Second)/perSecond))
	return &rates{
		perSecond: perSecond, interval: interval, tolerance: time.Duration(burst-1) * interval, most: maxTenants,
		paid: map[string]time.Time{}, sweepAt: 1024,
	}
}

// take counts one event of a tenant at now. 0 = it is admitted; else it is not, was not counted,
// and would be after that time if the tenant sent nothing else.
func (r *rates) take(tenant string, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	until, known := r.paid[tenant]
	if until.Before(now) {
		until = now
	}
	if early := until.Sub(now) - r.tolerance; early > 0 {
		return early
	}
	if !known && len(r.paid) >= r.sweepAt {
		r.sweep(now)
	}
	r.paid[tenant] = until.Add(r.interval)
	return 0
}

// sweep forgets those whose time is past. If too many are busy, some are forgotten that chance
// picks: admitting a little too much is better than refusing whoever did nothing, or than growing
// without end. It is a sixteenth, so that the next sweep is some way off.
func (r *rates) sweep(now time.Time) {
	for tenant, until := range r.paid {
		if !until.After(now) {
			delete(r.paid, tenant)
		}
	}
	for tenant := range r.paid { // in an order of chance
		if len(r.paid) <= r.most-r.most/16 {
			break
		}
		delete(r.paid, tenant)
	}
	r.sweepAt = min(max(1024, 2*len(r.paid)), r.most)
}
