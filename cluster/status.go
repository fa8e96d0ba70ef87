package cluster

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/raft"

	"onced"
)

// configuration is the membership as raft knows it; nil before there is a cluster.
func configuration(r *raft.Raft) []raft.Server {
	if r == nil {
		return nil
	}
	future := r.GetConfiguration()
	if future.Error() != nil {
		return nil
	}
	return future.Configuration().Servers
}

// refreshMembers keeps the list of members, and tells the port whom to expect where.
func (n *Node) refreshMembers(r *raft.Raft) {
	n.refreshing.Lock() // or an older list could come after a newer one
	defer n.refreshing.Unlock()
	servers := configuration(r)
	members := make([]onced.Member, 0, len(servers))
	byAddr := make(map[string]string, len(servers))
	for _, s := range servers {
		members = append(members, onced.Member{ID: string(s.ID), Address: string(s.Address), Voter: s.Suffrage == raft.Voter})
		byAddr[string(s.Address)] = string(s.ID)
	}
	if old := n.members.Swap(&members); old != nil && equalMembers(*old, members) {
		return
	}
	n.link.SetMembers(byAddr)
}

func equalMembers(a, b []onced.Member) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// memberList is the present membership; empty before there is a cluster.
func (n *Node) memberList() []onced.Member {
	if members := n.members.Load(); members != nil {
		return *members
	}
	return nil
}

// others are the other members, only the voters if asked.
func (n *Node) others(votersOnly bool) []onced.Member {
	var others []onced.Member
	for _, m := range n.memberList() {
		if m.ID != n.cfg.NodeID && (m.Voter || !votersOnly) {
			others = append(others, m)
		}
	}
	return others
}

// voters is how many voters there are.
func (n *Node) voters() int {
	voters := 0
	for _, m := range n.memberList() {
		if m.Voter {
			voters++
		}
	}
	return voters
}

// Status is what GET /v1/cluster answers.
func (n *Node) Status() onced.ClusterStatus {
	identity, _ := n.dir.Identity()
	s := onced.ClusterStatus{
		ClusterID: identity.ClusterID, NodeID: n.cfg.NodeID, Role: "starting", Members: []onced.Member{},
		AppliedIndex: n.progress.index.Load(), LastSnapshotIndex: n.dir.Snapshots().LastIndex(),
	}
	r := n.raft.Load()
	if r == nil {
		return s
	}
	_, leader := r.LeaderWithID()
	s.Leader, s.Term, s.CommitIndex = string(leader), r.CurrentTerm(), r.CommitIndex()
	for _, m := range n.memberList() {
		m.Role = memberRole(m, s.Leader)
		if m.ID == n.cfg.NodeID {
			s.Role = m.Role
		}
		s.Members = append(s.Members, m)
	}
	if state := r.State(); state == raft.Candidate {
		s.Role = strings.ToLower(state.String())
	}
	return s
}

func memberRole(m onced.Member, leader string) string {
	switch {
	case !m.Voter:
		return "learner"
	case m.ID == leader:
		return "leader"
	}
	return "follower"
}

// Ready tells why this node cannot serve everything yet: nil once it has a leader and has caught up
// with it, while its disk has room. It does not ask anybody.
func (n *Node) Ready() error {
	if err := n.broken(); err != nil {
		return fmt.Errorf("this node has stopped: %w", err)
	}
	if n.closing.Load() {
		return errors.New("this node is shutting down")
	}
	if n.raft.Load() == nil {
		return errors.New("this node is still finding its cluster")
	}
	if route, _ := n.route.Get(); !route.Known {
		return errors.New("no leader is known")
	}
	if !n.caughtUp.Load() {
		return errors.New("this node is catching up with the leader")
	}
	if low := n.low.Load(); low != nil {
		return errLow(*low, n.cfg.DataDir)
	}
	return nil
}
