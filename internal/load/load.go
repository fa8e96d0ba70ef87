package load

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"onced"
	"onced/internal/histogram"
	"onced/internal/progress"
)

// Mode is what the callers do.
type Mode string

const (
	Pairs   Mode = "pairs"   // a reserve of a new key, and its complete
	Replays Mode = "replays" // a reserve of a key that is completed
	Mixed   Mode = "mixed"   // a pair, and then a replay of it
)

// Modes are the names of all modes.
var Modes = []string{string(Pairs), string(Replays), string(Mixed)}

// Options say how much load. All are required.
type Options struct {
	Mode        Mode
	Duration    time.Duration
	Concurrency int           // callers
	BodyBytes   int           // of each stored answer
	Retention   time.Duration // of the keys; onced.MinRetention at least
}

// Validate returns an error that names the flag of the first option out of its bounds.
func (o Options) Validate() error {
	switch {
	case o.Duration < 100*time.Millisecond || o.Duration > 24*time.Hour:
		return fmt.Errorf("--duration: is %s: expected 100ms to 24h", o.Duration)
	case o.Concurrency < 1 || o.Concurrency > 4096:
		return fmt.Errorf("--concurrency: is %d: expected 1 to 4096", o.Concurrency)
	case o.BodyBytes < 0 || o.BodyBytes > 1<<20:
		return fmt.Errorf("--body-bytes: is %d: expected 0 to %d", o.BodyBytes, 1<<20)
	case o.Retention < time.Minute || o.Retention > onced.MaxRetention:
		return fmt.Errorf("--retention: is %s: expected 1m to %s", o.Retention, onced.MaxRetention)
	}
	return nil
}

const (
	callWithin  = 15 * time.Second // one call, with all its tries
	tellEvery   = 100 * time.Millisecond
	preparedMax = 1000 // keys that replays go round
)

// run is one run.
type run struct {
	Options
	keepers  []onced.Keeper
	prefix   string
	response *onced.Response
	done     atomic.Int64 // pairs or replays, for the progress
	stop     context.CancelCauseFunc
	took     *times
}

// times are what the calls of a run took.
type times struct{ reserve, complete, pairs, replays histogram.Histogram }

// Run loads the cluster behind keepers, which the callers take in turn, until the time is over or ctx ends.
// What it measured up to then is returned in both cases.
//
// Errors: a problem that would meet every call, such as unauthenticated; ctx's.
func Run(ctx context.Context, o Options, tenant string, keepers []onced.Keeper, bar *progress.Bar) (Result, error) {
	r := &run{Options: o, keepers: keepers, took: new(times), prefix: "bench-" + strings.ToLower(rand.Text()[:10])}
	r.response = &onced.Response{Status: 201, Headers: []onced.Header{{Name: "Content-Type", Value: "text/plain"}}, Body: []byte(strings.Repeat("x", o.BodyBytes))}
	ctx, r.stop = context.WithCancelCause(ctx)
	defer r.stop(nil)
	callers := make([]*caller, o.Concurrency)
	for i := range callers {
		callers[i] = &caller{run: r, keeper: keepers[i%len(keepers)], tenant: tenant, number: i, errors: map[onced.Code]int{}}
	}
	if err := r.prepare(ctx, callers, bar); err != nil {
		return Result{}, err
	}
	timed, cancel := context.WithTimeout(ctx, o.Duration)
	defer cancel()
	bar.Begin(string(o.Mode), "")
	begun := time.Now()
	var working sync.WaitGroup
	for _, c := range callers {
		working.Go(func() { c.loop(timed) })
	}
	over := make(chan struct{})
	go func() { working.Wait(); close(over) }()
	r.tell(bar, begun, over)
	result := newResult(r, callers, time.Since(begun))
	return result, r.cause(ctx)
}

// cause is why the run ended early, nil when its time was over.
func (r *run) cause(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// prepare completes the keys that replays go round.
func (r *run) prepare(ctx context.Context, callers []*caller, bar *progress.Bar) error {
	if r.Mode != Replays {
		return nil
	}
	each := max(min(16, preparedMax/len(callers)), 1)
	bar.Begin("preparing", "keys")
	var working sync.WaitGroup
	var made atomic.Int64
	for _, c := range callers {
		working.Go(func() {
			for range each {
				if ctx.Err() != nil || !c.pair(ctx) {
					return
				}
				bar.Step(int(made.Add(1)), each*len(callers))
			}
		})
	}
	working.Wait()
	if err := r.cause(ctx); err != nil {
		return err
	}
	for _, c := range callers {
		if len(c.keys) == 0 {
			return errors.New("preparing the keys to be replayed: a caller could not complete one: " + c.said())
		}
		clear(c.errors)
	}
	r.took = new(times)
	r.done.Store(0)
	return nil
}

// tell shows the progress until over is closed.
func (r *run) tell(bar *progress.Bar, begun time.Time, over <-chan struct{}) {
	defer bar.Finish()
	unit := map[Mode]string{Pairs: "pairs", Replays: "replays", Mixed: "pairs and replays"}[r.Mode]
	ticker := time.NewTicker(tellEvery)
	defer ticker.Stop()
	for {
		select {
		case <-over:
			return
		case now := <-ticker.C:
			took := now.Sub(begun)
			done := r.done.Load()
			bar.Tell(min(took.Seconds()/r.Duration.Seconds(), 0.999),
				fmt.Sprintf("%s of %s, %s %s, %s/s", took.Round(time.Second), r.Duration, progress.Thousands(int(done)), unit,
					progress.Thousands(int(float64(done)/max(took.Seconds(), 0.001)))))
		}
	}
}
