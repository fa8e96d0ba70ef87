package cluster

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// A node that was removed may never learn it through its log: the entry may not have reached it, nor that it was
// committed. So whoever misses itself in the configuration, or hears of no leader, asks; only the
// word of a leader that still leads counts.
//
// A raft connection of a node that is no member is not refused at the port: a member that was away for long may
// hear of a new member first from that member, as its leader. raft itself rejects the votes that
// such a node asks for, before it looks at their term.

const (
	membershipEvery = time.Second
	askWithin       = time.Second
)

// membershipAnswer is the answer to pathIsMember.
type membershipAnswer struct {
	Certain bool   `json:"certain"` // by a leader, of a committed configuration
	Member  bool   `json:"member"`  // only where it is certain
	Leader  string `json:"leader"`  // whom to ask instead; "" = not known
}

// isMember tells another node whether it is a member.
func (n *Node) isMember(ctx context.Context, call memberCall) ([]byte, error) {
	var answer membershipAnswer
	route, _ := n.route.Get()
	switch {
	case !route.Known:
	case !route.Self:
		answer.Leader = route.Addr
	default:
		err := n.inTurn(ctx, func(r *raft.Raft) error { // no change of ours is under way
			_, answer.Member = n.member(call.ID)
			return r.VerifyLeader().Error()
		})
		if err != nil {
			return nil, err
		}
		answer.Certain = true
	}
	return json.Marshal(answer)
}

// watchMembership ends the node once it was removed from the cluster.
func (n *Node) watchMembership() {
	every(n.ctx, membershipEvery, func() {
		if n.mayBeRemoved() && n.isRemoved() {
			n.fail(n.founding.Removed())
		}
	})
}

// mayBeRemoved tells whether there is reason to ask.
func (n *Node) mayBeRemoved() bool {
	route, _ := n.route.Get()
	if route.Self {
		return false
	}
	_, listed := n.member(n.cfg.NodeID)
	return !route.Known || !listed
}

// isRemoved asks all who may know at once, and then the leader that they name.
func (n *Node) isRemoved() bool {
	addrs := n.whoMayKnow()
	for range 2 {
		ctx, cancel := context.WithTimeout(n.ctx, askWithin)
		answers := make(chan membershipAnswer, len(addrs))
		for _, addr := range addrs {
			go func() { answers <- n.askMembership(ctx, addr) }()
		}
		asked := len(addrs)
		addrs = nil
		for range asked {
			answer := <-answers
			if answer.Certain {
				cancel()
				return !answer.Member
			}
			if answer.Leader != "" && !slices.Contains(addrs, answer.Leader) {
				addrs = append(addrs, answer.Leader)
			}
		}
		cancel()
	}
	return false
}

func (n *Node) askMembership(ctx context.Context, addr string) (answer membershipAnswer) {
	question, err := json.Marshal(memberCall{ID: n.cfg.NodeID})
	if err != nil {
		return membershipAnswer{}
	}
	body, err := n.link.Call(ctx, addr, pathIsMember, question)
	if err != nil || json.Unmarshal(body, &answer) != nil {
		return membershipAnswer{}
	}
	return answer
}

// whoMayKnow are the addresses of every node that this one has ever been told of.
func (n *Node) whoMayKnow() []string {
	var addrs []string
	add := func(addr string) {
		if addr != "" && addr != n.link.Addr() && !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	for _, m := range n.others(false) {
		add(m.Address)
	}
	for _, p := range n.cfg.Peers {
		add(p.Address)
	}
	add(n.cfg.Join)
	if r := n.raft.Load(); r != nil {
		addr, _ := r.LeaderWithID()
		add(string(addr))
	}
	return addrs
}
