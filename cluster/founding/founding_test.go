package founding

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"onced/cluster/peer/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var orders = [][]string{
	{"n1", "n2", "n3"}, {"n1", "n3", "n2"}, {"n2", "n1", "n3"}, {"n2", "n3", "n1"}, {"n3", "n1", "n2"}, {"n3", "n2", "n1"},
}

// Whatever the order of the starts, and wherever one crashes, there is one cluster
// with all three in it.
func TestFoundingWithACrashAtEachStep(t *testing.T) {
	for _, order := range orders {
		for _, gap := range []time.Duration{0, 60 * time.Millisecond, 15 * time.Second} {
			for crashAt := range 7 { // 0: none
				for _, before := range []bool{false, true} {
					name := fmt.Sprintf("%s,%v,step%d,before=%t", strings.Join(order, ""), gap, crashAt, before)
					t.Run(name, func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { foundWithCrash(t, order, gap, crashAt, before) })
					})
				}
			}
		}
	}
}

func foundWithCrash(t *testing.T, order []string, gap time.Duration, crashAt int, before bool) {
	w := newWorld(t, "n1", "n2", "n3")
	defer w.stop()
	w.crashAt, w.before = crashAt, before
	for _, id := range order {
		w.nodes[id].start()
		time.Sleep(gap)
	}
	w.settle()
	ids, bootstraps, steps := w.facts()
	if ids != 1 || len(bootstraps) != 1 {
		t.Errorf("%d cluster ids, %d bootstraps; want one of each", ids, len(bootstraps))
	}
	for _, n := range w.nodes {
		d, err := n.result()
		if err != nil || d == nil || d.ClusterID != w.cluster() {
			t.Errorf("%s\n%s", n.state(), w.lines())
		}
	}
	if steps < 5 {
		t.Errorf("%d durable steps, at least 5 wanted: founding, two invited, bootstrap, member", steps)
	}
}

// A node that loses its directory in the middle never comes back under its old id
// once the cluster is bootstrapped, and there are never two clusters.
func TestFoundingWithAWipeAtEachStep(t *testing.T) {
	for _, order := range orders {
		for wipeAt := 1; wipeAt <= 5; wipeAt++ {
			t.Run(fmt.Sprintf("%s,step%d", strings.Join(order, ""), wipeAt), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, "n1", "n2", "n3")
					defer w.stop()
					w.crashAt, w.wipe = wipeAt, true
					for _, id := range order {
						w.nodes[id].start()
					}
					w.settle()
					if _, b, _ := w.facts(); len(b) > 1 {
						t.Errorf("bootstrapped %d times", len(b))
					}
					for _, n := range w.nodes {
						if d, err := n.result(); d == nil && err != nil && n.refusal() == "" {
							t.Errorf("%s: neither founded nor refused", n.state())
						}
					}
				})
			})
		}
	}
}

// Random losses, delays, crashes and wipes: never two clusters, and never an id that
// may have voted on an empty directory (simNode.SetIdentity checks that).
func TestFoundingInAnAwfulNetwork(t *testing.T) {
	founded := 0
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 1))
				w := newWorld(t, "n1", "n2", "n3")
				defer w.stop()
				starts := rand.New(rand.NewPCG(seed, 2)) // the hook draws from the other one
				w.crashAt, w.before, w.wipe = rnd.IntN(8), rnd.IntN(2) == 0, rnd.IntN(2) == 0
				w.net.SetHook(func(memnet.Message) memnet.Fault {
					w.mu.Lock()
					defer w.mu.Unlock()
					return awful(rnd)
				})
				for _, i := range starts.Perm(3) {
					w.nodes[w.servers[i].ID].start()
					time.Sleep(time.Duration(starts.Int64N(int64(2 * time.Second))))
				}
				w.settle()
				w.settle()
				ids, bootstraps, _ := w.facts()
				if len(bootstraps) > 1 || (!w.wipe && ids > 1) {
					t.Errorf("%d ids, bootstraps %v", ids, bootstraps)
				}
				if len(bootstraps) == 1 {
					founded++
				}
			})
		})
	}
	if founded < 75 {
		t.Errorf("only %d of 150 founded a cluster: the faults hide the rest", founded)
	}
}

func awful(rnd *rand.Rand) memnet.Fault {
	f := memnet.Fault{Delay: time.Duration(rnd.Int64N(int64(50 * time.Millisecond)))}
	switch rnd.IntN(10) {
	case 0:
		f.Refuse = true
	case 1:
		f.LoseRequests = true
	case 2:
		f.LoseReplies = true
	case 3:
		f.Delay = time.Duration(rnd.Int64N(int64(20 * time.Second)))
	}
	return f
}

// The invitation of a founder is under way while its invitee says yes to another try,
// loses its directory after the cluster was bootstrapped, and is started anew.
func TestLateInvitationDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "n1", "n2", "n3")
		defer w.stop()
		first := true
		w.net.SetHook(func(m memnet.Message) memnet.Fault {
			w.mu.Lock()
			defer w.mu.Unlock()
			if m.To == "n3" && m.Path == PathInvite && first {
				first = false
				return memnet.Fault{Delay: time.Minute}
			}
			return memnet.Fault{}
		})
		for _, p := range w.servers {
			w.nodes[p.ID].start()
		}
		time.Sleep(30 * time.Second)
		cluster := w.cluster()
		n3 := w.nodes["n3"]
		n3.wipeDisk()
		w.net.SetHook(func(m memnet.Message) memnet.Fault { return memnet.Fault{Refuse: m.From == "n3"} }) // so that it cannot be told
		// The wire delivers to an address, not to a process.
		n3.start()
		call := invite{ClusterID: cluster, From: "n1", To: "n3", Incarnation: "of the process before", Peers: w.servers}
		if err := w.nodes["n1"].f.ask(t.Context(), n3.addr, PathInvite, call, &struct{}{}); err == nil {
			t.Error("the wiped node took an invitation made for the process before it")
		}
		w.net.SetHook(nil)
		time.Sleep(5 * time.Second)
		if line := n3.refusal(); !strings.Contains(line, "must never vote again under its old id") {
			t.Errorf("not refused: %s", n3.state())
		}
	})
}

func TestWipedNodeIsRefused(t *testing.T) {
	for _, wiped := range []string{"n1", "n2", "n3"} {
		t.Run(wiped, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "n1", "n2", "n3")
				defer w.stop()
				for _, p := range w.servers {
					w.nodes[p.ID].start()
				}
				w.settle()
				w.replicate()
				n := w.nodes[wiped]
				n.wipeDisk()
				n.start()
				time.Sleep(5 * time.Second)
				line := n.refusal()
				for _, want := range []string{w.cluster(), "has a member " + wiped + " already", "onced members remove " + wiped, "--join"} {
					if !strings.Contains(line, want) {
						t.Errorf("line %q lacks %q", line, want)
					}
				}
				if strings.Contains(line, "\n") {
					t.Error("more than one line")
				}
			})
		})
	}
}

// replicate gives everybody the founder's raft log, as raft would.
func (w *world) replicate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		n.members = w.nodes[w.servers[0].ID].members
	}
}

func TestRestartDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "n1", "n2", "n3")
		defer w.stop()
		for _, p := range w.servers {
			w.nodes[p.ID].start()
		}
		w.settle()
		w.replicate()
		for _, n := range w.nodes {
			n.kill()
			n.wg.Wait()
		}
		n2 := w.nodes["n2"] // alone
		start := time.Now()
		n2.start()
		n2.wg.Wait()
		if d, err := n2.result(); err != nil || d.Bootstrap || d.ClusterID != w.cluster() || time.Since(start) != 0 {
			t.Errorf("after %v: %s", time.Since(start), n2.state())
		}
		if id, _ := n2.Identity(); id.Phase != PhaseMember {
			t.Errorf("phase %s: a restart with raft state settles it", id.Phase)
		}
	})
}

func TestWaitingIsVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "n1", "n2", "n3")
		defer w.stop()
		w.nodes["n1"].start()
		w.nodes["n2"].start()
		time.Sleep(100 * time.Millisecond)
		if got := strings.Count(w.lines(), "n3 at n3:1"); got != 2 {
			t.Errorf("%d lines at once, want one of each waiting node:\n%s", got, w.lines())
		}
		time.Sleep(30 * time.Second)
		if got := strings.Count(w.lines(), "n3 at n3:1"); got < 6 || got > 8 {
			t.Errorf("%d lines after 30 s, want one per node and 10 s:\n%s", got, w.lines())
		}
		start := time.Now()
		w.nodes["n3"].start()
		for _, n := range w.nodes {
			n.wg.Wait()
		}
		if took := time.Since(start); took > time.Millisecond {
			t.Errorf("founded %v after the last one came up", took)
		}
	})
}
