package founding

import (
	"fmt"
	"slices"
)

// reply is how a peer answered a hello.
type reply struct {
	hello Hello
	err   error // nil = hello is its answer
}

// verdict is what an empty node makes of a round of answers.
type verdict struct {
	found   bool     // all are empty and this one founds
	missing []string // who has to answer yet, and why not; in the order of the list
}

// judgeEmpty decides for a node with an empty directory. replies holds one of each
// other peer that answered or failed to. heard is what peers said of themselves when
// they asked; it can only refuse, as it may be older than the answers.
func judgeEmpty(self Hello, replies map[string]reply, heard map[string]Hello) (verdict, *RefusedError) {
	var v verdict
	founder := founderOf(self.Peers) == self.NodeID
	empty := 0
	var known *Hello // the first that belongs to a cluster
	for _, p := range sorted(self.Peers) {
		if p.ID == self.NodeID {
			continue
		}
		r, ok := replies[p.ID]
		if !ok || r.err != nil {
			if h, asked := heard[p.ID]; asked && h.empty() && !samePeers(h.Peers, self.Peers) {
				return verdict{}, refuseLists(self, h)
			}
			v.missing = append(v.missing, describe(p, r.err))
			continue
		}
		h := r.hello
		if h.NodeID != p.ID {
			return verdict{}, refuseAddress(p, h)
		}
		if known != nil && !h.empty() && h.ClusterID != known.ClusterID {
			return verdict{}, refusef("listed peers belong to different clusters: %s at %s to %s, %s at %s to %s",
				known.NodeID, known.Address, known.ClusterID, h.NodeID, h.Address, h.ClusterID)
		}
		if h.empty() {
			if !samePeers(h.Peers, self.Peers) {
				return verdict{}, refuseLists(self, h)
			}
			empty++
			continue
		}
		known = &h
		wait, refused := judgeKnown(self, h, founder)
		if refused != nil {
			return verdict{}, refused
		}
		if wait != "" {
			v.missing = append(v.missing, describe(p, fmt.Errorf("%s", wait)))
		}
	}
	v.found = founder && empty == len(self.Peers)-1
	return v, nil
}

// judgeKnown decides about one peer that belongs to a cluster. wait says why the
// cluster cannot be judged yet.
func judgeKnown(self, h Hello, founder bool) (wait string, refused *RefusedError) {
	switch {
	case h.HasState && len(h.Members) == 0:
		return "is starting", nil // its raft will tell who the members are
	case h.HasState && listed(h.Members, self.NodeID):
		return "", refuseWiped(self.NodeID, h)
	case h.HasState:
		return "", refuseForeign(self.NodeID, h)
	case h.Phase == PhaseJoining || !slices.ContainsFunc(h.Peers, func(p Peer) bool { return p.ID == self.NodeID }):
		return "", refuseForeign(self.NodeID, h)
	case founder:
		// Nobody but this node invites for this list, and this directory knows nothing of it.
		return "", refuseBegun(self.NodeID, h)
	case !samePeers(h.Peers, self.Peers):
		return "", refuseLists(self, h)
	}
	return "", nil // the invitation is on its way
}

// judgeInvitee decides about one peer on behalf of the founder of cluster. done: it
// has the id on disk.
func judgeInvitee(self Hello, cluster string, p Peer, h Hello) (done bool, refused *RefusedError) {
	switch {
	case h.NodeID != p.ID:
		return false, refuseAddress(p, h)
	case h.ClusterID == cluster:
		return true, nil
	case !h.empty():
		return false, refuseOther(cluster, h)
	case !samePeers(h.Peers, self.Peers):
		return false, refuseLists(self, h)
	}
	return false, nil
}

// judgeReturning decides for a directory of cluster that is back among nodes of
// which others, without itself, are listed. settled: enough are of this cluster. It
// refuses only when so many belong elsewhere that this cluster cannot have a majority
// among them: one node that was set up wrongly must not stop the others.
func judgeReturning(cluster string, others int, hellos []Hello) (settled bool, foreign []Hello, refused *RefusedError) {
	majority := (others+1)/2 + 1
	same := 1
	for _, h := range hellos {
		switch h.ClusterID {
		case cluster:
			same++
		case "": // wiped, or new; it refuses or waits by itself
		default:
			foreign = append(foreign, h)
		}
	}
	if others+1-len(foreign) < majority {
		return false, foreign, refuseOther(cluster, foreign[0])
	}
	return same >= majority, foreign, nil
}

// describe names a peer and why it does not count yet.
func describe(p Peer, err error) string {
	if err == nil {
		return fmt.Sprintf("%s at %s", p.ID, p.Address)
	}
	return fmt.Sprintf("%s at %s: %v", p.ID, p.Address, err)
}
