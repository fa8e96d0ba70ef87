package founding

import (
	"context"
	"time"
)

// foreignEvery is how often a peer of another cluster is logged.
const foreignEvery = time.Minute

// CheckPeers looks, beside a node that runs already, whether the nodes at its
// members' addresses (its --peers before raft knows any) are of its cluster. It ends with nil
// when a majority is, and with a *RefusedError when so many are another cluster's that
// this one cannot have a majority there. A single one is only logged: the port refuses it.
func (f *Founding) CheckPeers(ctx context.Context) error {
	pace := f.pacer("comparing cluster ids with the other members")
	pace.reported = time.Now() // quiet: the node runs without them
	var logged time.Time
	for {
		cluster := f.self().ClusterID
		peers := f.known()
		var hellos []Hello
		replies := f.round(ctx, peers)
		for _, p := range peers { // in their order, so that the same one is named each time
			if r := replies[p.ID]; r.err == nil {
				hellos = append(hellos, r.hello)
			}
		}
		settled, foreign, refused := judgeReturning(cluster, len(peers), hellos)
		if refused != nil {
			return refused
		}
		if settled && len(foreign) == 0 {
			return nil
		}
		if len(foreign) > 0 && time.Since(logged) >= foreignEvery {
			logged = time.Now()
			f.cfg.Logger.Error("a member's address leads to another cluster", "reason", refuseOther(cluster, foreign[0]).Line)
		}
		if err := pace.wait(ctx, "a majority of the members"); err != nil {
			return err
		}
	}
}

// known returns the other members, or the other listed peers before there are any.
func (f *Founding) known() []Peer {
	members := f.cfg.Members()
	if len(members) == 0 {
		return f.others()
	}
	var out []Peer
	for _, m := range members {
		if m.ID != f.cfg.NodeID {
			out = append(out, Peer{ID: m.ID, Address: m.Address})
		}
	}
	return out
}
