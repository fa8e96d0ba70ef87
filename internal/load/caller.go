package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"onced"
)

// lease of the run's reservations. It is retry, so that a caller that is killed leaves no unknown
// record behind, which nothing ever removes.
const lease = 30 * time.Second

// shortPause is what a caller waits after a refusal that says nothing of when to ask again.
const shortPause = 20 * time.Millisecond

// caller sends one call after the other. It belongs to one goroutine.
type caller struct {
	*run
	keeper onced.Keeper
	tenant string
	number int
	next   int      // number of its next key
	keys   []string // completed, for replays

	errors  map[onced.Code]int
	last    error
	wrong   int
	example string // of what was wrong
}

func (c *caller) said() string {
	if c.last == nil {
		return "nothing was said"
	}
	return c.last.Error()
}

// loop works until ctx ends.
func (c *caller) loop(ctx context.Context) {
	for ctx.Err() == nil {
		switch {
		case c.Mode == Replays:
			c.replay(ctx, c.keys[rand.IntN(len(c.keys))])
		case !c.pair(ctx):
		case c.Mode == Mixed && ctx.Err() == nil:
			c.replay(ctx, c.keys[0])
		}
		if c.Mode != Replays {
			c.keys = c.keys[:0]
		}
	}
}

// call bounds one call. It goes on when the run ends, as half a pair is no use to anybody.
func call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), callWithin)
}

func (c *caller) request(key string) onced.ReserveRequest {
	return onced.ReserveRequest{ID: onced.ID{Tenant: c.tenant, Key: onced.Key(key)}, Fingerprint: "bench",
		Lease: lease, Retention: c.Retention, OnLapse: onced.Retry}
}

// pair reserves a new key and completes it.
func (c *caller) pair(ctx context.Context) bool {
	key := fmt.Sprintf("%s-%d-%d", c.prefix, c.number, c.next)
	c.next++
	in, cancel := call(ctx)
	defer cancel()
	begun := time.Now()
	granted, err := c.keeper.Reserve(in, c.request(key))
	reserved := time.Now()
	if err != nil {
		return c.failed(ctx, err)
	}
	if granted.Replayed || granted.Record.Attempt != 1 {
		return c.mistake("the new key %s was not granted for the first time: %+v", key, granted)
	}
	_, err = c.keeper.Complete(in, onced.CompleteRequest{ID: onced.ID{Tenant: c.tenant, Key: onced.Key(key)}, Token: granted.Record.Token, Response: c.response})
	if err != nil {
		return c.failed(ctx, err)
	}
	end := time.Now()
	c.took.reserve.Add(reserved.Sub(begun))
	c.took.complete.Add(end.Sub(reserved))
	c.took.pairs.Add(end.Sub(begun))
	c.keys = append(c.keys, key)
	c.done.Add(1)
	return true
}

// replay reserves a completed key.
func (c *caller) replay(ctx context.Context, key string) bool {
	in, cancel := call(ctx)
	defer cancel()
	begun := time.Now()
	granted, err := c.keeper.Reserve(in, c.request(key))
	if err != nil {
		return c.failed(ctx, err)
	}
	if !granted.Replayed || !granted.Record.Response.Equal(c.response) {
		return c.mistake("the completed key %s was not replayed as it was stored", key)
	}
	c.took.replays.Add(time.Since(begun))
	c.done.Add(1)
	return true
}

// mistake counts an answer that breaks a promise.
func (c *caller) mistake(format string, args ...any) bool {
	c.wrong++
	c.example = fmt.Sprintf(format, args...)
	return false
}

// failed counts a refusal, and waits for as long as it says. One that would meet every call ends the run.
func (c *caller) failed(ctx context.Context, err error) bool {
	p := onced.AsProblem(err)
	c.errors[p.Code]++
	c.last = err
	if p.Code.Info().Retry == onced.RetryFix {
		c.stop(err)
		return false
	}
	select {
	case <-ctx.Done():
	case <-time.After(max(p.RetryAfter, shortPause)):
	}
	return false
}

// ErrWrong is in the error of a run whose answers broke a promise.
var ErrWrong = errors.New("answers were wrong")
