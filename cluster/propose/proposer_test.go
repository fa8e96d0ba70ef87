package propose

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"onced/fsm"
	"onced/fsm/command"
)

func TestLoneCallerDoesNotWait(t *testing.T) {
	for leader := range 2 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 2, nil)
			defer w.close()
			w.elect(leader)
			start := time.Now()
			r, err := w.nodes[0].Do(t.Context(), reserve("k", "o"))
			if err != nil || outcome(r) != fsm.OutcomeReserved || r.Index != 1 {
				t.Fatalf("Do = %+v, %v", r, err)
			}
			if took := time.Since(start); took != 0 {
				t.Errorf("a lone caller waited %s", took)
			}
		})
	}
}

func TestWhatWaitsTravelsTogether(t *testing.T) {
	for _, tc := range []struct {
		name     string
		leader   int // the asked node is 0
		commands []*command.Command
		want     []int // commands per entry
	}{
		{"small ones", 0, []*command.Command{reserve("a", "a"), reserve("b", "b"), reserve("c", "c")}, []int{3}},
		{"as a frame", 1, []*command.Command{reserve("a", "a"), reserve("b", "b"), reserve("c", "c")}, []int{3}},
		{"expire alone", 0, []*command.Command{reserve("a", "a"), expire(), reserve("b", "b")}, []int{1, 1, 1}},
		{"count is bounded", 0, []*command.Command{reserve("a", "a"), reserve("b", "b"), reserve("c", "c"), reserve("d", "d"), reserve("e", "e")}, []int{4, 1}},
		{"bytes are bounded", 0, []*command.Command{complete("a", 1, 500), complete("b", 1, 500), complete("c", 1, 100)}, []int{1, 2}},
		{"a large one alone", 0, []*command.Command{reserve("a", "a"), complete("b", 1, 5000), reserve("c", "c")}, []int{1, 1, 1}},
		{"a large one alone, as a frame", 1, []*command.Command{reserve("a", "a"), complete("b", 1, 5000), reserve("c", "c")}, []int{1, 1, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 2, func(c *Config) { c.MaxEntries, c.MaxFrames, c.MaxBatch, c.MaxBatchBytes = 1, 1, 4, 1000 })
				defer w.close()
				w.elect(tc.leader)
				w.hold(true)
				go w.nodes[0].Do(within(t, time.Minute), reserve("first", "first"))
				synctest.Wait()
				for _, cmd := range tc.commands {
					go w.nodes[0].Do(within(t, time.Minute), cmd)
					synctest.Wait() // they queue in this order
				}
				for range tc.commands {
					w.hold(false)
					synctest.Wait()
				}
				var got []int
				last := uint64(1)
				for _, a := range w.log()[1:] {
					if a.index != last {
						got = append(got, a.in)
						last = a.index
					}
				}
				if fmt.Sprint(got) != fmt.Sprint(tc.want) {
					t.Errorf("commands per entry: %v, want %v", got, tc.want)
				}
			})
		})
	}
}

// logOf is a Log whose futures end as the test says.
type logOf struct {
	results *command.Results
	err     error
}

func (l logOf) Append([]byte) Future            { return l }
func (l logOf) Wait() (*command.Results, error) { return l.results, l.err }

// TestOnlyFullBatchesLeaveBeside: what comes while two entries (frames) are under way gathers until one is decided, or until it
// fills a batch.
func TestOnlyFullBatchesLeaveBeside(t *testing.T) {
	for _, tc := range []struct {
		name   string
		leader int // the asked node is 0
		alone  int // commands that leave one by one
		under  func(*node) int32
	}{
		{"entries", 0, 2, func(n *node) int32 { return n.entries.batches.Load() }},
		{"frames", 1, 2, func(n *node) int32 { return n.frames.batches.Load() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 2, func(c *Config) { c.MaxBatch = 4 })
				defer w.close()
				w.elect(tc.leader)
				w.hold(true)
				n, sent := w.nodes[0], 0
				ask := func(commands int) {
					for range commands {
						sent++
						go n.Do(within(t, time.Minute), reserve(fmt.Sprint(sent), fmt.Sprint(sent)))
						synctest.Wait()
					}
				}
				check := func(what string, want int) {
					t.Helper()
					if got := tc.under(n); got != int32(want) {
						t.Errorf("%s: %d under way, expected %d", what, got, want)
					}
				}
				ask(tc.alone)
				check("what came first", tc.alone)
				ask(3)
				check("three beside", tc.alone)
				ask(1)
				check("a full batch beside", tc.alone+1)
				ask(2)
				check("two more", tc.alone+1)
				w.hold(false)
				synctest.Wait()
				w.hold(false)
				synctest.Wait()
				check("all decided", 0)
				if got := len(w.log()); got != sent {
					t.Errorf("%d commands in the log, expected %d", got, sent)
				}
			})
		})
	}
}

// TestSecondEntryIsNoSmaller: beside one entry that is under way a second leaves once as many commands wait as the first has. A second frame leaves
// at once.
func TestSecondEntryIsNoSmaller(t *testing.T) {
	for _, tc := range []struct {
		name   string
		leader int // the asked node is 0
		waits  int // commands that do not leave beside a batch of three
		under  func(*node) *underWay
	}{
		{"entries", 0, 2, func(n *node) *underWay { return &n.entries }},
		{"frames", 1, 0, func(n *node) *underWay { return &n.frames }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 2, nil)
				defer w.close()
				w.elect(tc.leader)
				w.hold(true)
				n, under := w.nodes[0], tc.under(w.nodes[0])
				n.enqueue(callsOf(t, 3)) // in one step: they travel together
				synctest.Wait()
				for sent := range tc.waits + 1 {
					if got := under.batches.Load(); got != 1 {
						t.Errorf("%d under way beside %d that wait, expected the first alone", got, sent)
					}
					go n.Do(within(t, time.Minute), reserve(fmt.Sprint(sent), "o"))
					synctest.Wait()
				}
				if batches, commands := under.batches.Load(), under.commands.Load(); batches != 2 || int(commands) != 3+tc.waits+1 {
					t.Errorf("%d commands in %d batches under way, expected %d in 2", commands, batches, 3+tc.waits+1)
				}
				w.hold(false)
				synctest.Wait()
				if batches, commands := under.batches.Load(), under.commands.Load(); batches != 0 || commands != 0 {
					t.Errorf("%d commands in %d batches under way after all are decided, expected none", commands, batches)
				}
				if got := len(w.log()); got != 3+tc.waits+1 {
					t.Errorf("%d commands in the log, expected %d", got, 3+tc.waits+1)
				}
			})
		})
	}
}

// TestSmallOneDoesNotStarve: what is smaller than the entry under way leaves when that is decided.
func TestSmallOneDoesNotStarve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		defer w.close()
		w.commitDelay = 2 * time.Millisecond
		w.elect(0)
		n := w.nodes[0]
		n.enqueue(callsOf(t, 100))
		synctest.Wait()
		began := time.Now()
		if _, err := n.Do(within(t, time.Minute), reserve("small", "o")); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 2*w.commitDelay {
			t.Errorf("it took %s, expected the entry under way and its own: %s", took, 2*w.commitDelay)
		}
	})
}

func TestOutcomesOfTheLog(t *testing.T) {
	one := []*command.Result{{Outcome: uint32(fsm.OutcomeReserved)}}
	for _, tc := range []struct {
		name string
		log  logOf
		want string
	}{
		{"decided", logOf{results: &command.Results{Results: one}}, "applied"},
		{"not applied", logOf{err: fmt.Errorf("not the leader: %w", ErrNotApplied)}, "not applied"},
		{"unknown", logOf{err: fmt.Errorf("leadership lost: %w", ErrUnknown)}, "unknown"},
		{"nobody vouches for it", logOf{err: errors.New("disk on fire")}, "unknown"},
		{"both", logOf{err: fmt.Errorf("%w, %w", ErrNotApplied, ErrUnknown)}, "both"},
		{"too few results", logOf{results: &command.Results{}}, "unknown"},
		{"late", logOf{results: &command.Results{Results: []*command.Result{{Outcome: uint32(fsm.OutcomeLate)}}}}, "not applied"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, func(c *Config) { c.Log = tc.log })
				defer w.close()
				w.elect(0)
				_, err := w.nodes[0].Do(t.Context(), reserve("k", "o"))
				want := tc.want
				if want == "both" { // when in doubt
					want = "unknown"
				}
				if got := fateName(err); got != want {
					t.Errorf("fate is %s (%v), want %s", got, err, want)
				}
			})
		})
	}
}

func TestEndOfTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, func(c *Config) { c.MaxEntries = 1 })
		defer w.close()
		w.elect(0)
		w.hold(true)
		n := w.nodes[0]
		errs := make(chan error, 2)
		go func() { _, err := n.Do(within(t, time.Second), reserve("k", "under way")); errs <- err }()
		synctest.Wait()
		go func() { _, err := n.Do(within(t, 2*time.Second), reserve("k", "queued")); errs <- err }()
		if err := <-errs; fateName(err) != "unknown" || !errors.Is(err, ErrUnknown) {
			t.Errorf("given up under way: %v", err)
		}
		if err := <-errs; fateName(err) != "not applied" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("given up in the queue: %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := n.Do(ended, reserve("k", "ended")); fateName(err) != "not applied" {
			t.Errorf("given up before: %v", err)
		}
		w.hold(false)
		synctest.Wait()
		if got := len(w.log()); got != 1 {
			t.Errorf("%d commands are in the log, want the one that was under way", got)
		}
		if n.queue.head != nil || n.queue.reserves.commands != 0 || n.queue.reserves.bytes != 0 {
			t.Errorf("the queue is not empty: %+v", n.queue.reserves)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, func(c *Config) { c.MaxEntries, c.MaxFrames = 1, 1 })
		w.elect(0)
		w.hold(true)
		type end struct{ who, fate string }
		ends := make(chan end, 10)
		ask := func(n *node, who string) {
			go func() { _, err := n.Do(context.Background(), reserve("k", who)); ends <- end{who, fateName(err)} }()
			synctest.Wait()
		}
		ask(w.nodes[0], "leader, under way")
		ask(w.nodes[0], "leader, queued")
		ask(w.nodes[1], "follower, under way")
		ask(w.nodes[1], "follower, queued")
		w.nodes[1].Close()
		w.nodes[0].Close()
		got := map[string]string{}
		for range 4 {
			e := <-ends
			got[e.who] = e.fate
		}
		ask(w.nodes[0], "afterwards")
		got["afterwards"] = (<-ends).fate
		for who, want := range map[string]string{
			"leader, under way": "unknown", "leader, queued": "not applied",
			"follower, under way": "unknown", "follower, queued": "not applied", "afterwards": "not applied",
		} {
			if got[who] != want {
				t.Errorf("%s: %s, want %s", who, got[who], want)
			}
		}
		w.close()
	})
}

func TestNoLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		defer w.close()
		if _, err := w.nodes[0].Do(t.Context(), reserve("k", "o")); !errors.Is(err, ErrNoLeader) {
			t.Errorf("without a leader: %v", err)
		}
		w.elect(0)
		w.nodes[0].clock.Resign(w.term) // the clock knows before the route does
		if _, err := w.nodes[0].Do(t.Context(), reserve("k", "o")); !errors.Is(err, ErrNoLeader) {
			t.Errorf("with a clock that does not lead: %v", err)
		}
	})
}

func TestBadCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		defer w.close()
		w.elect(0)
		timed := reserve("k", "o")
		timed.NotAfterMs = 5
		for name, cmd := range map[string]*command.Command{
			"nil": nil, "no kind": {}, "not_after": timed, "no UTF-8": reserve("k", "\xff"),
		} {
			if _, err := w.nodes[0].Do(t.Context(), cmd); !errors.Is(err, ErrBadCommand) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A flood of reserves is refused, and holders' commands still pass.
func TestOverloadRefusesReservesOnly(t *testing.T) {
	for leader := range 2 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 2, func(c *Config) {
				c.MaxEntries, c.MaxFrames, c.MaxBatch = 1, 1, 1
				c.Reserves = Share{Commands: 3, Bytes: 1 << 20}
			})
			defer w.close()
			w.elect(leader)
			n := w.nodes[0]
			r, err := n.Do(t.Context(), reserve("held", "holder"))
			if err != nil {
				t.Fatal(err)
			}
			row, _ := fsm.DecodeResult(r.Result)
			w.hold(true)
			errs := make(chan error, 20)
			for i := range 10 {
				go func() { _, err := n.Do(within(t, time.Minute), reserve(fmt.Sprint(i), "o")); errs <- err }()
				synctest.Wait() // the first is under way, three wait
			}
			completed := make(chan error, 1)
			synctest.Wait()
			go func() {
				_, err := n.Do(within(t, time.Minute), complete("held", row.Row.Token, 10))
				completed <- err
			}()
			synctest.Wait()
			refused := 0
			for range 6 {
				if err := <-errs; errors.Is(err, ErrOverloaded) {
					refused++
				}
			}
			if refused != 6 || n.counters.RefusedReserves.Load() != 6 || n.counters.RefusedHolders.Load() != 0 {
				t.Errorf("%d of 10 reserves were refused, want 6", refused)
			}
			w.mu.Lock()
			w.commitDelay = time.Millisecond
			w.mu.Unlock()
			w.hold(false)
			if err := <-completed; err != nil {
				t.Errorf("the holder's complete: %v", err)
			}
			for range 4 {
				if err := <-errs; err != nil {
					t.Errorf("a reserve that had room: %v", err)
				}
			}
		})
	}
}

func TestSharesOfTheQueue(t *testing.T) {
	q := &queue{}
	q.reserves.share = Share{Commands: 2, Bytes: 500}
	q.holders.share = Share{Commands: 2, Bytes: 500}
	push := func(cmd *command.Command) (err error) {
		c, err := newCall(cmd, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		q.push([]*call{c}, func(_ *call, e error) { err = e })
		return err
	}
	for i, tc := range []struct {
		cmd  *command.Command
		want error
	}{
		{reserve("a", "a"), nil},
		{complete("a", 1, 5000), nil}, // an empty share takes any size
		{reserve("b", "b"), nil},
		{reserve("c", "c"), ErrOverloaded},
		{complete("b", 1, 10), ErrOverloaded},
	} {
		if err := push(tc.cmd); err != tc.want {
			t.Errorf("push %d: %v, want %v", i, err, tc.want)
		}
	}
	if got := len(q.take(10, 1<<20)); got != 3 || q.reserves != (load{share: q.reserves.share}) || q.holders != (load{share: q.holders.share}) {
		t.Errorf("took %d, left %+v %+v", got, q.reserves, q.holders)
	}
	q.close()
	if err := push(reserve("a", "a")); err != ErrClosed {
		t.Errorf("push after close: %v", err)
	}
}

func TestRoutes(t *testing.T) {
	r := NewRoutes()
	_, changed := r.Get()
	r.Set(Route{})
	select {
	case <-changed:
		t.Fatal("the same route is a change")
	default:
	}
	want := Route{Known: true, Term: 3, Leader: "n1"}
	r.Set(want)
	<-changed
	if got, _ := r.Get(); got != want {
		t.Errorf("Get = %+v", got)
	}
}

// TestEntriesOfManyCallers holds down what a command costs where many ask at once on every node: a log entry is a sync, a message to each
// follower and a write to each table, however many commands it has.
func TestEntriesOfManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, nil)
		defer w.close()
		w.commitDelay = 2 * time.Millisecond
		w.elect(0)
		w.setLink(func(int, int) fault { return fault{delay: 100 * time.Microsecond} })
		const callers, rounds = 63, 40
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for round := range rounds {
					time.Sleep(time.Duration(i*7%13) * 10 * time.Microsecond) // they do not go in step
					name := fmt.Sprint(i, ".", round)
					if _, err := w.nodes[i%3].Do(within(t, time.Minute), reserve(name, name)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		entries := w.nodes[0].counters.Entries.Load()
		if most := uint64(callers * rounds / 8); entries > most {
			t.Errorf("%d entries for %d commands, at most %d expected", entries, callers*rounds, most)
		}
		t.Logf("%d entries, %d and %d frames", entries, w.nodes[1].counters.Frames.Load(), w.nodes[2].counters.Frames.Load())
	})
}

// callsOf are n reserves of different keys.
func callsOf(t *testing.T, n int) (calls []*call) {
	t.Helper()
	for i := range n {
		c, err := newCall(reserve(fmt.Sprint("first", i), "o"), time.Now().Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, c)
	}
	return calls
}
