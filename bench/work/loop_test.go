package work

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestOpenLoopSeesAStall holds the open loop to what the closed one hides: one call of a second, with 100 due meanwhile.
func TestOpenLoopSeesAStall(t *testing.T) {
	stalled := func(_, i int) error {
		if i == 50 {
			time.Sleep(time.Second)
		}
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		f := open(context.Background(), 1, 100, 2*time.Second, stalled)
		if f.Count != 200 {
			t.Fatalf("%d calls, expected 200", f.Count)
		}
		// Those due within the second have waited for what was left of it: a quarter of all for half of it or more.
		if got := f.Times.Quantile(0.75); got < 480*time.Millisecond || got > 520*time.Millisecond {
			t.Errorf("p75 is %s, expected about 500 ms: calls that were due have not waited", got)
		}
		if f.Times.Quantile(0.2) > 0 {
			t.Errorf("p20 is %s: calls before the stall have waited", f.Times.Quantile(0.2))
		}
		if f.Stall != time.Second+10*time.Millisecond {
			t.Errorf("the longest time without a success is %s, expected 1.01 s", f.Stall)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := closed(context.Background(), 1, 2*time.Second-time.Millisecond, func(caller, i int) error { // not at the moment at which a call ends
			time.Sleep(10 * time.Millisecond)
			return stalled(caller, i)
		})
		if got := f.Times.Quantile(0.95); got > 11*time.Millisecond {
			t.Errorf("p95 of the closed loop is %s", got)
		}
		if f.Count != 100 {
			t.Errorf("%d calls in 2 s, of 10 ms each and one of 1 s more: expected 100", f.Count)
		}
	})
}

func TestRefusalsAreNoFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := closed(context.Background(), 2, time.Second, func(_, i int) error {
			time.Sleep(time.Millisecond)
			if i%10 == 0 {
				return errors.New("refused")
			}
			return nil
		})
		if f.Err() == nil {
			t.Errorf("%d refusals beside %d successes are no error", f.Errors, f.Count)
		}
	})
}

func TestGaps(t *testing.T) {
	at := time.Unix(0, 0)
	var g gaps
	g.done(at) // before it begins: nothing
	g.begin(at.Add(time.Second))
	g.done(at.Add(2 * time.Second))
	g.done(at.Add(5 * time.Second))
	if got := g.end(at.Add(6 * time.Second)); got != 3*time.Second {
		t.Errorf("the longest gap is %s, expected 3 s", got)
	}
	if got := g.end(at.Add(60 * time.Second)); got != 54*time.Second {
		t.Errorf("a gap that has not ended is %s, expected 54 s", got)
	}
}

func TestShuffled(t *testing.T) {
	steps := shuffled(80, 40)
	firsts, repeats := map[int]int{}, map[int]int{}
	for i, s := range steps {
		if s.repeat {
			repeats[s.key]++
		} else {
			firsts[s.key]++
		}
		if s.repeat && firsts[s.key] == 0 {
			t.Fatalf("step %d repeats key %d, which was not sent", i, s.key)
		}
	}
	if len(firsts) != 80 || len(repeats) != 40 || len(steps) != 120 {
		t.Errorf("%d keys, %d repeated, %d steps", len(firsts), len(repeats), len(steps))
	}
}

// TestOpenEndsEarly holds an open loop that is ended to do nothing before it is due.
func TestOpenEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		var done atomic.Int64
		f := open(ctx, 4, 1, time.Hour, func(_, i int) error {
			if i == 0 {
				synctest.Wait() // the others wait for what is due in a second and later
			}
			done.Add(1)
			end()
			return nil
		})
		if done.Load() != 1 || f.Count != 1 {
			t.Errorf("%d were done, %d counted; one was due", done.Load(), f.Count)
		}
	})
}

// TestBodiesDiffer holds answers of different keys to be different, and those of one to be the same.
func TestBodiesDiffer(t *testing.T) {
	seen := map[string]bool{}
	for i := range 1000 {
		key := fmt.Sprintf("key-%d", i)
		body := bodyOf(key, 300)
		if len(body) != 300 || body != bodyOf(key, 300) {
			t.Fatalf("the body of %s has %d bytes, or is another one each time", key, len(body))
		}
		seen[body] = true
	}
	if len(seen) != 1000 {
		t.Errorf("1,000 keys have %d different bodies", len(seen))
	}
}
