package founding

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"onced/cluster/peer/memnet"
)

// world is three (or more) nodes with disks that outlive them, and the one record of
// what must never happen.
type world struct {
	t       *testing.T
	net     *memnet.Network
	servers []Peer

	mu         sync.Mutex
	steps      int             // durable steps so far
	crashAt    int             // the step at which its node crashes; 0 = never
	before     bool            // right before the step instead of right after
	wipe       bool            // and loses its directory
	ids        map[string]bool // every cluster id that was ever on a disk
	bootstraps []string        // every bootstrap, by cluster id
	bootTime   time.Time       // of the first bootstrap
	nodes      map[string]*simNode
	log        bytes.Buffer
}

// simNode is one node: a disk, and a process that may be running.
type simNode struct {
	w    *world
	id   string
	addr string
	join string
	list []Peer

	// The disk; guarded by w.mu.
	identity  Identity
	known     bool
	members   []Member  // of its raft log; none = no raft state
	lifeStart time.Time // of the process that runs or ran last

	// The process; guarded by w.mu.
	link    *memnet.Node
	cancel  context.CancelFunc
	crashed bool
	err     error // how its Run ended
	decided *Decision
	f       *Founding
	wg      sync.WaitGroup
}

var errCrash = errors.New("crash")

func newWorld(t *testing.T, ids ...string) *world {
	w := &world{t: t, net: memnet.New(), ids: make(map[string]bool), nodes: make(map[string]*simNode)}
	for _, id := range ids {
		w.servers = append(w.servers, Peer{id, id + ":1"})
	}
	for _, p := range w.servers {
		w.nodes[p.ID] = &simNode{w: w, id: p.ID, addr: p.Address, list: w.servers}
	}
	return w
}

// stop ends every process.
func (w *world) stop() {
	for _, n := range w.nodes {
		n.kill()
		n.wg.Wait()
	}
	w.net.Close()
}

// step counts one durable step of n, which persist does, and crashes n there if asked to.
func (n *simNode) step(link *memnet.Node, persist func()) error {
	w := n.w
	w.mu.Lock()
	if n.crashed || n.link != link { // a process that was killed writes nothing more
		w.mu.Unlock()
		return errCrash
	}
	w.steps++
	crash := w.steps == w.crashAt
	if !crash || !w.before {
		persist()
	}
	if crash {
		n.crashed = true
		if w.wipe {
			n.identity, n.known, n.members = Identity{}, false, nil
		}
	}
	w.mu.Unlock()
	if !crash {
		return nil
	}
	go n.kill()
	<-link.Closed() // before any answer is given
	return errCrash
}

// process is the Storage of one process of a node.
type process struct {
	*simNode
	link *memnet.Node
}

// Identity implements Storage.
func (n *simNode) Identity() (Identity, bool) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return n.identity, n.known
}

// SetIdentity implements Storage, and checks what must always hold.
func (p process) SetIdentity(id Identity) error {
	n := p.simNode
	return n.step(p.link, func() {
		w := n.w
		w.ids[id.ClusterID] = true
		if !n.known && id.Phase == PhaseInvited && len(w.bootstraps) > 0 && n.lifeStart.After(w.bootTime) {
			w.t.Errorf("node %s came in under an id that may have voted: the cluster was bootstrapped before this process began", n.id)
		}
		n.identity, n.known = id, true
	})
}

func (n *simNode) hasState() bool { return len(n.raftMembers()) > 0 }

func (n *simNode) raftMembers() []Member {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return n.members
}

// bootstrap is what the caller of Run does with raft.
func (n *simNode) bootstrap(link *memnet.Node, d Decision) error {
	return n.step(link, func() {
		w := n.w
		if len(w.bootstraps) == 0 {
			w.bootTime = time.Now()
		}
		w.bootstraps = append(w.bootstraps, d.ClusterID)
		for _, p := range d.Servers {
			other := w.nodes[p.ID]
			if !w.wipe && (!other.known || other.identity.ClusterID != d.ClusterID) {
				w.t.Errorf("bootstrapped before node %s had the id on disk", p.ID)
			}
			n.members = append(n.members, Member{p.ID, p.Address, true})
		}
	})
}

// start runs the node's process.
func (n *simNode) start() {
	n.startWith(nil)
}

func (n *simNode) startWith(admit Admitter) {
	w := n.w
	link, err := w.net.Join(n.id, n.addr, nil)
	if err != nil {
		w.t.Error(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.mu.Lock()
	n.link, n.cancel, n.crashed, n.err, n.decided, n.lifeStart = link, cancel, false, nil, nil, time.Now()
	w.mu.Unlock()
	f, err := New(Config{NodeID: n.id, Addr: n.addr, Peers: n.list, Join: n.join, Storage: process{n, link}, Caller: link, HasState: n.hasState,
		Members: n.raftMembers, Admitter: admit, Logger: slog.New(slog.NewTextHandler(w, nil)).With("node", n.id)})
	if err != nil {
		w.mu.Lock()
		n.err = err
		w.mu.Unlock()
		return
	}
	n.f = f
	f.Register(link)
	n.wg.Go(func() {
		err := n.run(ctx, f, link)
		w.mu.Lock()
		n.err = err
		w.mu.Unlock()
	})
}

// run is what a node does with its decision.
func (n *simNode) run(ctx context.Context, f *Founding, link *memnet.Node) error {
	d, err := f.Run(ctx)
	if err != nil {
		return err
	}
	link.SetClusterID(d.ClusterID)
	if d.Bootstrap {
		if err := n.bootstrap(link, d); err != nil {
			return err
		}
		if err := f.Settle(); err != nil {
			return err
		}
	}
	n.w.mu.Lock()
	n.decided = &d
	n.w.mu.Unlock()
	return nil
}

// kill ends the process at once, like SIGKILL: nothing more is written.
func (n *simNode) kill() {
	n.w.mu.Lock()
	n.crashed = true
	link, cancel := n.link, n.cancel
	n.w.mu.Unlock()
	if link == nil {
		return
	}
	cancel()
	link.Close()
}

// down tells whether the process crashed; its err is then of no interest.
func (n *simNode) down() bool {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return n.crashed
}

func (n *simNode) result() (*Decision, error) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return n.decided, n.err
}

// settle waits up to a virtual minute, restarting who crashed, until every node has
// decided or was refused.
func (w *world) settle() {
	for range 600 {
		time.Sleep(100 * time.Millisecond)
		done := true
		for _, n := range w.nodes {
			if n.down() {
				n.wg.Wait()
				n.start()
			}
			d, err := n.result()
			done = done && (d != nil || err != nil)
		}
		if done {
			return
		}
	}
}

// Write takes the log.
func (w *world) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(b)
}

// lines returns the log.
func (w *world) lines() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

// facts returns how many ids were made, every bootstrap, and the durable steps.
func (w *world) facts() (ids int, bootstraps []string, steps int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ids), slices.Clone(w.bootstraps), w.steps
}

// cluster returns the id of the cluster that was bootstrapped.
func (w *world) cluster() string {
	w.t.Helper()
	_, b, _ := w.facts()
	if len(b) == 0 {
		w.t.Fatalf("not founded:\n%s", w.lines())
	}
	return b[0]
}

// wipeDisk ends the node's process and empties its directory.
func (n *simNode) wipeDisk() {
	n.kill()
	n.wg.Wait()
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.identity, n.known, n.members = Identity{}, false, nil
}

// refusal returns the line that a node was refused with, "" when it was not.
func (n *simNode) refusal() string {
	_, err := n.result()
	var refused *RefusedError
	if errors.As(err, &refused) {
		return refused.Line
	}
	return ""
}

// state says in a word where a node is, for messages.
func (n *simNode) state() string {
	d, err := n.result()
	id, _ := n.Identity()
	return fmt.Sprintf("%s: decision %+v, error %v, identity %+v", n.id, d, err, id)
}
