package founding

import "fmt"

// RefusedError stops the start for good: trying again changes nothing before
// somebody changed a setting, a directory or the cluster. Line says what is wrong
// and what to do, in one line.
type RefusedError struct{ Line string }

// Error returns the line.
func (e *RefusedError) Error() string { return e.Line }

func refusef(format string, args ...any) *RefusedError {
	return &RefusedError{Line: fmt.Sprintf(format, args...)}
}

// refuseWiped is for an empty directory whose id is that of a running cluster's member.
func refuseWiped(self string, said Hello) *RefusedError {
	return refusef("node %s at %s says that cluster %s has a member %s already, but this node's data directory is empty: "+
		"it was wiped, and a node that forgot its votes must never vote again under its old id. "+
		"To replace it: onced members remove %s on a running node, then start this one with a new --node-id and --join %s",
		said.NodeID, said.Address, said.ClusterID, self, self, said.Address)
}

// refuseBegun is for a founder that finds its own peers invited by somebody else.
func refuseBegun(self string, said Hello) *RefusedError {
	return refusef("node %s at %s was invited to cluster %s, but the data directory of %s, which founds clusters of this list, is empty: "+
		"it was wiped or the list has changed. If no node of that cluster ever ran, empty the data directories of all listed nodes "+
		"and start them again; if one did, start this one with a new --node-id and --join",
		said.NodeID, said.Address, said.ClusterID, self)
}

// refuseForeign is for an empty directory whose listed peer runs in a cluster without it.
func refuseForeign(self string, said Hello) *RefusedError {
	return refusef("node %s at %s belongs to cluster %s, which has no member %s: correct --peers, or start this node with --join %s instead",
		said.NodeID, said.Address, said.ClusterID, self, said.Address)
}

// refuseLists is for peers that disagree about who founds the cluster.
func refuseLists(self, said Hello) *RefusedError {
	if said.Join != "" {
		return refusef("node %s at %s was started with --join %s, this node, %s, with --peers %s: nodes that found a cluster together have the same --peers",
			said.NodeID, said.Address, said.Join, self.NodeID, formatPeers(self.Peers))
	}
	return refusef("--peers differ: this node, %s, has %s, but node %s at %s has %s: the list has to be the same on every node",
		self.NodeID, formatPeers(self.Peers), said.NodeID, said.Address, formatPeers(said.Peers))
}

// refuseAddress is for an address at which another node answers.
func refuseAddress(listed Peer, said Hello) *RefusedError {
	return refusef("--peers lists node %s at %s, but node %s answers there", listed.ID, listed.Address, said.NodeID)
}

// refuseOther is for a directory of one cluster whose peers are of another.
func refuseOther(own string, said Hello) *RefusedError {
	return refusef("this data directory belongs to cluster %s, but node %s at %s to cluster %s: "+
		"the directory or the address is another cluster's", own, said.NodeID, said.Address, said.ClusterID)
}

// refuseRemoved is for a node that was removed from its cluster, now or before its last stop.
func refuseRemoved(id Identity) *RefusedError {
	return refusef("node %s was removed from cluster %s and is no member any more. To add this machine again, "+
		"start it on an empty data directory with a new --node-id and --join", id.NodeID, id.ClusterID)
}
