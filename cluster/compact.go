package cluster

import (
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

// compactEvery is how often the size of the log is looked at.
const compactEvery = 2 * time.Second

// compact takes a snapshot whenever enough bytes of log have come since the last one.
// A snapshot copies nothing: it puts the table on disk and notes how far it is. raft counts what to
// keep of the log in entries; here bytes are turned into entries each time.
func (n *Node) compact(r *raft.Raft) {
	every(n.ctx, compactEvery, func() {
		if !cutDue(n.dir.BytesSinceSnapshot(), n.cfg.SnapshotBytes, n.dir.Snapshots().Sending() && !n.space().Low()) {
			return
		}
		if err := n.snapshot(r); err != nil && n.ctx.Err() == nil {
			n.log.Warn("snapshot", "error", err)
		}
	})
}

// patientCuts is how many times the usual size the log may have before it is cut although a member needs it.
const patientCuts = 16

// cutDue tells whether a log with so many bytes since the last snapshot is to be cut. While a table is on its way to a member that waits: cut
// before the member has it, the log would no longer reach back to where the table ends, and the member would have to begin
// anew, each time.
func cutDue(since, limit int64, sending bool) bool {
	if sending {
		limit *= patientCuts
	}
	return since >= limit
}

// snapshot takes one now, and lets raft drop the log that is not needed any more.
func (n *Node) snapshot(r *raft.Raft) error {
	reloadable := r.ReloadableConfig()
	reloadable.TrailingLogs = max(minTrailing, n.dir.Logs().TrailingFor(n.cfg.TrailingBytes))
	if err := r.ReloadConfig(reloadable); err != nil {
		return err
	}
	start := time.Now()
	err := r.Snapshot().Error()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	if err == nil {
		n.log.Info("snapshot", "index", n.dir.Snapshots().LastIndex(), "took", time.Since(start).Round(time.Millisecond),
			"trailing_entries", reloadable.TrailingLogs)
	}
	return err
}

// minTrailing is the fewest entries kept behind a snapshot.
const minTrailing = 64
