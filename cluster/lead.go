package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"onced/cluster/clock"
	"onced/cluster/propose"
	"onced/fsm"
	"onced/fsm/command"
)

// routeEvery is how often the route is looked up without an event: raft's leader and
// term are two reads, and a wrong pair must not stay.
const routeEvery = 100 * time.Millisecond

// leadership is what raft last said of this node. It is written by the one goroutine that
// drains raft's NotifyCh, and read by the one that leads.
type leadership struct {
	mu      sync.Mutex
	leading bool
	changed chan struct{} // closed and replaced at every notification
}

func (l *leadership) set(leading bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leading = leading
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *leadership) get() (bool, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leading, l.changed
}

// drain takes raft's notifications and does nothing else: raft's main loop blocks on
// this channel, so whoever reads it must never wait for raft.
func (n *Node) drain(notify <-chan bool) {
	for {
		select {
		case leading := <-notify:
			n.leadership.set(leading)
		case <-n.ctx.Done():
			return
		}
	}
}

// leads runs a term at a time, each with a context that ends with it.
func (n *Node) leads(r *raft.Raft) {
	for n.ctx.Err() == nil {
		leading, changed := n.leadership.get()
		n.refreshRoute(r)
		if !leading {
			select {
			case <-changed:
			case <-n.ctx.Done():
			}
			continue
		}
		ctx, end := context.WithCancel(n.ctx)
		stop := context.AfterFunc(n.ctx, end)
		go func() {
			select {
			case <-changed:
				end()
			case <-ctx.Done():
			}
		}()
		n.lead(ctx, r)
		<-ctx.Done() // a term that could not begin waits for raft to say so
		stop()
		end()
	}
}

// lead is one term: it makes sure of the time and of everything before it, opens the
// route, and does the leader's chores until ctx ends.
func (n *Node) lead(ctx context.Context, r *raft.Raft) {
	term := r.CurrentTerm()
	defer n.clock.Resign(term)
	if !n.takeOffice(ctx, r, term) {
		return
	}
	now, _ := n.clock.Now()
	n.log.Info("leading", "term", term, "cluster_time", time.UnixMilli(now).UTC())
	defer func() {
		n.ledTerm.Store(0)
		n.refreshRoute(r)
		n.log.Info("not leading any more", "term", term)
	}()
	n.refreshRoute(r)
	var chores sync.WaitGroup
	chores.Go(func() { n.sweep(ctx) })
	chores.Go(func() { n.checkClock(ctx, term) })
	chores.Go(func() { n.compare(ctx) })
	chores.Go(func() { n.promote(ctx) })
	chores.Go(func() { n.correctAddress(ctx) })
	chores.Wait()
}

// takeOffice tries until this node may stamp and write in the term, or the term is over (false): a
// leader that raft elected and that writes nothing would stop the cluster.
func (n *Node) takeOffice(ctx context.Context, r *raft.Raft, term uint64) bool {
	for {
		err := n.tryOffice(ctx, r, term)
		if err == nil {
			n.ledTerm.Store(term)
			return true
		}
		if ctx.Err() == nil {
			n.log.Warn("taking office", "term", term, "error", err)
		}
		select {
		case <-time.After(officePause):
		case <-ctx.Done():
			return false
		}
	}
}

// officePause is the pause before another try to take office.
const officePause = 50 * time.Millisecond

// tryOffice waits until this table has everything from before the term, sets the clock by
// the voters', and writes the cluster's first entry if it has none.
func (n *Node) tryOffice(ctx context.Context, r *raft.Raft, term uint64) error {
	answers := make(chan []clock.Answer, 1)
	go func() { answers <- n.askClocks(ctx) }()
	if err := n.decided(r.Barrier(0)); err != nil {
		return fmt.Errorf("applying everything before the term: %w", err)
	}
	clocks := <-answers
	if ctx.Err() != nil || r.CurrentTerm() != term {
		return propose.ErrNoLeader
	}
	if _, leading := n.clock.Now(); !leading { // it is, if a try before this one failed later
		n.clock.Lead(term, n.table.Meta().Clock, clocks, n.voters())
	}
	if n.table.Meta().ClusterID == "" {
		return n.writeFirst(r)
	}
	return nil
}

// writeFirst writes the cluster's identity, before anybody else can write anything.
func (n *Node) writeFirst(r *raft.Raft) error {
	identity, _ := n.dir.Identity()
	stamp, _ := n.clock.Now()
	data, err := proto.Marshal(&command.Entry{Version: fsm.Version, StampMs: stamp, Commands: []*command.Command{
		{Kind: &command.Command_Found{Found: &command.Found{ClusterId: identity.ClusterID}}},
	}})
	if err != nil {
		return fmt.Errorf("writing the first entry: %w", err)
	}
	if err := n.decided(r.Apply(data, enqueueTimeout)); err != nil {
		return fmt.Errorf("writing the first entry: %w", err)
	}
	return nil
}

// decided waits for a future until the node ends: raft forgets those that its state machine had not taken yet
// when it is shut down.
func (n *Node) decided(f raft.Future) error {
	n.asked(f)
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case err := <-done:
		return err
	case <-n.ctx.Done():
		return propose.ErrClosed
	}
}

// routes keeps the route to the leader while this node does not lead.
func (n *Node) routes(r *raft.Raft) {
	observed := make(chan raft.Observation, 16)
	observer := raft.NewObserver(observed, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	r.RegisterObserver(observer)
	defer r.DeregisterObserver(observer)
	tick := time.NewTicker(routeEvery)
	defer tick.Stop()
	for {
		n.refreshRoute(r)
		n.refreshMembers(r)
		select {
		case <-observed:
		case <-tick.C:
		case <-n.ctx.Done():
			return
		}
	}
}

// refreshRoute tells the proposer who leads. This node itself is named only once it has
// taken office in the present term.
func (n *Node) refreshRoute(r *raft.Raft) {
	addr, id := r.LeaderWithID()
	term := r.CurrentTerm()
	var route propose.Route
	switch {
	case id == "":
	case string(id) != n.cfg.NodeID:
		route = propose.Route{Known: true, Leader: string(id), Addr: string(addr), Term: term}
	case n.ledTerm.Load() == term:
		route = propose.Route{Known: true, Self: true, Leader: string(id), Addr: string(addr), Term: term}
	}
	n.route.Set(route)
}
