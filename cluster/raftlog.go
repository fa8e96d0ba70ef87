package cluster

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"onced/cluster/propose"
	"onced/fsm/command"
	"onced/internal/planted"
)

// enqueueTimeout bounds how long raft's own queue may make the proposer wait.
const enqueueTimeout = time.Second

// raftLog is the proposer's log: raft, with its errors sorted into "not applied" and
// "unknown" in this one place.
type raftLog struct{ node *Node }

// Append is part of propose.Log.
func (l raftLog) Append(data []byte) propose.Future {
	r := l.node.raft.Load()
	if r == nil {
		return failed{fmt.Errorf("there is no cluster yet: %w", propose.ErrNotApplied)}
	}
	f := future{r.Apply(data, enqueueTimeout)}
	l.node.asked(f)
	if planted.AckBeforeCommit {
		return hasty{f, l.node, data}
	}
	return f
}

// asked sees every future that the node waits for. raft never answers some that it has when it is shut down; who waits for
// one stays as long as the process, which is about to end. A test's bubble does not end with one, and has futures end with the node.
func (n *Node) asked(f raft.Future) {
	if watchFuture != nil {
		watchFuture(n, f)
	}
}

// watchFuture is set by tests only.
var watchFuture func(*Node, raft.Future)

type failed struct{ err error }

// Wait is part of propose.Future.
func (f failed) Wait() (*command.Results, error) { return nil, f.err }

type future struct{ raft.ApplyFuture }

// Wait is part of propose.Future.
func (f future) Wait() (*command.Results, error) {
	if err := f.Error(); err != nil {
		return nil, sorted(err)
	}
	return results(f.Response(), f.Index())
}

// sorted says what an error of raft.Apply means. Only these three are certain:
// the entry was never put into the log. ErrRaftShutdown is not, as the future gives it for an entry
// that was; nor is a full or failing disk, nor anything new (raft#561).
func sorted(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress), errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("%w: %w", propose.ErrNotApplied, err)
	}
	return fmt.Errorf("%w: %w", propose.ErrUnknown, err)
}
