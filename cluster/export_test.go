package cluster

import (
	"context"
	"reflect"

	"github.com/hashicorp/raft"

	"onced/fsm"
)

// A future of raft's has a channel that ends it, which Apply and Barrier leave unset.
func init() {
	watchFuture = func(n *Node, f raft.Future) {
		if ours, ok := f.(future); ok {
			f = ours.ApplyFuture
		}
		v := reflect.ValueOf(f)
		if v.Kind() != reflect.Pointer {
			return // it is answered already
		}
		v.Elem().FieldByName("ShutdownCh").Set(reflect.ValueOf(n.raftEnded))
	}
}

// What tests outside the package reach for.

// CompareNow has the members compare their tables, on the leader.
func (n *Node) CompareNow(ctx context.Context) { n.compareOnce(ctx) }

// SnapshotNow takes a snapshot and drops the log behind it.
func (n *Node) SnapshotNow() error { return n.snapshot(n.raft.Load()) }

// TableMeta is the table's meta data and the index it is of.
func (n *Node) TableMeta() (uint64, fsm.Meta) { return n.progress.index.Load(), n.table.Meta() }

// LookAtRoom looks at the disk now.
func (n *Node) LookAtRoom() { n.lookAtRoom() }

// CutDue is cutDue.
func CutDue(since, limit int64, sending bool) bool { return cutDue(since, limit, sending) }
