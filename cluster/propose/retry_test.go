package propose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"onced/fsm"
	"onced/fsm/command"
)

// Lost replies and lost leaders: the caller still learns the truth.
func TestSubmitFindsOut(t *testing.T) {
	for _, tc := range []struct {
		name    string
		happens func(w *world)
	}{
		{"reply lost", func(w *world) {
			w.setLink(func(int, int) fault { return fault{loseReply: true} })
			time.Sleep(50 * time.Millisecond)
			w.elect(1)
			w.setLink(nil)
		}},
		{"leader lost while committing", func(w *world) {
			w.hold(true)
			time.Sleep(50 * time.Millisecond)
			w.elect(2)
			w.hold(false)
		}},
		{"no leader for a while", func(w *world) {
			w.elect(-1)
			time.Sleep(3 * time.Second)
			w.elect(0)
		}},
		{"unreachable for a while", func(w *world) {
			w.setLink(func(int, int) fault { return fault{notSent: true} })
			time.Sleep(3 * time.Second)
			w.setLink(nil)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for range 10 { // the world throws dice
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, 3, nil)
					defer w.close()
					w.elect(1)
					ended := make(chan struct{})
					go func() { defer close(ended); tc.happens(w) }()
					synctest.Wait()
					r, err := w.nodes[0].retrier.Submit(within(t, 10*time.Second), reserve("k", "o"), ByNode)
					if err != nil || !granted(r) {
						t.Errorf("Submit = %v, %v", outcome(r), err)
					}
					<-ended
					time.Sleep(time.Minute)
					if row := w.row("k"); row == nil || row.Owner != "o" {
						t.Errorf("the table has %+v", row)
					}
					if w.count(cancels("o")) != 0 {
						t.Error("a granted owner was cancelled")
					}
				})
			}
		})
	}
}

// Whoever gives up on an unknown reserve of its own owner leaves exactly one cancel,
// and no reservation, in whatever order the two arrive.
func TestGiveUpCancels(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault fault
		late  bool // the reserve is in the log, if at all, after the caller's end
	}{
		{"applied, reply lost", fault{loseReply: true}, false},
		{"arrives after the cancel, in time", fault{delay: 2500 * time.Millisecond}, true},
		{"arrives hours later", fault{delay: 3 * time.Hour}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 2, nil)
				defer w.close()
				w.elect(1)
				n := w.nodes[0]
				if _, err := n.Do(t.Context(), reserve("before", "before")); err != nil {
					t.Fatal(err)
				}
				w.setLink(func(int, int) fault { return tc.fault })
				ctx, hangUp := context.WithCancel(within(t, 5*time.Second))
				time.AfterFunc(2*time.Second, func() { // before its deadline: the late frame is still in time
					w.setLink(nil)
					hangUp()
				})
				_, err := n.retrier.Submit(ctx, reserve("k", "o"), ByNode)
				var gaveUp *GaveUp
				if !errors.As(err, &gaveUp) || !gaveUp.Unknown || !errors.Is(err, context.Canceled) {
					t.Fatalf("Submit: %v", err)
				}
				if err := n.retrier.Drain(within(t, time.Minute)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(4 * time.Hour)
				if got := w.count(cancels("o")); got != 1 || n.counters.Cancels.Load() != 1 || n.counters.CancelsPending.Load() != 0 {
					t.Errorf("%d cancels are in the log", got)
				}
				if row := w.row("k"); row != nil {
					t.Errorf("a reservation that nobody holds: %+v", row)
				}
				if !tc.late && w.count(reserves("o")) != 1 {
					t.Error("the reserve never was in the log: this shows nothing")
				}
			})
		})
	}
}

// tries is a Doer that answers what the test says, try by try; the last answer stays.
type tries struct {
	mu      sync.Mutex
	answers []error
	result  fsm.Outcome
	seen    []*command.Command
}

func (d *tries) Do(_ context.Context, cmd *command.Command) (Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, cmd)
	if cmd.GetCancel() != nil {
		return Result{Result: &command.Result{Outcome: uint32(fsm.OutcomeDone)}}, nil
	}
	err := d.answers[0]
	if len(d.answers) > 1 {
		d.answers = d.answers[1:]
	}
	if err != nil {
		return Result{}, err
	}
	return Result{Result: &command.Result{Outcome: uint32(d.result)}}, nil
}

func TestWhatIsCancelled(t *testing.T) {
	for _, tc := range []struct {
		name    string
		tries   []error
		result  fsm.Outcome
		owned   Owned
		end     string // of the Submit
		unknown bool
		cancel  bool
		took    time.Duration // at most
	}{
		{"granted at once", []error{nil}, fsm.OutcomeReserved, ByNode, "applied", false, false, 0},
		{"granted after unknown", []error{ErrUnknown, nil}, fsm.OutcomeRepeated, ByNode, "applied", false, false, time.Second},
		{"refused at once", []error{nil}, fsm.OutcomeInProgress, ByNode, "applied", false, false, 0},
		{"refused after unknown", []error{ErrUnknown, nil}, fsm.OutcomeInProgress, ByNode, "applied", false, true, time.Second},
		{"never applied", []error{ErrNoLeader}, 0, ByNode, "gave up", false, false, 5 * time.Second},
		{"unknown", []error{ErrUnknown}, 0, ByNode, "gave up", true, true, 5 * time.Second},
		{"unknown, then never", []error{ErrNoLeader, ErrUnknown, ErrNoLeader}, 0, ByNode, "gave up", true, true, 5 * time.Second},
		{"unknown, caller's owner", []error{ErrUnknown}, 0, ByCaller, "gave up", true, false, 5 * time.Second},
		{"refused after unknown, caller's owner", []error{ErrUnknown, nil}, fsm.OutcomeInProgress, ByCaller, "gave up", true, false, time.Second},
		{"refused at once, caller's owner", []error{nil}, fsm.OutcomeInProgress, ByCaller, "applied", false, false, 0},
		{"refused after never, caller's owner", []error{ErrNoLeader, nil}, fsm.OutcomeInProgress, ByCaller, "applied", false, false, time.Second},
		{"granted after unknown, caller's owner", []error{ErrUnknown, nil}, fsm.OutcomeRepeated, ByCaller, "applied", false, false, time.Second},
		{"replayed after unknown, caller's owner", []error{ErrUnknown, nil}, fsm.OutcomeReplayed, ByCaller, "applied", false, false, time.Second},
		{"overloaded", []error{ErrOverloaded}, 0, ByNode, "gave up", false, false, 0},
		{"overloaded after unknown", []error{ErrUnknown, ErrOverloaded}, 0, ByNode, "gave up", true, true, time.Second},
		{"shutting down after unknown", []error{errUnderWay, ErrClosed}, 0, ByNode, "gave up", true, true, time.Second},
		{"malformed", []error{ErrBadCommand}, 0, ByNode, "malformed", false, false, 0},
		{"malformed after unknown", []error{ErrUnknown, ErrBadCommand}, 0, ByNode, "malformed", false, true, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &tries{answers: tc.tries, result: tc.result}
				r := NewRetrier(RetryConfig{Doer: d, Routes: NewRoutes()})
				defer r.Close()
				start := time.Now()
				cmd := reserve("k", "o")
				result, err := r.Submit(within(t, 5*time.Second), cmd, tc.owned)
				took := time.Since(start)
				var gaveUp *GaveUp
				end := "applied"
				switch {
				case errors.As(err, &gaveUp):
					end = "gave up"
				case errors.Is(err, ErrBadCommand):
					end = "malformed"
				case err != nil:
					end = err.Error()
				}
				if end != tc.end || gaveUp != nil && gaveUp.Unknown != tc.unknown || err == nil && outcome(result) != tc.result {
					t.Errorf("Submit: %v", err)
				}
				if took > tc.took {
					t.Errorf("it took %s, at most %s was expected", took, tc.took)
				}
				if gaveUp != nil && !strings.Contains(gaveUp.Error(), map[bool]string{true: "may have been", false: "nothing was"}[tc.unknown]) {
					t.Errorf("the error says %q", gaveUp)
				}
				synctest.Wait()
				last := d.seen[len(d.seen)-1].GetCancel()
				if (last != nil) != tc.cancel {
					t.Fatalf("cancelled: %v", last != nil)
				}
				if last != nil && (last.Owner != "o" || string(last.Id.Key) != "k" || last.RememberMs != 3_600_000) {
					t.Errorf("the cancel is %v", last)
				}
				for _, seen := range d.seen {
					if seen.GetCancel() == nil && seen != cmd {
						t.Error("a try sent another command")
					}
				}
			})
		})
	}
}

// A holder's command is not turned away by a full queue.
func TestHolderOutlastsOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &tries{answers: []error{ErrOverloaded, ErrOverloaded, ErrOverloaded, nil}, result: fsm.OutcomeDone}
		r := NewRetrier(RetryConfig{Doer: d, Routes: NewRoutes()})
		defer r.Close()
		if _, err := r.Submit(within(t, 10*time.Second), complete("k", 1, 1), ByCaller); err != nil {
			t.Error(err)
		}
	})
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &tries{answers: []error{ErrNoLeader}}
		routes := NewRoutes()
		r := NewRetrier(RetryConfig{Doer: d, Routes: routes})
		defer r.Close()
		r.Submit(within(t, 10*time.Second), reserve("k", "o"), ByNode)
		if n := len(d.seen); n < 50 || n > 115 {
			t.Errorf("%d tries in 10 s, with pauses of 100–200 ms in the end", n)
		}
		d.seen = nil
		go func() {
			time.Sleep(5 * time.Second)
			d.mu.Lock()
			d.answers, d.result = []error{nil}, fsm.OutcomeReserved
			d.mu.Unlock()
			routes.Set(Route{Known: true, Term: 2})
		}()
		start := time.Now()
		if _, err := r.Submit(within(t, 10*time.Second), reserve("k", "o"), ByNode); err != nil || time.Since(start) != 5*time.Second {
			t.Errorf("after %s: %v; a new leader should be asked at once", time.Since(start), err)
		}
	})
}

// stuck is a Doer that knows nothing until it is let go.
type stuck struct{ free chan struct{} }

func (d stuck) Do(ctx context.Context, cmd *command.Command) (Result, error) {
	select {
	case <-d.free:
		return Result{Result: &command.Result{Outcome: uint32(fsm.OutcomeDone)}}, nil
	case <-ctx.Done():
		return Result{}, fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	}
}

func TestCancelsAreBoundedAndDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		d := stuck{make(chan struct{})}
		r := NewRetrier(RetryConfig{Doer: d, Routes: NewRoutes(), MaxCancels: 2, Logger: slog.New(slog.NewTextHandler(&said, nil))})
		for range 2 {
			r.Submit(within(t, time.Second), reserve("k", "o"), ByNode)
		}
		start := time.Now()
		if _, err := r.Submit(within(t, time.Second), reserve("k", "o"), ByNode); !errors.Is(err, ErrOverloaded) || time.Since(start) != 0 {
			t.Errorf("a reserve beyond the bound: %v", err)
		}
		r.Submit(within(t, time.Second), complete("k", 1, 1), ByCaller)
		if err := r.Drain(within(t, time.Minute)); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "2 cancels") {
			t.Errorf("Drain of what is stuck: %v", err)
		}
		close(d.free)
		if err := r.Drain(within(t, time.Minute)); err != nil {
			t.Errorf("Drain: %v", err)
		}
		r.Close()
		if said.Len() != 0 {
			t.Errorf("Close said %s", &said)
		}
	})
}

func TestCloseSaysWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		r := NewRetrier(RetryConfig{Doer: stuck{nil}, Routes: NewRoutes(), Logger: slog.New(slog.NewTextHandler(&said, nil))})
		for range 3 {
			r.Submit(within(t, time.Second), reserve("k", "o"), ByNode)
		}
		r.Close()
		if !strings.Contains(said.String(), "count=3") {
			t.Errorf("Close said %q", &said)
		}
		r.Submit(within(t, time.Second), reserve("k", "after"), ByNode)
		if !strings.Contains(said.String(), "owner=after") {
			t.Errorf("a cancel after Close: %q", &said)
		}
	})
}
