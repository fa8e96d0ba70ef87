package founding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"onced/cluster/peer/memnet"
)

// admitter plays the leader's side on a node.
type admitter struct {
	w      *world
	leader string // address; the node that has it admits
	self   string
	fail   int // so many times first
	added  []string
	err    error
}

func (a *admitter) Admit(_ context.Context, id, addr string) (string, error) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	switch n := a.w.nodes[id]; {
	case a.err != nil:
		return "", a.err
	case a.self != a.leader:
		return "", &NotLeaderError{Leader: a.leader}
	case a.fail > 0:
		a.fail--
		return "", errors.New("no majority")
	case !n.known || n.identity.Phase != PhaseJoining:
		a.w.t.Errorf("admitted before the identity was on disk: %+v", n.identity)
	}
	a.added = append(a.added, id+"="+addr)
	return a.w.bootstraps[0], nil
}

func (a *admitter) all() []string {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	return slices.Clone(a.added)
}

// running returns a world whose n1 to n3 run, and a fresh n4 that joins at n2; n1 leads.
func running(t *testing.T) (*world, *simNode, map[string]*admitter) {
	w := newWorld(t, "n1", "n2", "n3")
	admitters := make(map[string]*admitter)
	for _, p := range w.servers {
		a := &admitter{w: w, leader: "n1:1", self: p.Address}
		admitters[p.ID] = a
		w.nodes[p.ID].startWith(a)
	}
	w.settle()
	w.replicate()
	n4 := &simNode{w: w, id: "n4", addr: "n4:1", join: "n2:1"}
	w.nodes["n4"] = n4
	return w, n4, admitters
}

func TestJoin(t *testing.T) {
	for _, tc := range []struct {
		name    string
		prepare func(*world, *simNode, map[string]*admitter)
		refused string
		added   int
	}{
		{"through a follower", func(*world, *simNode, map[string]*admitter) {}, "", 1},
		{"after some tries", func(_ *world, _ *simNode, as map[string]*admitter) { as["n1"].fail = 3 }, "", 1},
		{"the answer is lost", func(w *world, _ *simNode, _ map[string]*admitter) {
			lost := false
			w.net.SetHook(func(m memnet.Message) memnet.Fault {
				w.mu.Lock()
				defer w.mu.Unlock()
				if m.Path == PathJoin && m.To == "n1" && !lost {
					lost = true
					return memnet.Fault{LoseReplies: true}
				}
				return memnet.Fault{}
			})
		}, "", 2},
		{"named like a member", func(w *world, n *simNode, _ map[string]*admitter) {
			w.nodes["n3"].kill()
			w.nodes["n3"].wg.Wait()
			n.id = "n3"
			delete(w.nodes, "n3")
		}, "has a member n3 already", 0},
		{"named like the node asked", func(w *world, n *simNode, _ map[string]*admitter) { n.id = "n2" }, "give this one another --node-id", 0},
		{"a member's address", func(w *world, n *simNode, _ map[string]*admitter) {
			w.nodes["n3"].kill()
			w.nodes["n3"].wg.Wait()
			n.addr = "n3:1"
			delete(w.nodes, "n3")
		}, "has node n3 at this node's address", 0},
		{"refused by the leader", func(_ *world, _ *simNode, as map[string]*admitter) {
			as["n1"].err = fmt.Errorf("n4 is a voter: %w", ErrMember)
		}, "does not add this node: n4 is a voter: already a member", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, n4, admitters := running(t)
				defer w.stop()
				defer func() { n4.kill(); n4.wg.Wait() }()
				tc.prepare(w, n4, admitters)
				n4.start()
				time.Sleep(time.Minute)
				if line := n4.refusal(); tc.refused != "" && !strings.Contains(line, tc.refused) {
					t.Errorf("%s, want %q", n4.state(), tc.refused)
				}
				if d, err := n4.result(); tc.refused == "" && (err != nil || d == nil || d.Bootstrap || d.ClusterID != w.cluster()) {
					t.Errorf("%s\n%s", n4.state(), w.lines())
				}
				if got := admitters["n1"].all(); len(got) != tc.added || tc.added > 0 && got[0] != "n4=n4:1" {
					t.Errorf("the leader added %q, want %d times", got, tc.added)
				}
			})
		})
	}
}

// A crash at each durable step of a join: it goes on with the same identity.
func TestJoinWithACrash(t *testing.T) {
	for _, before := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, n4, admitters := running(t)
			defer w.stop()
			_, _, steps := w.facts()
			w.mu.Lock()
			w.crashAt, w.before = steps+1, before
			w.mu.Unlock()
			n4.start()
			w.settle()
			if d, err := n4.result(); err != nil || d == nil || d.ClusterID != w.cluster() {
				t.Errorf("before=%t: %s", before, n4.state())
			}
			if len(admitters["n1"].all()) != 1 {
				t.Errorf("before=%t: added %q", before, admitters["n1"].all())
			}
		})
	}
}

func TestJoinWaitsForACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "n1", "n2", "n3")
		defer w.stop()
		n4 := &simNode{w: w, id: "n4", addr: "n4:1", join: "n2:1"}
		w.nodes["n4"] = n4
		n4.start()
		w.nodes["n2"].start()
		time.Sleep(25 * time.Second)
		if d, err := n4.result(); d != nil || err != nil {
			t.Fatalf("%s", n4.state())
		}
		if !strings.Contains(w.lines(), "it has no running cluster yet") {
			t.Errorf("it does not say what it waits for:\n%s", w.lines())
		}
	})
}

// A node is only added once it was reached, under its name, where it says it is.
func TestJoinFromAWrongAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n4, admitters := running(t)
		defer w.stop()
		n4.start()
		time.Sleep(time.Second)
		for _, call := range []joinRequest{
			{"n5", "n5:1", w.cluster()},
			{"n5", "n3:1", w.cluster()},
			{"n5", "n4:1", w.cluster()},
			{"n4", "n4:1", "another cluster"},
		} {
			if err := n4.f.ask(t.Context(), "n1:1", PathJoin, call, new(joinAnswer)); err == nil {
				t.Errorf("%+v was taken", call)
			}
		}
		if got := admitters["n1"].all(); len(got) != 1 {
			t.Errorf("added %q", got)
		}
	})
}
