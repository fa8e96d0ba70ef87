package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"onced"
	"onced/cluster/clock"
	"onced/cluster/founding"
	"onced/cluster/peer"
	"onced/cluster/propose"
	"onced/cluster/watch"
	"onced/store"
)

// Node is one member of the cluster. It is a onced.Keeper. Make it with Open and end
// it with Shutdown.
type Node struct {
	cfg  Config
	log  *slog.Logger
	dir  *store.Dir
	link peer.Link

	table    *store.Table
	founding *founding.Founding
	machine  *machine
	progress *progress
	leases   *leases
	clock    *clock.Clock
	watchers *watch.Watchers

	route      *propose.Routes
	counters   *propose.Counters
	proposer   *propose.Proposer
	retrier    *propose.Retrier
	verifier   verifier
	leadership leadership

	raft       atomic.Pointer[raft.Raft] // nil until the cluster is found
	members    atomic.Pointer[[]onced.Member]
	refreshing sync.Mutex                  // held while members is read anew
	ledTerm    atomic.Uint64               // the term that this node took office in, 0 while it does not lead
	changes    chan struct{}               // of the membership: one at a time
	low        atomic.Pointer[store.Space] // how much room the disk has while that is too little; else nil
	copying    atomic.Bool                 // a backup is open
	caughtUp   atomic.Bool                 // has once had everything that the leader had
	closing    atomic.Bool

	ctx       context.Context // of every goroutine of the node
	cancel    context.CancelFunc
	raftEnded chan struct{} // closed when raft was shut down
	wg        sync.WaitGroup

	working context.Context // of every call that waits to be decided; ends with fail
	giveUp  context.CancelFunc

	done     chan struct{} // closed by fail
	failOnce sync.Once
	err      atomic.Pointer[error]
	shutOnce sync.Once
	shutErr  error
}

// Done is closed when the node has stopped for a reason that it cannot mend: its disk, its table, or a
// refused start. Err tells which. The process should end; Shutdown still has to be called.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err is why the node has stopped, nil while it runs.
func (n *Node) Err() error { return n.broken() }

func (n *Node) broken() error {
	if err := n.err.Load(); err != nil {
		return *err
	}
	return nil
}

// fail stops the node for good. It does not wait, since it is called from inside raft and store.
func (n *Node) fail(err error) {
	n.failOnce.Do(func() {
		n.err.Store(&err)
		close(n.done)
		n.giveUp()
		if Refused(err) {
			return
		}
		n.log.Error("this node stops", "error", err)
		if n.cfg.Fatal != nil {
			n.cfg.Fatal(err)
		}
	})
}

// handOver bounds the hand-over of leadership.
const handOver = time.Second

// Shutdown ends the node: it hands leadership over, settles what it can within ctx, and
// closes. The handing over comes right before the end, since raft may not serve again after it (raft#696).
func (n *Node) Shutdown(ctx context.Context) error {
	n.shutOnce.Do(func() { n.shutErr = n.shutdown(ctx) })
	return n.shutErr
}

func (n *Node) shutdown(ctx context.Context) error {
	n.closing.Store(true)
	if n.broken() == nil {
		if err := n.retrier.Drain(ctx); err != nil {
			n.log.Warn("shutting down", "error", err)
		}
	}
	r := n.raft.Load()
	if r != nil && n.broken() == nil {
		n.handLeadershipOver(r)
	}
	n.cancel()
	n.retrier.Close()
	n.proposer.Close()
	if r == nil {
		n.wg.Wait()
		return errors.Join(n.link.Close(), n.dir.Close())
	}
	ended := make(chan error, 1)
	stopping := r.Shutdown()
	go func() {
		err := stopping.Error()
		close(n.raftEnded)
		n.wg.Wait()
		ended <- err
	}()
	select {
	case err := <-ended:
		return errors.Join(err, n.link.Close(), n.dir.Close())
	case <-time.After(raftEnds):
		// A leader that lost its office under load may leave a goroutine of the library that never ends. The log
		// is on disk and the lock goes with the process: leave it, and answer nobody any more.
		n.log.Warn("raft does not end; the process ends without it")
		return n.link.Close()
	}
}

// raftEnds bounds how long raft may take to end.
const raftEnds = 5 * time.Second

func (n *Node) handLeadershipOver(r *raft.Raft) {
	if r.State() != raft.Leader || n.voters() < 2 {
		return
	}
	if err := n.transfer(r, nil); err != nil {
		n.log.Warn("handing leadership over; the others will elect", "error", err)
	}
}

// catchUpOnce waits until this node has everything that the leader had, once: from then on it is ready.
func (n *Node) catchUpOnce() {
	for n.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(n.ctx, n.cfg.RequestTimeout)
		err := n.catchUp(ctx)
		cancel()
		if err == nil {
			if err := n.founding.Settle(); err != nil {
				n.fail(err)
				return
			}
			n.caughtUp.Store(true)
			n.log.Info("ready", "index", n.progress.index.Load())
			return
		}
	}
}

// ReloadTLS reads the certificates of the cluster port anew, where they come from files: open connections are made again
// under them. Broken files leave the old ones in force, and the error says why.
func (n *Node) ReloadTLS() error {
	if port, ok := n.link.(*peer.Port); ok {
		return port.ReloadTLS()
	}
	return nil
}
