package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"onced"
	"onced/cluster/founding"
	"onced/cluster/peer"
	"onced/cluster/propose"
)

// Changes of the membership, on the leader. They are made one at a time, and each looks at the membership only
// when it is its turn: a learner that was removed while it was found to have caught up is not made a voter.

// reachWithin is how long a voter has to answer before a removal counts it as not there.
const reachWithin = time.Second

// inTurn runs change once every change before it is decided. It returns early, with ctx's error, when ctx ends: the change
// then goes on, and holds its turn until raft has decided it.
func (n *Node) inTurn(ctx context.Context, change func(r *raft.Raft) error) error {
	select {
	case n.changes <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-n.ctx.Done():
		return propose.ErrClosed
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-n.changes }()
		r := n.raft.Load()
		if r == nil || !n.leadsNow(r) {
			done <- propose.ErrNoLeader
			return
		}
		n.refreshMembers(r)
		err := change(r)
		n.refreshMembers(r)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leadsNow tells whether this node has taken office in the present term: its configuration is then committed but for a
// change of its own.
func (n *Node) leadsNow(r *raft.Raft) bool {
	term := n.ledTerm.Load()
	return term != 0 && term == r.CurrentTerm()
}

// member returns the member of that id.
func (n *Node) member(id string) (onced.Member, bool) {
	for _, m := range n.memberList() {
		if m.ID == id {
			return m, true
		}
	}
	return onced.Member{}, false
}

// checkMember tells what is wrong with an id and an address, before anybody is asked.
func checkMember(id, addr string) error {
	if err := peer.CheckNodeID(id); err != nil {
		return onced.RefuseMembership(http.StatusBadRequest, "%v", err)
	}
	if err := peer.CheckAddr(addr); err != nil {
		return onced.RefuseMembership(http.StatusBadRequest, "%v", err)
	}
	return nil
}

// addLearner makes a node a learner; it becomes a voter once it has caught up. One that is a member at
// that address already stays what it is.
func (n *Node) addLearner(ctx context.Context, id, addr string) (onced.Member, error) {
	if err := checkMember(id, addr); err != nil {
		return onced.Member{}, err
	}
	var added onced.Member // written before inTurn returns nil, or read by nobody
	err := n.inTurn(ctx, func(r *raft.Raft) error {
		for _, m := range n.memberList() {
			switch {
			case m.ID == id && m.Address == addr:
				added = m
				return nil
			case m.ID == id:
				return onced.RefuseMembership(http.StatusConflict, "node %s is a member already, at %s: remove it first", id, m.Address)
			case m.Address == addr:
				return onced.RefuseMembership(http.StatusConflict, "the address %s is that of the member %s: remove it first", addr, m.ID)
			}
		}
		if err := r.AddNonvoter(raft.ServerID(id), raft.ServerAddress(addr), 0, membershipWait).Error(); err != nil {
			return fmt.Errorf("adding %s as a learner: %w", id, err)
		}
		n.log.Info("added a learner", "member", id, "address", addr)
		added = onced.Member{ID: id, Address: addr}
		return nil
	})
	if err != nil {
		return onced.Member{}, err
	}
	added.Role = memberRole(added, n.cfg.NodeID)
	return added, nil
}

// Admit is part of founding.Admitter: it adds a node that asks by itself. An id or an address that is a
// member's already is refused, but for a learner's whose earlier answer was lost or that an operator has added
// beforehand: it never voted. Any other that comes with an empty directory has lost its data, and must not vote
// under a name that has voted.
func (n *Node) Admit(ctx context.Context, id, addr string) (string, error) {
	route, _ := n.route.Get()
	if !route.Self {
		return "", &founding.NotLeaderError{Leader: route.Addr}
	}
	m, err := n.addLearner(ctx, id, addr)
	var refused *onced.MembershipRefusal
	switch {
	case errors.As(err, &refused):
		return "", fmt.Errorf("%w: %w", founding.ErrMember, err)
	case err != nil:
		return "", err
	case m.Voter:
		return "", fmt.Errorf("node %s at %s votes: %w", m.ID, m.Address, founding.ErrMember)
	}
	identity, _ := n.dir.Identity()
	return identity.ClusterID, nil
}

// removeMember takes a node out of the cluster. A leader that takes itself out steps down once a majority of the
// others has it on disk, and they elect: its leadership is not handed over before, as the change may still fail
// and a leader may not serve again after a transfer (raft#696).
func (n *Node) removeMember(ctx context.Context, id string, force bool) error {
	return n.inTurn(ctx, func(r *raft.Raft) error {
		m, ok := n.member(id)
		if !ok {
			return onced.RefuseMembership(http.StatusNotFound, "node %.64q is no member of this cluster", id)
		}
		if err := n.checkRemoval(m, force); err != nil {
			return err
		}
		if err := r.RemoveServer(raft.ServerID(id), 0, membershipWait).Error(); err != nil {
			return fmt.Errorf("removing %s: %w", id, err)
		}
		n.log.Info("removed a member", "member", id, "voter", m.Voter, "force", force)
		return nil
	})
}

// checkRemoval refuses a removal after which nothing could be written. The removal itself would not be decided
// either: the voters that remain have to agree to it.
func (n *Node) checkRemoval(m onced.Member, force bool) error {
	if !m.Voter {
		return nil
	}
	var remain []onced.Member
	for _, other := range n.memberList() {
		if other.Voter && other.ID != m.ID {
			remain = append(remain, other)
		}
	}
	if len(remain) == 0 {
		return onced.RefuseMembership(http.StatusConflict, "node %s is the last voter: without it there is no cluster", m.ID)
	}
	if force {
		return nil
	}
	reached := n.reach(remain)
	if need := len(remain)/2 + 1; len(reached) < need {
		return onced.RefuseMembership(http.StatusConflict, "without %s there are %d voters, of which %d answer now (%s); %d must, or nothing could be written any more: "+
			"bring one back first, or add another (force removes it all the same)", m.ID, len(remain), len(reached), orNobody(reached), need)
	}
	return nil
}

// reach returns the ids of those members that answer, this node included.
func (n *Node) reach(members []onced.Member) []string {
	ctx, cancel := context.WithTimeout(n.ctx, reachWithin)
	defer cancel()
	answers := make(chan string, len(members))
	for _, m := range members {
		go func() {
			if m.ID != n.cfg.NodeID {
				if _, err := n.link.Call(ctx, m.Address, pathProgress, nil); err != nil {
					answers <- ""
					return
				}
			}
			answers <- m.ID
		}()
	}
	var reached []string
	for range members {
		if id := <-answers; id != "" {
			reached = append(reached, id)
		}
	}
	return reached
}

func orNobody(ids []string) string {
	if len(ids) == 0 {
		return "nobody"
	}
	slices.Sort(ids)
	return strings.Join(ids, ", ")
}
