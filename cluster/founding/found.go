package founding

import (
	"context"
	"maps"
	"sync"
)

// gather is an empty node's wait for its listed peers: until it may found the cluster,
// is invited to it, or is refused.
func (f *Founding) gather(ctx context.Context) (Decision, error) {
	pace := f.pacer("waiting for the listed peers to found a cluster")
	for {
		replies := f.round(ctx, f.others())
		// After the answers: whoever was invited meanwhile may see a peer that has
		// bootstrapped with it, and must not take itself for wiped.
		if id, ok := f.cfg.Storage.Identity(); ok {
			return f.resume(ctx, id)
		}
		f.expect(replies)
		v, refused := judgeEmpty(f.self(), replies, f.hearsay())
		switch {
		case refused != nil:
			return Decision{}, refused
		case v.found:
			return f.found(ctx)
		}
		if len(v.missing) == 0 {
			v.missing = []string{"the invitation of " + founderOf(f.cfg.Peers)}
		}
		if err := pace.wait(ctx, v.missing...); err != nil {
			return Decision{}, err
		}
	}
}

// hearsay returns what empty peers said when they asked.
func (f *Founding) hearsay() map[string]Hello {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.heard)
}

// found makes the cluster's id, durably before anybody hears of it.
func (f *Founding) found(ctx context.Context) (Decision, error) {
	id := Identity{ClusterID: NewID(), NodeID: f.cfg.NodeID, Phase: PhaseFounding}
	f.writing.Lock()
	before, known := f.cfg.Storage.Identity()
	var err error
	if !known {
		err = f.write(id)
	}
	f.writing.Unlock()
	switch {
	case known:
		return f.resume(ctx, before)
	case err != nil:
		return Decision{}, err
	}
	return f.inviteAll(ctx, id.ClusterID)
}

// inviteAll goes on until every listed peer holds the cluster's id on disk. Only then
// may the cluster be bootstrapped: from there on each of them counts as one that may have voted.
func (f *Founding) inviteAll(ctx context.Context, cluster string) (Decision, error) {
	left := f.others()
	pace := f.pacer("inviting the listed peers to cluster " + cluster)
	for len(left) > 0 {
		outcomes := f.inviteEach(ctx, cluster, left)
		var next []Peer
		var missing []string
		replies := make(map[string]reply)
		for i, p := range left {
			o := outcomes[i]
			if o.refused != nil {
				return Decision{}, o.refused
			}
			if o.done {
				replies[p.ID] = reply{}
				continue
			}
			next, missing = append(next, p), append(missing, describe(p, o.err))
		}
		if left = next; len(left) == 0 {
			break
		}
		f.expect(replies)
		if err := pace.wait(ctx, missing...); err != nil {
			return Decision{}, err
		}
	}
	f.cfg.Logger.Info("every listed peer holds the id of the new cluster", "cluster_id", cluster, "peers", len(f.cfg.Peers))
	servers := f.cfg.Peers
	if len(servers) == 0 {
		servers = []Peer{{ID: f.cfg.NodeID, Address: f.cfg.Addr}}
	}
	return Decision{ClusterID: cluster, Bootstrap: true, Servers: servers}, nil
}

// outcome is how one invitation went.
type outcome struct {
	done    bool
	err     error
	refused *RefusedError
}

func (f *Founding) inviteEach(ctx context.Context, cluster string, peers []Peer) []outcome {
	out := make([]outcome, len(peers))
	var all sync.WaitGroup
	for i, p := range peers {
		all.Go(func() { out[i] = f.inviteOne(ctx, cluster, p) })
	}
	all.Wait()
	return out
}

// inviteOne says hello first, every time: the invitation is good only for the process
// that answered, and a "no" to it is explained by the next hello.
func (f *Founding) inviteOne(ctx context.Context, cluster string, p Peer) outcome {
	hello, cancel := context.WithTimeout(ctx, helloTimeout)
	h, err := f.Hello(hello, p.Address)
	cancel()
	if err != nil {
		return outcome{err: err}
	}
	done, refused := judgeInvitee(f.self(), cluster, p, h)
	if done || refused != nil {
		return outcome{done: done, refused: refused}
	}
	ctx, cancel = context.WithTimeout(ctx, inviteTimeout)
	defer cancel()
	call := invite{ClusterID: cluster, From: f.cfg.NodeID, To: p.ID, Incarnation: h.Incarnation, Peers: f.cfg.Peers}
	if err := f.ask(ctx, p.Address, PathInvite, call, &struct{}{}); err != nil {
		return outcome{err: err}
	}
	return outcome{done: true}
}
