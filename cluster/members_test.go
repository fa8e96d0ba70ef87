package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"onced"
	"onced/cluster"
)

// newcomer lays out one more node, which joins through the node at via.
func (h *harness) newcomer(id string, via int) (i int) {
	i = len(h.nodes)
	join := h.peers[via].Address
	h.peers = append(h.peers, cluster.Peer{ID: id, Address: freeAddr(h.t)})
	h.dirs = append(h.dirs, filepath.Join(h.t.TempDir(), id))
	h.nodes = append(h.nodes, nil)
	tune := h.tune
	h.tune = func(j int, c *cluster.Config) {
		if tune != nil {
			tune(j, c)
		}
		if j == i {
			c.Peers, c.Join = nil, join
		}
	}
	return i
}

// voters are the ids of those that vote, as node i sees it.
func (h *harness) voters(i int) string {
	var ids []string
	for _, m := range h.nodes[i].Status().Members {
		if m.Voter {
			ids = append(ids, m.ID)
		}
	}
	return strings.Join(ids, ",")
}

func (h *harness) waitVoters(i int, want string) {
	h.t.Helper()
	eventually(h.t, "the voters are "+want, func() error {
		if got := h.voters(i); got != want {
			return fmt.Errorf("they are %s", got)
		}
		return nil
	})
}

// waitRemoved waits until node i has ended since it was removed, and looks at why it did.
func (h *harness) waitRemoved(i int) {
	h.t.Helper()
	select {
	case <-h.nodes[i].Done():
	case <-time.After(20 * time.Second):
		h.t.Fatalf("%s does not notice that it was removed", h.peers[i].ID)
	}
	if err := h.nodes[i].Err(); !cluster.Refused(err) || !strings.Contains(err.Error(), "was removed from cluster") {
		h.t.Errorf("it ended with: %v", err)
	}
	h.stop(i)
}

// load writes through the nodes that are up until stop is called, and keeps what was acknowledged.
type load struct {
	h       *harness
	ended   chan struct{}
	writers sync.WaitGroup
	mu      sync.Mutex
	nodes   []*cluster.Node
	written map[string]onced.Token
	largest onced.Token
}

func (h *harness) load(writers int) *load {
	l := &load{h: h, ended: make(chan struct{}), written: map[string]onced.Token{}}
	l.use(h.nodes...)
	for w := range writers {
		l.writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-l.ended:
					return
				default:
					l.pair(fmt.Sprintf("load-%d-%d", w, i), i)
				}
			}
		})
	}
	return l
}

// use says which nodes are to be written through.
func (l *load) use(nodes ...*cluster.Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes = nil
	for _, n := range nodes {
		if n != nil {
			l.nodes = append(l.nodes, n)
		}
	}
}

func (l *load) node(i int) *cluster.Node {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nodes[i%len(l.nodes)]
}

// pair reserves and completes one key, on the next node whenever one cannot decide.
func (l *load) pair(key string, first int) {
	ctx := context.Background()
	var token onced.Token
	for i := first; ; i++ {
		got, err := l.node(i).Reserve(ctx, onced.ReserveRequest{ID: id(key), Fingerprint: "f", Owner: key})
		if err == nil {
			token = got.Record.Token
			break
		}
		if onced.CodeOf(err) != onced.CodeUnavailable {
			l.h.t.Errorf("reserving %s: %v", key, err)
			return
		}
	}
	for i := first; ; i++ {
		_, err := l.node(i).Complete(ctx, onced.CompleteRequest{ID: id(key), Token: token, Response: answer(key)})
		if err == nil {
			break
		}
		if onced.CodeOf(err) != onced.CodeUnavailable {
			l.h.t.Errorf("completing %s: %v", key, err)
			return
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written[key] = token
	l.largest = max(l.largest, token)
}

// more waits until some more was written.
func (l *load) more() {
	l.h.t.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.written)
	}
	from := count()
	eventually(l.h.t, "writing goes on", func() error {
		if now := count(); now < from+20 {
			return fmt.Errorf("%d writes more", now-from)
		}
		return nil
	})
}

func (l *load) stop() {
	close(l.ended)
	l.writers.Wait()
}

// check reads everything that was acknowledged from a node.
func (l *load) check(n *cluster.Node) {
	l.h.t.Helper()
	for key, token := range l.written {
		rec, err := n.Get(context.Background(), onced.GetRequest{ID: id(key)})
		if err != nil || rec.Token != token || !rec.Response.Equal(answer(key)) {
			l.h.t.Fatalf("%s has token %d: %+v, %v", key, token, rec, err)
		}
	}
}

// TestMembershipUnderLoad: a fourth node joins and becomes a voter, a follower and then the leader are removed, one by each kind
// of node; nothing acknowledged is lost, the removed nodes end, and their return is refused.
func TestMembershipUnderLoad(t *testing.T) {
	h := start(t, 3, nil)
	ctx := context.Background()
	l := h.load(4)
	l.more()
	added := h.newcomer("n4", h.follower())
	m, err := h.nodes[h.follower()].AddMember(ctx, "n4", h.peers[added].Address)
	if err != nil || m.Voter || m.Role != "learner" {
		t.Fatalf("adding: %+v, %v", m, err)
	}
	h.open(added)
	h.waitVoters(0, "n1,n2,n3,n4")
	if m, err := h.nodes[0].AddMember(ctx, "n4", h.peers[added].Address); err != nil || !m.Voter {
		t.Errorf("adding it again: %+v, %v", m, err)
	}
	l.more()

	follower := h.follower()
	if follower == added {
		follower = (added + 1) % 3
	}
	if err := h.nodes[added].RemoveMember(ctx, h.peers[follower].ID, false); err != nil {
		t.Fatalf("removing a follower: %v", err)
	}
	l.use(without(h.nodes, follower)...)
	h.waitRemoved(follower)
	l.more()

	leader := h.leader()
	if err := h.nodes[leader].RemoveMember(ctx, h.peers[leader].ID, false); err != nil {
		t.Fatalf("removing the leader, by itself: %v", err)
	}
	l.use(without(h.nodes, leader)...)
	h.waitRemoved(leader)
	l.more()
	l.stop()

	h.sameTables()
	l.check(h.nodes[added])
	if got := h.voters(added); strings.Contains(got, h.peers[follower].ID) || strings.Contains(got, h.peers[leader].ID) || len(got) != len("n1,n2") {
		t.Errorf("the voters are %s", got)
	}
	for _, i := range []int{follower, leader} {
		h.open(i)
		h.waitRemoved(i)
	}
	// A node that stayed comes back with the list of peers of the first day.
	stayed := 0 + 1 + 2 - follower - leader
	h.stop(stayed)
	h.open(stayed)
	h.ready()
	write(t, h.nodes[stayed], "after")
}

func without(nodes []*cluster.Node, i int) []*cluster.Node {
	rest := append([]*cluster.Node(nil), nodes...)
	rest[i] = nil
	return rest
}

// TestRemovedWhileAway: a node that was down when it was removed learns of it when it is started, though its own log says
// that it votes, and disturbs nobody meanwhile.
func TestRemovedWhileAway(t *testing.T) {
	h := start(t, 3, nil)
	leader, away := h.leader(), h.follower()
	h.stop(away)
	if err := h.nodes[leader].RemoveMember(context.Background(), h.peers[away].ID, false); err != nil {
		t.Fatal(err)
	}
	term := h.nodes[leader].Status().Term
	h.open(away)
	h.waitRemoved(away)
	write(t, h.nodes[leader], "k")
	if got := h.nodes[leader].Status().Term; got != term {
		t.Errorf("the term went from %d to %d", term, got)
	}
	h.open(away)
	h.waitRemoved(away)
}

// TestRefusedChanges: what would harm the cluster, or names nobody, is refused and changes nothing.
func TestRefusedChanges(t *testing.T) {
	h := start(t, 3, nil)
	leader := h.leader()
	a, b := (leader+1)%3, (leader+2)%3
	before := h.nodes[leader].Status().Members
	add := func(id, addr string) error { _, err := h.nodes[a].AddMember(t.Context(), id, addr); return err }
	remove := func(id string) error { return h.nodes[a].RemoveMember(t.Context(), id, false) }
	refused := func(name string, status int, err error, texts ...string) {
		t.Helper()
		var r *onced.MembershipRefusal
		if !errors.As(err, &r) || r.Status != status {
			t.Errorf("%s: expected status %d: %v", name, status, err)
			return
		}
		for _, text := range texts {
			if !strings.Contains(r.Detail, text) {
				t.Errorf("%s: it does not say %q: %s", name, text, r.Detail)
			}
		}
	}
	refused("unknown", http.StatusNotFound, remove("n9"), "n9", "no member")
	refused("no id", http.StatusBadRequest, add("", "127.0.0.1:1"), "empty")
	refused("no port", http.StatusBadRequest, add("n9", "127.0.0.1"), "host:port")
	refused("moved", http.StatusConflict, add(h.peers[b].ID, "127.0.0.1:1"), h.peers[b].Address)
	refused("taken address", http.StatusConflict, add("n9", h.peers[b].Address), h.peers[b].ID)
	h.stop(b)
	refused("no majority left", http.StatusConflict, remove(h.peers[leader].ID), h.peers[a].ID, "force")
	if now := h.nodes[leader].Status().Members; fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("the membership was %v and is %v", before, now)
	}
	// The one that is down may go: two of two answer.
	if err := remove(h.peers[b].ID); err != nil {
		t.Errorf("removing the one that is down: %v", err)
	}
	if err := remove(h.peers[a].ID); err != nil {
		t.Errorf("removing the one before the last: %v", err)
	}
	err := h.nodes[leader].RemoveMember(t.Context(), h.peers[leader].ID, true)
	refused("last voter", http.StatusConflict, err, "last voter")
}

// TestWipedVoterIsRefused: a node that has become a voter may not join again with an empty directory under its id; as a learner that
// was added beforehand it might (see TestMembershipUnderLoad).
func TestWipedVoterIsRefused(t *testing.T) {
	h := start(t, 1, nil)
	added := h.newcomer("n2", 0)
	h.open(added)
	h.waitVoters(0, "n1,n2")
	h.stop(added)
	h.dirs[added] = t.TempDir()
	h.open(added)
	select {
	case <-h.nodes[added].Done():
	case <-time.After(20 * time.Second):
		t.Fatal("a wiped voter is not refused")
	}
	if err := h.nodes[added].Err(); !cluster.Refused(err) || !strings.Contains(err.Error(), "was wiped") {
		t.Errorf("it ended with: %v", err)
	}
}
