package cluster

import (
	"slices"

	"github.com/hashicorp/raft"

	"onced/cluster/founding"
	"onced/fsm"
	"onced/store"
)

// identities is the data directory's identity as founding keeps it.
type identities struct{ dir *store.Dir }

// Identity is part of founding.Storage.
func (s identities) Identity() (founding.Identity, bool) {
	id, ok := s.dir.Identity()
	return founding.Identity{ClusterID: id.ClusterID, NodeID: id.NodeID, Phase: founding.Phase(id.Phase)}, ok
}

// SetIdentity is part of founding.Storage.
func (s identities) SetIdentity(id founding.Identity) error {
	return s.dir.SetIdentity(store.Identity{ClusterID: id.ClusterID, NodeID: id.NodeID, Phase: string(id.Phase)})
}

// newFounding makes the part of the node that finds its cluster and answers others that look for theirs.
func (n *Node) newFounding() (*founding.Founding, error) {
	return founding.New(founding.Config{
		NodeID: n.cfg.NodeID, Addr: n.link.Addr(), Peers: n.cfg.Peers, Join: n.cfg.Join,
		Storage: identities{n.dir}, Caller: n.link, HasState: n.hasState, Members: n.foundingMembers, Admitter: n,
		Language: fsm.Version, Wall: n.cfg.Wall, Logger: n.log,
	})
}

// hasState tells whether raft has anything in this directory.
func (n *Node) hasState() bool {
	last, err := n.dir.Logs().LastIndex()
	return err != nil || last > 0 || n.dir.Snapshots().LastIndex() > 0
}

func (n *Node) foundingMembers() []founding.Member {
	var members []founding.Member
	for _, m := range n.memberList() {
		members = append(members, founding.Member{ID: m.ID, Address: m.Address, Voter: m.Voter})
	}
	return members
}

// servers is the first membership for raft: all of it votes.
func servers(peers []Peer) []raft.Server {
	var list []raft.Server
	for _, p := range peers {
		list = append(list, raft.Server{ID: raft.ServerID(p.ID), Address: raft.ServerAddress(p.Address)})
	}
	return slices.Clip(list)
}

// checkPeers ends the node when so many of its members' addresses are another cluster's that it
// can have no majority there: a directory or an address is mixed up.
func (n *Node) checkPeers() {
	if err := n.founding.CheckPeers(n.ctx); err != nil && n.ctx.Err() == nil {
		n.fail(err)
	}
}
