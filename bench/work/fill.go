package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	fillers   = 8   // callers at once
	fillSize  = 500 // keys for each call
	fillAgain = 50  // a node that has too much to do says so, and fills are to end
	// fillWithin is longer than a call's own time: nothing is measured, and a defragmentation may be long.
	fillWithin = 5 * time.Minute
)

// fillMany is Fill with new keys, of which only some are in memory at once. Where the system has batches every answer is another one: a store that
// compresses would make next to nothing of so many that are the same. What is behind the front compresses no record with another.
// It returns some of the keys.
func (l *Load) fillMany(ctx context.Context, kind string, keys int, tell func(done int)) (some []string, err error) {
	various := *l
	various.various = true
	const portion = 100_000
	for done := 0; done < keys; done += portion {
		names := l.names(kind, min(portion, keys-done))
		if err := various.Fill(ctx, names, 24*time.Hour, func(more int) { tell(done + more) }); err != nil {
			return nil, err
		}
		for i := 0; i < len(names); i += keepEvery {
			some = append(some, names[i])
		}
	}
	return some, nil
}

// keepEvery is which keys of a fill are kept: 20,000 of a million.
const keepEvery = 50

// readSome has every door replay keys of fillMany, so that what a store keeps in memory of what it has read is there.
func (l *Load) readSome(ctx context.Context, keys []string) error {
	doors := dial(l.sys.Doors(), callWithin)
	defer hangUp(doors)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var working sync.WaitGroup
	for _, c := range callers(doors, len(doors)) {
		working.Go(func() {
			for _, key := range keys {
				body := l.body
				if l.batches() {
					body = bodyOf(key, len(l.body))
				}
				if err := l.arrived(ctx, c, key, body); err != nil {
					cancel(fmt.Errorf("reading %s: %w", key, err))
					return
				}
			}
		})
	}
	working.Wait()
	return context.Cause(ctx)
}

// Fill stores completed keys, by batches where the system has them, else by the front's own way. tell is told how many are there, if it is not nil.
func (l *Load) Fill(ctx context.Context, keys []string, retention time.Duration, tell func(done int)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	doors := dial(l.sys.Doors(), fillWithin)
	defer hangUp(doors)
	var next, done atomic.Int64
	var working sync.WaitGroup
	for _, c := range callers(doors, fillers) {
		working.Go(func() {
			for ctx.Err() == nil {
				from := int(next.Add(fillSize)) - fillSize
				if from >= len(keys) {
					return
				}
				some := keys[from:min(from+fillSize, len(keys))]
				if err := l.fill(ctx, c, some, retention); err != nil {
					cancel(fmt.Errorf("filling: %w", err))
					return
				}
				if n := done.Add(int64(len(some))); tell != nil {
					tell(int(n))
				}
			}
		})
	}
	working.Wait()
	return context.Cause(ctx)
}

func (l *Load) fill(ctx context.Context, c *caller, keys []string, retention time.Duration) error {
	if l.batches() {
		// The owner makes a repeated reserve the same one.
		b := batch{caller: c, keys: keys, answer: l.answer, again: fillAgain, more: `,"owner":"fill","retention":"` + retention.String() + `"`}
		if l.various {
			b.answers = func(i int) string { return answerOf(bodyOf(keys[i], len(l.body))) }
		}
		return b.pairs(ctx)
	}
	body, err := json.Marshal(map[string]any{"keys": keys, "fingerprint": fingerprint, "response": json.RawMessage(l.answer)})
	if err != nil {
		return err
	}
	if err := c.post("/fill", body); err != nil {
		return err
	}
	if c.response.StatusCode() != fasthttp.StatusOK {
		return c.refused("fill")
	}
	return nil
}

// batches tells whether the system has a batch call of its own: those behind the front have one door.
func (l *Load) batches() bool { return len(l.sys.Doors()) > 1 }

// tidy asks for the housekeeping that an operator would have done. A node of onced does its own.
func (l *Load) tidy() error {
	if l.batches() {
		return nil
	}
	doors := dial(l.sys.Doors(), fillWithin)
	defer hangUp(doors)
	c := newCaller(doors, 0)
	if err := c.post("/tidy", nil); err != nil {
		return err
	}
	if c.response.StatusCode() != fasthttp.StatusOK {
		return errors.Join(c.refused("tidy"))
	}
	return nil
}
