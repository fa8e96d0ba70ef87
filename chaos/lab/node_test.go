//go:build linux

package lab

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"onced"
)

// ended is a process that has ended.
type ended struct{ done chan struct{} }

func (e ended) Done() <-chan struct{}       { return e.done }
func (e ended) Err() error                  { return errors.New("exit status 1") }
func (e ended) Signal(syscall.Signal) error { return errors.New("it has ended") }
func (e ended) Kill()                       {}
func (e ended) Stop(time.Duration) error    { return nil }

func endedNode() *Node {
	e := ended{make(chan struct{})}
	close(e.done)
	return &Node{cluster: &Cluster{}, ID: "n1", process: e}
}

// TestOwnEnd: only the end of a node that nobody harmed is its own.
func TestOwnEnd(t *testing.T) {
	if end := endedNode().ownEnd(); !strings.Contains(end, "n1 has ended by itself: exit status 1") {
		t.Errorf("of its own: %q", end)
	}
	for name, harm := range map[string]func(*Node){
		"harmed": (*Node).Harm, "killed": (*Node).Kill, "stopped": func(n *Node) { n.Stop() }, "damaged": func(n *Node) { n.damaged = true },
	} {
		n := endedNode()
		harm(n)
		if end := n.ownEnd(); end != "" {
			t.Errorf("%s: %q", name, end)
		}
		if want := name == "killed" || name == "stopped"; n.Struck() != want {
			t.Errorf("%s: struck %v, expected %v", name, n.Struck(), want)
		}
	}
}

// TestReadyStartsAgain what a fault ended after it was healed, and nothing that ended by itself.
func TestReadyStartsAgain(t *testing.T) {
	for _, harmed := range []bool{true, false} {
		n, dir := endedNode(), t.TempDir()
		n.ctl, n.Log = filepath.Join(dir, "n1"), filepath.Join(dir, "n1.log")
		n.cluster.Binary, n.cluster.Dir, n.cluster.http = "/bin/false", dir, newCaller()
		n.cluster.nodes = [seats]*Node{n, n, n}
		if harmed {
			n.Harm()
		}
		if err := n.cluster.Ready(t.Context(), 10*time.Millisecond); err == nil {
			t.Error("it is ready")
		}
		if started := n.Lives() > 0; started != harmed {
			t.Errorf("harmed %v: started again %v", harmed, started)
		}
	}
}

// TestVoters: a member that came a moment ago does not vote yet.
func TestVoters(t *testing.T) {
	nodes := []*Node{{ID: "n1"}, {ID: "n3"}, {ID: "n4"}}
	members := []onced.Member{{ID: "n1", Voter: true}, {ID: "n3", Voter: true}, {ID: "n4"}}
	if err := voters(onced.ClusterStatus{Members: members}, nodes); err == nil || err.Error() != "n4 is no voter" {
		t.Errorf("%v", err)
	}
	members[2].Voter = true
	if err := voters(onced.ClusterStatus{Members: members}, nodes); err != nil {
		t.Error(err)
	}
	if err := voters(onced.ClusterStatus{Members: members[:2]}, nodes); err == nil {
		t.Error("one that is no member votes")
	}
}
