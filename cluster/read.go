package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"onced/cluster/propose"
)

// A linearizable read needs one fact from the leader: how far its table was when it
// still led. Every write that was answered before is in that table, as an answer is
// given only after the entry was applied on the leader of the moment, and a leader opens its
// route only after it has applied everything from before its term. Whoever reads a
// table that has reached that index sees all of them.

// verifier makes sure that this node still leads, once for all who wait: who comes
// while a round is under way is served by the next one, which begins after it came.
type verifier struct {
	mu   sync.Mutex
	next *round
	busy bool
}

type round struct {
	done  chan struct{}
	index uint64
	err   error
}

// readIndex returns an index that this node's table has to reach before a read that began
// before the call may look at it.
func (n *Node) readIndex(ctx context.Context) (uint64, error) {
	for {
		route, changed := n.route.Get()
		var index uint64
		var err error
		switch {
		case !route.Known:
			err = propose.ErrNoLeader
		case route.Self:
			index, err = n.leaderIndex(ctx)
		default:
			index, err = n.askIndex(ctx, route.Addr)
		}
		if err == nil {
			return index, nil
		}
		if err := n.pause(ctx, changed); err != nil {
			return 0, err
		}
	}
}

// readPause is how long a failed read waits before it asks again, unless the route changes.
const readPause = 25 * time.Millisecond

func (n *Node) pause(ctx context.Context, changed <-chan struct{}) error {
	timer := time.NewTimer(readPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-ctx.Done():
		return ctx.Err()
	case <-n.ctx.Done():
		return propose.ErrClosed
	}
	return nil
}

// askIndex asks the leader. A read may be asked twice, so every error is "again".
func (n *Node) askIndex(ctx context.Context, addr string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*n.cfg.ElectionTimeout)
	defer cancel()
	body, err := n.link.Call(ctx, addr, pathReadIndex, nil)
	if err != nil {
		return 0, err
	}
	said := parseVarints(body)
	if len(said) < 3 {
		return 0, errors.New("reading the leader's index: the answer is cut short")
	}
	n.clock.Heard(said[1], int64(said[2]))
	return said[0], nil
}

// leaderIndex is readIndex on the leader itself.
func (n *Node) leaderIndex(ctx context.Context) (uint64, error) {
	v := &n.verifier
	v.mu.Lock()
	if v.next == nil {
		v.next = &round{done: make(chan struct{})}
	}
	mine := v.next
	if !v.busy {
		v.busy = true
		go n.verify()
	}
	v.mu.Unlock()
	select {
	case <-mine.done:
		return mine.index, mine.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// verify runs rounds until nobody waits.
func (n *Node) verify() {
	v := &n.verifier
	for {
		v.mu.Lock()
		r := v.next
		v.next = nil
		if r == nil {
			v.busy = false
			v.mu.Unlock()
			return
		}
		v.mu.Unlock()
		r.index, r.err = n.verifyOnce()
		close(r.done)
	}
}

// verifyOnce notes how far the table is, and then makes sure that nobody else led before that: a majority of
// the voters says, after it, that its term is still the one that this node took office in. Whoever was elected
// before has a majority in a later term, and two majorities share a voter. raft's own VerifyLeader is not enough, since
// it counts answers to what was sent before: a leader that was stopped and wakes finds old ones in its sockets.
func (n *Node) verifyOnce() (uint64, error) {
	raft := n.raft.Load()
	term := n.ledTerm.Load()
	if raft == nil || term == 0 {
		return 0, propose.ErrNoLeader
	}
	index := n.progress.index.Load()
	if !n.stillIn(term) || n.ledTerm.Load() != term || raft.CurrentTerm() != term {
		return 0, propose.ErrNoLeader
	}
	return index, nil
}

// stillIn tells whether a majority of the voters, this one included, is in a term now.
func (n *Node) stillIn(term uint64) bool {
	ctx, cancel := context.WithTimeout(n.ctx, n.cfg.ElectionTimeout)
	defer cancel()
	others := n.others(true)
	answers := make(chan bool, len(others))
	for _, m := range others {
		go func() {
			body, err := n.link.Call(ctx, m.Address, pathTerm, nil)
			said := parseVarints(body)
			answers <- err == nil && len(said) == 1 && said[0] == term
		}()
	}
	yes := 1
	for i := 0; i < len(others) && 2*yes <= len(others)+1; i++ {
		if <-answers {
			yes++
		}
	}
	return 2*yes > len(others)+1
}

// catchUp returns once this node's table holds every write that was answered before the call.
func (n *Node) catchUp(ctx context.Context) error {
	index, err := n.readIndex(ctx)
	if err != nil {
		return err
	}
	return n.progress.wait(ctx, index)
}
