package work

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"onced/bench/system"
)

// Load puts one system under load.
type Load struct {
	sys    system.System
	prefix string // of the keys, so that no two loads share one
	body   string
	answer string
	// various says that Fill gives each key an answer of its own.
	various bool
}

// New returns a load for sys with stored answers of so many bytes.
func New(sys system.System, bytes int) *Load {
	body := Body(bytes)
	return &Load{sys: sys, prefix: strings.ToLower(rand.Text()[:8]), body: body, answer: answerOf(body)}
}

// callers returns n of them, spread over the doors.
func callers(doors []*fasthttp.HostClient, n int) (all []*caller) {
	for i := range n {
		all = append(all, newCaller(doors, i))
	}
	return all
}

// Warm sends pairs that are not measured, so that connections, caches and a just-in-time script are there.
func (l *Load) Warm(ctx context.Context, during time.Duration) error {
	f, err := l.Pairs(ctx, 16, during)
	return errors.Join(err, f.Err())
}

// Pairs lets n callers reserve and complete new keys, in a closed loop.
func (l *Load) Pairs(ctx context.Context, n int, during time.Duration) (Figures, error) {
	doors := dial(l.sys.Doors(), callWithin)
	defer hangUp(doors)
	all := callers(doors, n)
	key := l.keys("p")
	f := closed(ctx, n, during, func(caller, i int) error { return all[caller].pair(key(caller, i), l.answer) })
	return f, errors.Join(ctx.Err(), f.Err())
}

// PairsOpen lets pairs be due at a rate, in an open loop.
func (l *Load) PairsOpen(ctx context.Context, n int, perSecond float64, during time.Duration) (Figures, error) {
	doors := dial(l.sys.Doors(), callWithin)
	defer hangUp(doors)
	all := callers(doors, n)
	key := l.keys("o")
	f := open(ctx, n, perSecond, during, func(caller, i int) error { return all[caller].pair(key(caller, i), l.answer) })
	return f, errors.Join(ctx.Err(), f.Err())
}

// keys names new keys: each call of it gives another name space.
func (l *Load) keys(kind string) func(caller, i int) string {
	space := l.prefix + "-" + kind + strings.ToLower(rand.Text()[:6])
	return func(caller, i int) string { return fmt.Sprintf("%s-%d-%d", space, caller, i) }
}

// replayed is how many completed keys replays go round.
const replayed = 2000

// Replays lets n callers reserve completed keys, in a closed loop.
func (l *Load) Replays(ctx context.Context, n int, during time.Duration) (Figures, error) {
	doors := dial(l.sys.Doors(), callWithin)
	defer hangUp(doors)
	keys := l.names("r", replayed)
	if err := l.Fill(ctx, keys, 24*time.Hour, nil); err != nil {
		return Figures{}, err
	}
	all := callers(doors, n)
	// A node that lags behind would rightly say so; what is measured begins once every node has them all.
	for i := range all {
		if err := l.arrived(ctx, all[i], keys[len(keys)-1], l.body); err != nil {
			return Figures{}, err
		}
	}
	f := closed(ctx, n, during, func(caller, i int) error {
		return all[caller].replay(keys[(caller*31+i)%len(keys)], l.body)
	})
	return f, errors.Join(ctx.Err(), f.Err())
}

// arrived waits until the caller's door replays body for key.
func (l *Load) arrived(ctx context.Context, c *caller, key, body string) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	for {
		err := c.replay(key, body)
		if err == nil || ctx.Err() != nil {
			return err
		}
		pause(ctx, pauseAfterError)
	}
}

// names are n names of new keys, of the length that a UUID has.
func (l *Load) names(kind string, n int) []string {
	space := l.prefix + "-" + kind + strings.ToLower(rand.Text()[:6])
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%0*d", space, 35-len(space), i)
	}
	return all
}
