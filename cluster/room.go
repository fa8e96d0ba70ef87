package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/encoding/protowire"

	"onced"
	"onced/store"
)

// A node whose disk is nearly full says so before the disk does: it is not ready, takes no snapshot in (see store),
// and hands leadership to a voter that has room. It goes on as long as the disk takes what it writes, and
// ends at the first write that does not fit, as after any error of the disk.

const (
	roomEvery  = time.Second
	asideEvery = 10 * time.Second // between two tries to hand leadership over
)

// watchRoom looks at the disk.
func (n *Node) watchRoom(r *raft.Raft) {
	var tried time.Time
	every(n.ctx, roomEvery, func() {
		n.lookAtRoom()
		if n.low.Load() != nil && n.leadsNow(r) && time.Since(tried) >= asideEvery {
			tried = time.Now()
			n.stepAside(r)
		}
	})
}

// lookAtRoom notes whether there is too little of the disk left.
func (n *Node) lookAtRoom() {
	s, err := n.dir.Space()
	switch low := n.low.Load(); {
	case err != nil:
		n.log.Warn("looking at the disk", "error", err)
	case s.Low() && low == nil:
		n.low.Store(&s)
		n.log.Warn("the disk is nearly full: this node is not ready until it has room again", "free_bytes", s.Free, "floor_bytes", s.Floor, "data_dir", n.cfg.DataDir)
	case s.Roomy() && low != nil:
		n.low.Store(nil)
		n.log.Info("the disk has room again", "free_bytes", s.Free)
	case low != nil:
		n.low.Store(&s)
	}
}

// errLow is why a node with too little room is not ready.
func errLow(s store.Space, dir string) error {
	return fmt.Errorf("the disk of %s is nearly full: %d bytes are free, and %d should be", dir, s.Free, s.Floor)
}

// stepAside hands leadership to a voter that has room. Without one this node leads on: it still can write.
func (n *Node) stepAside(r *raft.Raft) {
	ctx, cancel := context.WithTimeout(n.ctx, roomEvery)
	defer cancel()
	for _, m := range n.others(true) {
		body, err := n.link.Call(ctx, m.Address, pathRoom, nil)
		if room, size := protowire.ConsumeVarint(body); err != nil || size < 0 || room == 0 {
			continue
		}
		n.log.Info("handing leadership over, since the disk is nearly full", "member", m.ID)
		if err := n.transfer(r, &m); err != nil {
			n.log.Warn("handing leadership over", "member", m.ID, "error", err)
			n.checkTransfer(r)
		}
		return
	}
}

// transfer hands leadership to a member, or to the one that raft picks, within handOver.
func (n *Node) transfer(r *raft.Raft, to *onced.Member) error {
	moved := make(chan error, 1)
	go func() {
		if to == nil {
			moved <- r.LeadershipTransfer().Error()
			return
		}
		moved <- r.LeadershipTransferToServer(raft.ServerID(to.ID), raft.ServerAddress(to.Address)).Error()
	}()
	select {
	case err := <-moved:
		return err
	case <-time.After(handOver):
		return errors.New("it takes too long")
	}
}

// wedgedAfter is how long a leader may refuse everything after a transfer that failed: longer than any message of the
// transfer takes.
const wedgedAfter = 2*transportTimeout + handOver

// checkTransfer ends the node when it still leads after a transfer that failed, and raft refuses everything for ever: such a leader
// would keep the others from electing one (raft#696).
func (n *Node) checkTransfer(r *raft.Raft) {
	for end := time.Now().Add(wedgedAfter); ; {
		err := n.decided(r.Barrier(enqueueTimeout))
		switch {
		case !errors.Is(err, raft.ErrLeadershipTransferInProgress):
			return
		case time.Now().After(end):
			n.fail(fmt.Errorf("handing leadership over failed, and raft has refused every write for %s since (raft#696)", wedgedAfter))
			return
		}
		select {
		case <-time.After(officePause):
		case <-n.ctx.Done():
			return
		}
	}
}
