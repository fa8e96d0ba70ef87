package founding

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"onced/cluster/peer"
)

// Peer is one node of the first membership.
type Peer struct {
	ID      string `json:"id"`
	Address string `json:"address"` // host:port of its cluster port, by name
}

// Member is one node of the cluster's configuration.
type Member struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	Voter   bool   `json:"voter"`
}

// sorted returns the list in the order of the ids. Lists are compared in it.
func sorted(peers []Peer) []Peer {
	out := slices.Clone(peers)
	slices.SortFunc(out, func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// samePeers tells whether two lists name the same nodes at the same addresses.
func samePeers(a, b []Peer) bool { return slices.Equal(sorted(a), sorted(b)) }

// formatPeers writes a list as --peers takes it.
func formatPeers(peers []Peer) string {
	if len(peers) == 0 {
		return "none"
	}
	var parts []string
	for _, p := range sorted(peers) {
		parts = append(parts, p.ID+"="+p.Address)
	}
	return strings.Join(parts, ",")
}

// founderOf returns the id of the one that founds: the smallest.
func founderOf(peers []Peer) string {
	if len(peers) == 0 {
		return ""
	}
	return sorted(peers)[0].ID
}

// listed tells whether a member has the id.
func listed(members []Member, id string) bool {
	return slices.ContainsFunc(members, func(m Member) bool { return m.ID == id })
}

// checkPeers tells what is wrong with a list of peers for the node self at addr.
func checkPeers(peers []Peer, self, addr string) error {
	ids, addrs := make(map[string]bool), make(map[string]string)
	own := ""
	for _, p := range peers {
		if err := peer.CheckNodeID(p.ID); err != nil {
			return fmt.Errorf("--peers: %w", err)
		}
		if err := peer.CheckAddr(p.Address); err != nil {
			return fmt.Errorf("--peers: node %s: %w", p.ID, err)
		}
		if ids[p.ID] {
			return fmt.Errorf("--peers lists node %s twice", p.ID)
		}
		if other, taken := addrs[p.Address]; taken {
			return fmt.Errorf("--peers lists the address %s for %s and for %s", p.Address, other, p.ID)
		}
		ids[p.ID], addrs[p.Address] = true, p.ID
		if p.ID == self {
			own = p.Address
		}
	}
	switch {
	case len(peers) == 0:
		return nil
	case own == "":
		return fmt.Errorf("--peers lists %s, but not this node, %s: the list is the same on every node, itself included", formatPeers(peers), self)
	case own != addr:
		return fmt.Errorf("--peers lists this node, %s, at %s, but it advertises %s (--cluster-advertise)", self, own, addr)
	}
	return nil
}
