package cluster

import (
	"context"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/encoding/protowire"

	"onced"
)

const (
	promoteEvery   = time.Second
	promoteWithin  = 1000 // entries that a learner may lag and still become a voter
	membershipWait = 10 * time.Second
)

// promote makes voters of the learners that have caught up.
func (n *Node) promote(ctx context.Context) {
	every(ctx, promoteEvery, func() {
		for _, m := range n.others(false) {
			if m.Voter || !n.hasCaughtUp(ctx, m.Address) {
				continue
			}
			if err := n.makeVoter(ctx, m); err != nil && ctx.Err() == nil {
				n.log.Warn("making a learner a voter", "member", m.ID, "error", err)
			}
		}
	})
}

// makeVoter lets a learner vote, if it still is one when it is the change's turn.
func (n *Node) makeVoter(ctx context.Context, learner onced.Member) error {
	return n.inTurn(ctx, func(r *raft.Raft) error {
		if now, ok := n.member(learner.ID); !ok || now != learner {
			return nil
		}
		if err := r.AddVoter(raft.ServerID(learner.ID), raft.ServerAddress(learner.Address), 0, membershipWait).Error(); err != nil {
			return err
		}
		n.log.Info("a learner has become a voter", "member", learner.ID)
		return nil
	})
}

func (n *Node) hasCaughtUp(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, promoteEvery)
	defer cancel()
	body, err := n.link.Call(ctx, addr, pathProgress, nil)
	index, size := protowire.ConsumeVarint(body)
	return err == nil && size > 0 && index+promoteWithin >= n.progress.index.Load()
}

// correctAddress puts the address that this node advertises into the configuration, where another one stands for it:
// the first node of a restored or recovered cluster is founded before it has a port, and a machine may get another name.
func (n *Node) correctAddress(ctx context.Context) {
	for ctx.Err() == nil {
		m, ok := n.member(n.cfg.NodeID)
		if !ok || m.Address == n.link.Addr() {
			return
		}
		err := n.inTurn(ctx, func(r *raft.Raft) error {
			return r.AddVoter(raft.ServerID(m.ID), raft.ServerAddress(n.link.Addr()), 0, membershipWait).Error()
		})
		if err == nil {
			n.log.Info("corrected the address of this node in the configuration", "from", m.Address, "to", n.link.Addr())
			return
		}
		if ctx.Err() == nil {
			n.log.Warn("correcting the address of this node in the configuration", "from", m.Address, "to", n.link.Addr(), "error", err)
		}
		select {
		case <-time.After(promoteEvery):
		case <-ctx.Done():
		}
	}
}
