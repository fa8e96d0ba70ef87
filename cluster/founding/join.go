package founding

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"onced/cluster/peer"
)

// Admitter adds a learner to the cluster. It is called for a node that answers at
// addr, has the cluster's id on disk and no raft state.
//
// A learner of the same id and address is there already when an earlier answer was
// lost, or when an operator has added it beforehand: that is a success. Errors: *NotLeaderError, ErrMember, anything else = try again later.
type Admitter interface {
	Admit(ctx context.Context, id, addr string) (clusterID string, err error)
}

// ErrMember is wrapped by Admit when the id is a voter, or a learner at another
// address, or when the address is another member's: asking again changes nothing.
var ErrMember = errors.New("already a member")

// NotLeaderError is returned by Admit on a node that does not lead.
type NotLeaderError struct{ Leader string } // its address, "" when not known

// Error says who leads.
func (e *NotLeaderError) Error() string { return "not the leader; that is " + e.Leader }

// admitTimeout bounds one request to be added: a change of the configuration has to commit.
const admitTimeout = 15 * time.Second

// join is an empty node's way into a running cluster.
func (f *Founding) join(ctx context.Context) (Decision, error) {
	pace := f.pacer("asking to join a cluster")
	for {
		wait := ""
		h, err := f.helloWithin(ctx, f.cfg.Join)
		switch {
		case err != nil:
			wait = f.cfg.Join + ": " + err.Error()
		case h.NodeID == f.cfg.NodeID:
			return Decision{}, refusef("the node at %s (--join) is named %s, as this one is: give this one another --node-id", f.cfg.Join, h.NodeID)
		case h.empty() || len(h.Members) == 0:
			wait = "node " + h.NodeID + " at " + f.cfg.Join + ": it has no running cluster yet"
		case listed(h.Members, f.cfg.NodeID) && !f.awaited(h.Members):
			return Decision{}, refuseWiped(f.cfg.NodeID, h)
		default:
			return f.enter(ctx, h)
		}
		if err := pace.wait(ctx, wait); err != nil {
			return Decision{}, err
		}
	}
}

// awaited tells whether an operator has added this node beforehand: as a learner, which has never voted.
func (f *Founding) awaited(members []Member) bool {
	return slices.Contains(members, Member{ID: f.cfg.NodeID, Address: f.cfg.Addr})
}

// enter takes on the cluster's identity, durably before its leader is asked for anything.
func (f *Founding) enter(ctx context.Context, h Hello) (Decision, error) {
	if i := slices.IndexFunc(h.Members, func(m Member) bool { return m.Address == f.cfg.Addr && m.ID != f.cfg.NodeID }); i >= 0 {
		return Decision{}, refusef("cluster %s has node %s at this node's address %s: remove that member first", h.ClusterID, h.Members[i].ID, f.cfg.Addr)
	}
	f.writing.Lock()
	err := f.write(Identity{ClusterID: h.ClusterID, NodeID: f.cfg.NodeID, Phase: PhaseJoining})
	f.writing.Unlock()
	if err != nil {
		return Decision{}, err
	}
	return f.askIn(ctx, h.ClusterID)
}

// askIn asks to be added as a learner until it is done or refused, following the word
// of who leads once a round.
func (f *Founding) askIn(ctx context.Context, cluster string) (Decision, error) {
	pace := f.pacer("asking to be added to cluster " + cluster)
	for {
		leader, err := f.askOne(ctx, f.cfg.Join, cluster)
		if leader != "" && leader != f.cfg.Join {
			_, err = f.askOne(ctx, leader, cluster)
		}
		var refused *RefusedError
		if err == nil {
			return Decision{ClusterID: cluster}, nil
		}
		if errors.As(err, &refused) {
			return Decision{}, refused
		}
		if err := pace.wait(ctx, err.Error()); err != nil {
			return Decision{}, err
		}
	}
}

// askOne asks one node. leader is whom to ask instead, where the node said so.
func (f *Founding) askOne(ctx context.Context, addr, cluster string) (leader string, err error) {
	ctx, cancel := context.WithTimeout(ctx, admitTimeout)
	defer cancel()
	var answer joinAnswer
	err = f.ask(ctx, addr, PathJoin, joinRequest{NodeID: f.cfg.NodeID, Address: f.cfg.Addr, ClusterID: cluster}, &answer)
	var status *peer.StatusError
	switch {
	case err == nil && answer.ClusterID != cluster:
		return "", refusef("this data directory belongs to cluster %s, but the node at %s to cluster %s", cluster, addr, answer.ClusterID)
	case err == nil:
		return "", nil
	case !errors.As(err, &status):
		return "", err
	case status.Code == http.StatusConflict:
		return "", refusef("the node at %s does not add this node: %s", addr, strings.TrimSpace(string(status.Body)))
	case status.Code == http.StatusMisdirectedRequest && json.Unmarshal(status.Body, &answer) == nil:
		return answer.Leader, err
	}
	return "", err
}

// helloWithin is Hello with its usual bound.
func (f *Founding) helloWithin(ctx context.Context, addr string) (Hello, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	return f.Hello(ctx, addr)
}
