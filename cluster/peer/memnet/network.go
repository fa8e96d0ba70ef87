// Package memnet is the inter-node port in memory, for tests in virtual time
// (testing/synctest): the same interface, the same refusals and the same three
// kinds of errors as a peer.Port, and faults between any two nodes.
//
// Invariants:
//
//   - Time passes only where a Fault asks for it, and only by package time.
//   - A request that is delayed arrives though its caller gave up meanwhile, as it
//     may on a wire. One to a node that was closed in between does not.
//   - Raft's messages go through raft.InmemTransport, one at a time (no pipeline),
//     under the same faults.
package memnet

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"onced/cluster/peer"
)

// Fault is what happens to what one node asks of another. The zero value is a
// healthy network.
type Fault struct {
	Refuse       bool          // nothing is sent: the dial fails
	LoseRequests bool          // sent, and never arrives; the caller waits until it gives up
	LoseReplies  bool          // arrives and is carried out, and its answer is lost
	Delay        time.Duration // before a request arrives
	DelayReplies time.Duration // before its answer does
}

// Message is what a hook is asked about.
type Message struct {
	From, To string // node ids
	Path     string // of a call; Raft for raft's messages
}

// Raft is the Path of raft's messages.
const Raft = "raft"

type pair struct{ from, to string }

// Network carries what the nodes that joined it say to each other.
type Network struct {
	mu     sync.Mutex
	nodes  map[string]*Node // by address; guarded by mu
	faults map[pair]Fault   // guarded by mu
	hook   func(Message) Fault
	under  sync.WaitGroup // deliveries under way
}

// New returns a healthy network without nodes.
func New() *Network {
	return &Network{nodes: make(map[string]*Node), faults: make(map[pair]Fault)}
}

// Join opens a port for nodeID at addr. It is an error when another node has the
// address; after its Close it is free again.
func (n *Network) Join(nodeID, addr string, logger *slog.Logger) (*Node, error) {
	if err := peer.CheckNodeID(nodeID); err != nil {
		return nil, err
	}
	if err := peer.CheckAddr(addr); err != nil {
		return nil, err
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, taken := n.nodes[addr]; taken {
		return nil, fmt.Errorf("cluster address %s is in use", addr)
	}
	node := newNode(n, nodeID, addr, logger)
	n.nodes[addr] = node
	return node, nil
}

// SetFault says what happens from now on to what from asks of to, by their ids.
func (n *Network) SetFault(from, to string, f Fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults[pair{from, to}] = f
}

// Cut makes the two nodes lose whatever they ask of each other, and the answers
// that are under way.
func (n *Network) Cut(a, b string) {
	lost := Fault{LoseRequests: true, LoseReplies: true}
	n.SetFault(a, b, lost)
	n.SetFault(b, a, lost)
}

// Heal takes every fault back; the hook stays.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.faults)
}

// SetHook has f asked about each message when it is sent; what it returns comes on
// top of the faults set. nil takes it back.
func (n *Network) SetHook(f func(Message) Fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hook = f
}

// Close closes every node and waits for what was under way.
func (n *Network) Close() {
	n.mu.Lock()
	nodes := make([]*Node, 0, len(n.nodes))
	for _, node := range n.nodes {
		nodes = append(nodes, node)
	}
	n.mu.Unlock()
	for _, node := range nodes {
		_ = node.Close()
	}
	n.under.Wait()
}

// at returns the node that has the address, or nil.
func (n *Network) at(addr string) *Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nodes[addr]
}

// leave frees the node's address.
func (n *Network) leave(node *Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.nodes[node.addr] == node {
		delete(n.nodes, node.addr)
	}
}

// fault returns what happens to a message.
func (n *Network) fault(m Message) Fault {
	n.mu.Lock()
	f, hook := n.faults[pair{m.From, m.To}], n.hook
	n.mu.Unlock()
	if hook == nil {
		return f
	}
	more := hook(m) // without the lock: it may set faults
	f.Refuse = f.Refuse || more.Refuse
	f.LoseRequests = f.LoseRequests || more.LoseRequests
	f.LoseReplies = f.LoseReplies || more.LoseReplies
	f.Delay += more.Delay
	f.DelayReplies += more.DelayReplies
	return f
}

// losesReplies tells whether the link lost its answers after a request was sent.
func (n *Network) losesReplies(from, to string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.faults[pair{from, to}].LoseReplies
}
