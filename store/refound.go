package store

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"onced"
)

// TokenGap is how far the tokens of a new cluster begin above the last one that its table knows of: more than the
// old cluster can have given out since.
const TokenGap = 1 << 32

// NewCluster is what a data directory becomes the first and only member of.
type NewCluster struct {
	ClusterID string // one that no cluster had before
	NodeID    string
	Address   string // of the node's cluster port, host:port; the node corrects it once it has one
}

// Refounded tells what became of a table in a new cluster.
type Refounded struct {
	From      string // the id of the cluster that the table was of
	Index     uint64 // of the log entry that the new cluster begins after
	LastToken uint64 // the largest that the table knew of
	First     uint64 // the new cluster's tokens begin above it
	Clock     int64  // the table's clock, cluster milliseconds
}

// Refound makes the directory that of the first and only member of a new cluster, with the table as it is: the
// whole of raft's log must be in it. It was opened with Options.Work, whose mark keeps it from being used until Finish. Each
// step may be done again.
//
//	table     the new cluster's id, and tokens that never were
//	term      at least that of the table's last entry
//	snapshot  up to that entry, with a configuration of this node alone
//	log       empty
//	identity  the new cluster's
func (d *Dir) Refound(c NewCluster) (Refounded, error) {
	index := d.table.Applied()
	if index == 0 {
		return Refounded{}, errors.New("founding a cluster anew: its table is empty")
	}
	out, err := d.table.rebase(c.ClusterID)
	if err != nil {
		return Refounded{}, fmt.Errorf("founding a cluster anew: %w", err)
	}
	if err := d.refoundRaft(c, index); err != nil {
		return Refounded{}, fmt.Errorf("founding a cluster anew: %w", err)
	}
	if err := d.SetIdentity(Identity{ClusterID: c.ClusterID, NodeID: c.NodeID, Phase: PhaseMember}); err != nil {
		return Refounded{}, fmt.Errorf("founding a cluster anew: %w", err)
	}
	return out, nil
}

func (d *Dir) refoundRaft(c NewCluster, index uint64) error {
	term, err := d.stable.GetUint64([]byte(currentTermKey))
	if err != nil && !errors.Is(err, errNotFound) {
		return err
	}
	if err := d.stable.SetUint64([]byte(currentTermKey), max(term, d.table.AppliedTerm(), 1)); err != nil {
		return err
	}
	alone := raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Voter, ID: raft.ServerID(c.NodeID), Address: raft.ServerAddress(c.Address)}}}
	sink, err := d.snapshots.Create(1, index, max(d.table.AppliedTerm(), 1), alone, index, nil)
	if err != nil {
		return err
	}
	if err := d.table.Snapshot().Persist(sink); err != nil {
		return err
	}
	first, err := d.logs.FirstIndex()
	if err != nil {
		return err
	}
	last, err := d.logs.LastIndex()
	if err != nil || last == 0 {
		return err
	}
	return d.logs.DeleteRange(first, last)
}

// rebase gives the table to another cluster, on disk when it returns.
func (t *Table) rebase(cluster string) (Refounded, error) {
	t.writes.Lock()
	state := *t.state.Load()
	out := Refounded{
		From: state.meta.ClusterID, Index: state.applied, LastToken: state.meta.LastToken,
		First: state.meta.LastToken + TokenGap, Clock: state.meta.Clock,
	}
	if out.First >= uint64(onced.MaxToken) {
		t.writes.Unlock()
		return out, fmt.Errorf("the last token is %d: there is no room for another %d below %d", out.LastToken, int64(TokenGap), int64(onced.MaxToken))
	}
	state.meta.ClusterID, state.meta.LastToken = cluster, out.First
	state.meta.MarkIndex, state.meta.MarkHistory = 0, 0 // of entries that the new log does not have
	err := t.use(func(d *db) error {
		b := d.NewBatch()
		defer b.Close()
		return t.write(b, state)
	})
	t.writes.Unlock()
	if err != nil {
		return out, err
	}
	return out, t.Flush()
}
