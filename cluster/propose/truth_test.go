package propose

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"onced/fsm"
)

// told is what one caller was told of its own owner.
type told struct {
	owner, key string
	submitted  bool // by Submit; else by one Do
	result     Result
	err        error
}

// Whatever the network and the leaders do, what each caller was told agrees with the
// one true log, hours later.
func TestEveryAnswerIsTrue(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 10
	}
	ends := map[string]int{}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 3, func(c *Config) { c.MaxEntries, c.MaxFrames, c.MaxBatch = 2, 2, 3 })
			defer w.close()
			w.rng = rand.New(rand.NewPCG(seed, 7))
			w.commitDelay = 3 * time.Millisecond
			w.setLink(w.badNetwork)
			w.elect(0)
			stop := make(chan struct{})
			go w.unrest(stop, rand.New(rand.NewPCG(seed, 8)))
			all := w.callers(seed)
			close(stop)
			w.setLink(nil)
			w.hold(false)
			w.elect(1)
			for _, n := range w.nodes {
				if err := n.retrier.Drain(within(t, time.Minute)); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
			time.Sleep(2 * time.Hour)
			for _, a := range all {
				ends[w.verify(t, seed, a)]++
			}
			w.verifyLog(t, seed)
		})
	}
	for _, end := range []string{"do applied", "do not applied", "do unknown", "granted", "refused", "gave up, unknown", "gave up, nothing applied"} {
		if ends[end] == 0 {
			t.Errorf("no caller ended as %q: the test shows less than it should (%v)", end, ends)
		}
	}
	t.Log(ends)
}

// badNetwork loses and delays. w.mu is held.
func (w *world) badNetwork(int, int) fault {
	switch w.rng.IntN(10) {
	case 0:
		return fault{notSent: true}
	case 1:
		return fault{loseReply: true}
	case 2:
		return fault{delay: time.Duration(w.rng.IntN(3000)) * time.Millisecond}
	case 3:
		return fault{delay: time.Duration(w.rng.IntN(60)) * time.Second}
	}
	return fault{delay: time.Duration(w.rng.IntN(2000)) * time.Microsecond}
}

// unrest changes leaders and stalls the log until stop.
func (w *world) unrest(stop <-chan struct{}, rng *rand.Rand) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rng.IntN(700)) * time.Millisecond):
		}
		switch rng.IntN(5) {
		case 0:
			w.elect(-1)
		case 1, 2:
			w.elect(rng.IntN(3))
		case 3:
			w.hold(true)
		default:
			w.hold(false)
		}
	}
}

// callers runs callers on every node to their end.
func (w *world) callers(seed uint64) []told {
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		all []told
	)
	for i := range 30 {
		rng := rand.New(rand.NewPCG(seed, uint64(100+i)))
		n := w.nodes[i%3]
		wg.Go(func() {
			for round := range 6 {
				a := told{owner: fmt.Sprintf("%d.%d", i, round), submitted: rng.IntN(2) == 0}
				a.key = "own " + a.owner
				if rng.IntN(2) == 0 {
					a.key = fmt.Sprint("shared ", rng.IntN(3))
				}
				ctx := within(w.t, time.Duration(rng.IntN(1500))*time.Millisecond)
				if a.submitted {
					a.result, a.err = n.retrier.Submit(ctx, reserve(a.key, a.owner), ByNode)
				} else {
					a.result, a.err = n.Do(ctx, reserve(a.key, a.owner))
				}
				mu.Lock()
				all = append(all, a)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return all
}

// verify compares what a caller was told with the log, and names its end.
func (w *world) verify(t *testing.T, seed uint64, a told) string {
	t.Helper()
	var in []fsm.Outcome
	for _, e := range w.log() {
		if reserves(a.owner)(e) {
			in = append(in, e.outcome)
		}
	}
	row := w.row(a.key)
	holds := row != nil && row.Owner == a.owner
	wrong := func(what string) {
		t.Helper()
		t.Errorf("seed %d: %s of %q: %s: told %v, %v; the log says %v, the table %+v", seed, a.owner, a.key, what, outcome(a.result), a.err, in, row)
	}
	var gaveUp *GaveUp
	switch {
	case !a.submitted && a.err == nil:
		if len(in) != 1 || in[0] != outcome(a.result) {
			wrong("a result that is not in the log")
		}
		return "do applied"
	case !a.submitted && errors.Is(a.err, ErrUnknown):
		if len(in) > 1 {
			wrong("one try was applied more than once")
		}
		return "do unknown"
	case !a.submitted:
		if len(in) != 0 {
			wrong("it was applied after all")
		}
		return "do not applied"
	case a.err == nil && granted(a.result):
		if !holds {
			wrong("granted, but not held")
		}
		return "granted"
	case holds:
		wrong("a reservation that nobody holds")
		return "ghost"
	case a.err == nil:
		return "refused"
	case errors.As(a.err, &gaveUp) && gaveUp.Unknown:
		if w.count(cancels(a.owner)) == 0 {
			wrong("it was never cancelled")
		}
		return "gave up, unknown"
	}
	if len(in) != 0 {
		wrong("it was applied after all")
	}
	return "gave up, nothing applied"
}

// verifyLog checks what must hold of the log itself.
func (w *world) verifyLog(t *testing.T, seed uint64) {
	for _, e := range w.log() {
		if e.cmd.NotAfterMs == 0 {
			t.Errorf("seed %d: entry %d holds a command that never ends: %v", seed, e.index, e.cmd)
		}
	}
}
