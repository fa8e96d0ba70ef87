package demo

import (
	"context"
	"fmt"
	"time"

	"onced/internal/progress"
)

// downFor is how long a killed node stays away at least: longer than an election,
// so that the others have to go on without it.
const downFor = 1500 * time.Millisecond

// failover kills the leader once and brings it back.
type failover struct {
	cluster *cluster
	tell    *progress.Bar
	done    chan struct{} // closed when it is over; nil when it never began

	// Of a failover that is over:
	err          error
	killed, next string
	after        int           // requests sent before the kill
	newLeader    time.Duration // from the kill until another node leads
	back         time.Duration // from the kill until the killed node is ready again
}

// begin kills the leader, in the background. after is the number of requests sent so far.
func (f *failover) begin(ctx context.Context, after int) {
	f.done = make(chan struct{})
	f.after = after
	go func() {
		defer close(f.done)
		f.err = f.run(ctx)
	}()
}

func (f *failover) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	victim, err := f.cluster.leader(ctx, nil)
	if err != nil {
		return fmt.Errorf("looking for the leader to kill: %w", err)
	}
	victim.running().Kill()
	start := time.Now()
	f.killed = victim.id
	f.tell.Say("killed %s, the leader, with SIGKILL", victim.id)
	next, err := f.cluster.leader(ctx, victim)
	if err != nil {
		return fmt.Errorf("after the kill of %s: %w", victim.id, err)
	}
	f.next, f.newLeader = next.id, time.Since(start)
	f.tell.Say("%s leads after %s", next.id, f.newLeader.Round(time.Millisecond))
	if err := sleep(ctx, downFor-time.Since(start)); err != nil {
		return fmt.Errorf("waiting to start %s again: %w", victim.id, err)
	}
	if err := f.cluster.startNode(victim); err != nil {
		return err
	}
	if err := f.cluster.nodeReady(ctx, victim); err != nil {
		return err
	}
	f.back = time.Since(start)
	f.tell.Say("%s is back after %s", victim.id, f.back.Round(time.Millisecond))
	return nil
}

// wait waits until the failover is over, and returns what went wrong with it.
func (f *failover) wait() error {
	if f.done == nil {
		return fmt.Errorf("the leader was never killed: the workload was over before")
	}
	<-f.done
	return f.err
}
