package work

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"onced/internal/histogram"
)

// Figures are of one kind of call.
type Figures struct {
	Count   uint64
	Seconds float64
	Errors  uint64
	Error   error // the last of them
	Times   *histogram.Histogram
	Stall   time.Duration // of an open loop: the longest time in which nothing succeeded
}

// PerSecond is how many succeeded.
func (f Figures) PerSecond() float64 { return float64(f.Count) / max(f.Seconds, 1e-9) }

// Millis is the quantile q in milliseconds.
func (f Figures) Millis(q float64) float64 { return millis(f.Times.Quantile(q)) }

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// tally collects figures. It is safe for concurrent use.
type tally struct {
	times  histogram.Histogram
	errors atomic.Uint64
	mu     sync.Mutex
	last   error
}

func (t *tally) add(took time.Duration, err error) {
	if err == nil {
		t.times.Add(took)
		return
	}
	t.errors.Add(1)
	t.mu.Lock()
	t.last = err
	t.mu.Unlock()
}

func (t *tally) figures(took time.Duration) Figures {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Figures{Count: t.times.Count(), Seconds: took.Seconds(), Errors: t.errors.Load(), Error: t.last, Times: &t.times}
}

// Err is an error unless nearly all succeeded: figures of a system that refuses are none.
func (f Figures) Err() error {
	if f.Count == 0 || f.Errors*100 > f.Count {
		return fmt.Errorf("%d succeeded, %d failed, the last: %v", f.Count, f.Errors, f.Error)
	}
	return nil
}

// pauseAfterError keeps a system that refuses everything from being asked in a busy loop.
const pauseAfterError = 5 * time.Millisecond

// closed lets n callers do one thing after the other until the time is over. do is told the number of the caller and how often it was called before.
func closed(ctx context.Context, n int, during time.Duration, do func(caller, i int) error) Figures {
	ctx, cancel := context.WithTimeout(ctx, during)
	defer cancel()
	var t tally
	var working sync.WaitGroup
	begun := time.Now()
	for number := range n {
		working.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				start := time.Now()
				err := do(number, i)
				t.add(time.Since(start), err)
				if err != nil {
					pause(ctx, pauseAfterError)
				}
			}
		})
	}
	working.Wait()
	return t.figures(time.Since(begun))
}

// open lets n callers do things that are due at so many a second until the time is over. The time of each counts from when it was due: what had to
// wait until a caller was free has waited. do is told the number of the caller and that of the thing.
func open(ctx context.Context, n int, perSecond float64, during time.Duration, do func(caller, i int) error) Figures {
	var t tally
	var seen gaps
	var next atomic.Int64
	var working sync.WaitGroup
	begun := time.Now()
	seen.begin(begun)
	total := int64(perSecond * during.Seconds())
	for number := range n {
		working.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= total || ctx.Err() != nil {
					return
				}
				due := begun.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))
				pause(ctx, time.Until(due))
				if ctx.Err() != nil {
					return // it may not be due yet
				}
				err := do(number, int(i))
				t.add(time.Since(due), err)
				if err == nil {
					seen.done(time.Now())
				}
			}
		})
	}
	working.Wait()
	f := t.figures(time.Since(begun))
	f.Stall = seen.end(time.Now())
	return f
}

// pause waits d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
