package cluster

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"onced"
	"onced/cluster/clock"
	"onced/cluster/founding"
	"onced/cluster/peer"
	"onced/cluster/watch"
	"onced/fsm"
	"onced/store"
)

// OfflineConfig is what work on a data directory needs while no node runs on it. NodeID, DataDir and Address are required.
type OfflineConfig struct {
	NodeID  string
	DataDir string
	Address string                  // of the node's cluster port, host:port; the node corrects it when it first leads
	Logger  *slog.Logger            // nil = none
	Fault   func(step string) error // see store.Options; for tests
}

func (c OfflineConfig) check() error {
	if err := peer.CheckNodeID(c.NodeID); err != nil {
		return refuse("%w", err)
	}
	if err := peer.CheckAddr(c.Address); err != nil {
		return refuse("%w", err)
	}
	return nil
}

// Restore makes the data directory that of the first node of a new cluster, from a backup: new is the cluster's
// id. The records are those of the backup. Their open reservations too: their holders may complete them at the new cluster with
// the tokens that they have, and their leases lapse by the cluster's time, which goes on. After an error nothing is left.
func Restore(c OfflineConfig, backup io.Reader) (newID string, out store.Refounded, err error) {
	if err := c.check(); err != nil {
		return "", out, err
	}
	newID = founding.NewID()
	out, err = store.RestoreBackup(c.DataDir, backup, store.RestoreOptions{
		NewCluster: store.NewCluster{ClusterID: newID, NodeID: c.NodeID, Address: c.Address}, Logger: c.Logger, Fault: c.Fault,
	})
	return newID, out, err
}

// Recovery makes the last node that is left of a cluster the only member of a new one. Make it with
// PlanRecovery, look at Plan, and Run and Close it.
type Recovery struct {
	Plan RecoveryPlan
	cfg  OfflineConfig
	dir  *store.Dir
}

// RecoveryPlan tells what the directory holds.
type RecoveryPlan struct {
	ClusterID string
	NodeID    string
	Removed   bool           // the node had been removed from the cluster
	Members   []onced.Member // as this node last knew them
	LastIndex uint64         // of its log or of its table
	LastTerm  uint64         // of that entry
	LastStamp time.Time      // the cluster's time at the last entry that says one
	Applied   uint64         // index of the last entry that the table has; it was committed
	Undecided uint64         // entries after it: this directory does not tell whether they were committed
	LastToken uint64         // that the table knows of
}

// PlanRecovery opens the data directory, which no process may hold, and looks at it. Nothing is decided yet.
func PlanRecovery(c OfflineConfig) (*Recovery, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(c.DataDir, "identity.json")); err != nil {
		return nil, refuse("%s is no node's data directory: %w", c.DataDir, err)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Recovery{cfg: c}
	dir, err := store.Open(c.DataDir, store.Options{
		Fatal:      func(error) {}, // each write tells it too, and nobody else waits
		StallLimit: time.Minute, Logger: c.Logger, Fault: c.Fault, Work: store.WorkRecover,
	})
	if err != nil {
		return nil, refuse("%w", err)
	}
	r.dir = dir
	if err := r.plan(); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return r, nil
}

func (r *Recovery) plan() error {
	id, ok := r.dir.Identity()
	last, err := r.dir.Logs().LastIndex()
	switch table := r.dir.Table(); {
	case err != nil:
		return fmt.Errorf("reading raft's log: %w", err)
	case !ok || last == 0 && table.Applied() == 0:
		return refuse("%s holds nothing of a cluster: there is nothing to recover", r.cfg.DataDir)
	case id.NodeID != r.cfg.NodeID:
		return refuse("the data directory %s belongs to node %s of cluster %s, not to %s", r.cfg.DataDir, id.NodeID, id.ClusterID, r.cfg.NodeID)
	default:
		meta := table.Meta()
		r.Plan = RecoveryPlan{
			ClusterID: id.ClusterID, NodeID: id.NodeID, Removed: id.Phase == string(founding.PhaseRemoved),
			LastIndex: table.Applied(), LastTerm: table.AppliedTerm(), Applied: table.Applied(),
			LastStamp: time.UnixMilli(meta.Clock).UTC(), LastToken: meta.LastToken,
		}
	}
	return r.readLog(last)
}

// readLog looks for the last configuration, and at how far the log goes.
func (r *Recovery) readLog(last uint64) error {
	var servers []raft.Server
	metas, err := r.dir.Snapshots().List()
	if err != nil {
		return fmt.Errorf("reading the snapshots: %w", err)
	}
	first, err := r.dir.Logs().FirstIndex()
	if err != nil {
		return fmt.Errorf("reading raft's log: %w", err)
	}
	if len(metas) > 0 {
		servers, first = metas[0].Configuration.Servers, max(first, metas[0].Index+1)
	}
	for i := max(first, 1); i <= last; i++ {
		var entry raft.Log
		if err := r.dir.Logs().GetLog(i, &entry); err != nil {
			return fmt.Errorf("reading entry %d of raft's log: %w", i, err)
		}
		switch {
		case entry.Type == raft.LogConfiguration:
			servers = raft.DecodeConfiguration(entry.Data).Servers
		case entry.Type == raft.LogCommand && i > r.Plan.Applied:
			e, err := fsm.DecodeEntry(entry.Data)
			if err != nil {
				return err
			}
			r.Plan.LastStamp = time.UnixMilli(e.StampMs).UTC()
		}
		if i == last && last > r.Plan.Applied {
			r.Plan.LastIndex, r.Plan.LastTerm, r.Plan.Undecided = last, entry.Term, last-r.Plan.Applied
		}
	}
	for _, s := range servers {
		r.Plan.Members = append(r.Plan.Members, onced.Member{ID: string(s.ID), Address: string(s.Address), Voter: s.Suffrage == raft.Voter})
	}
	return nil
}

// Run does it: everything in this node's log is taken for committed, and the table becomes that of a new cluster of this node
// alone, whose tokens begin above any that the old one can have given out. The new cluster has a new id, so
// that nodes of the old one, should they come back, are refused. When it is interrupted it has to be done again.
func (r *Recovery) Run() (newID string, out store.Refounded, err error) {
	if err := r.dir.Begin(); err != nil {
		return "", out, err
	}
	if err := r.replay(); err != nil {
		return "", out, fmt.Errorf("applying the log: %w", err)
	}
	newID = founding.NewID()
	out, err = r.dir.Refound(store.NewCluster{ClusterID: newID, NodeID: r.cfg.NodeID, Address: r.cfg.Address})
	if err != nil {
		return "", out, err
	}
	return newID, out, r.dir.Finish()
}

// replayEntries is how many entries are applied as one write.
const replayEntries = 256

// replay applies the entries that the table does not have.
func (r *Recovery) replay() error {
	table := r.dir.Table()
	var stopped error
	m := &machine{
		dir: r.dir, table: table, clock: clock.New(clock.Config{Wall: time.Now}), leases: &leases{}, watchers: watch.New(1),
		progress: newProgress(table.Applied()), log: r.cfg.Logger, fatal: func(err error) { stopped = err },
		live: func() bool { return false }, // nothing is heard of anybody
	}
	if err := m.leases.load(table); err != nil {
		return err
	}
	for next := table.Applied() + 1; next <= r.Plan.LastIndex; {
		var logs []*raft.Log
		for ; next <= r.Plan.LastIndex && len(logs) < replayEntries; next++ {
			entry := new(raft.Log)
			if err := r.dir.Logs().GetLog(next, entry); err != nil {
				return fmt.Errorf("reading entry %d: %w", next, err)
			}
			logs = append(logs, entry)
		}
		if m.ApplyBatch(logs); m.broken {
			return stopped
		}
	}
	return nil
}

// Close leaves the directory. Without Run it is as it was.
func (r *Recovery) Close() error { return r.dir.Close() }
