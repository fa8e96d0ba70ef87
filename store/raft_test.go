package store

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// machine is the least state machine on a Table: an entry's data is the key of a completed record.
type machine struct{ dir *Dir }

func (m machine) Apply(l *raft.Log) any { return m.ApplyBatch([]*raft.Log{l})[0] }

func (m machine) ApplyBatch(logs []*raft.Log) []any {
	answers := make([]any, len(logs))
	table := m.dir.Table()
	last := logs[len(logs)-1]
	if last.Index <= table.Applied() {
		return answers
	}
	tx := table.Begin()
	for i, l := range logs {
		if l.Type != raft.LogCommand || l.Index <= table.Applied() {
			continue
		}
		old, err := tx.Row(id("t", "", string(l.Data)))
		if err == nil && old != nil {
			err = fmt.Errorf("entry %d is done twice", l.Index)
		}
		tx.PutRow(id("t", "", string(l.Data)), old, completed(l.Index, int64(l.Index), "body"))
		answers[i] = err
	}
	if err := tx.Commit(last.Index, last.Term); err != nil {
		answers[len(logs)-1] = err
	}
	return answers
}

func (m machine) Snapshot() (raft.FSMSnapshot, error) { return m.dir.Table().Snapshot(), nil }

func (m machine) Restore(r io.ReadCloser) error { return m.dir.Restore(r) }

type node struct {
	*raft.Raft
	dir   *Dir
	trans *raft.InmemTransport
	path  string
}

// newPath makes a directory with a log of a kind.
func newPath(t *testing.T, kind LogKind) string {
	t.Helper()
	path := t.TempDir()
	mustClose(t, mustOpenLog(t, path, kind))
	return path
}

func startNode(t *testing.T, name, path string) *node {
	t.Helper()
	n := &node{dir: mustOpen(t, path), path: path}
	config := raft.DefaultConfig()
	config.LocalID = raft.ServerID(name)
	config.HeartbeatTimeout, config.ElectionTimeout, config.LeaderLeaseTimeout = 200*time.Millisecond, 200*time.Millisecond, 200*time.Millisecond
	config.CommitTimeout = 5 * time.Millisecond
	config.SnapshotInterval, config.TrailingLogs = time.Hour, 2
	config.NoSnapshotRestoreOnStart = true
	config.Logger = hclog.NewNullLogger()
	_, n.trans = raft.NewInmemTransport(raft.ServerAddress(name))
	var err error
	n.Raft, err = raft.NewRaft(config, machine{n.dir}, n.dir.Logs(), n.dir.Stable(), n.dir.Snapshots(), n.trans)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Shutdown().Error() }) // before the directory is closed
	return n
}

func (n *node) stop(t *testing.T) {
	t.Helper()
	if err := n.Shutdown().Error(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(n.trans.Close(), n.dir.Close()); err != nil {
		t.Error(err)
	}
}

func (n *node) put(t *testing.T, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		f := n.Apply([]byte(fmt.Sprintf("key-%d", i)), 10*time.Second)
		if err := f.Error(); err != nil {
			t.Fatal(err)
		}
		if f.Response() != nil {
			t.Fatal(f.Response())
		}
	}
}

func (n *node) expect(t *testing.T, keys int) {
	t.Helper()
	page, err := n.dir.Table().List(ListQuery{Tenant: "t", Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Rows) != keys {
		t.Errorf("the table has %d keys, expected %d", len(page.Rows), keys)
	}
}

func (n *node) lead(t *testing.T) {
	t.Helper()
	select {
	case <-n.LeaderCh():
	case <-time.After(30 * time.Second):
		t.Fatal("no leader within 30 s")
	}
}

// TestUnderRaft runs a leader through snapshots and restarts, and a second member that can only
// catch up by a snapshot.
func TestUnderRaft(t *testing.T) {
	// In virtual time: no load on the machine makes a leader lose its lease.
	onEachLog(t, func(t *testing.T, kind LogKind) {
		synctest.Test(t, func(t *testing.T) { testUnderRaft(t, kind) })
	})
}

func testUnderRaft(t *testing.T, kind LogKind) {
	a := startNode(t, "a", newPath(t, kind))
	if err := a.BootstrapCluster(raft.Configuration{Servers: []raft.Server{{ID: "a", Address: "a"}}}).Error(); err != nil {
		t.Fatal(err)
	}
	a.lead(t)
	a.put(t, 1, 20)
	if err := a.Barrier(10 * time.Second).Error(); err != nil { // an entry that the machine does not see
		t.Fatal(err)
	}
	if err := a.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	if first, _ := a.dir.Logs().FirstIndex(); first < 10 {
		t.Errorf("the log still begins at %d", first)
	}
	a.put(t, 21, 30)
	a.stop(t)

	a = startNode(t, "a", a.path)
	a.lead(t)
	if err := a.Barrier(10 * time.Second).Error(); err != nil {
		t.Fatal(err)
	}
	a.expect(t, 30)
	a.put(t, 31, 40)

	b := startNode(t, "b", newPath(t, kind))
	a.trans.Connect("b", b.trans)
	b.trans.Connect("a", a.trans)
	if err := a.AddVoter("b", "b", 0, 10*time.Second).Error(); err != nil {
		t.Fatal(err)
	}
	a.put(t, 41, 50)
	deadline := time.Now().Add(time.Minute)
	for b.dir.Table().Applied() < a.dir.Table().Applied() {
		if time.Now().After(deadline) {
			t.Fatalf("the follower is at %d, the leader at %d", b.dir.Table().Applied(), a.dir.Table().Applied())
		}
		time.Sleep(5 * time.Millisecond)
	}
	b.expect(t, 50)
	if b.dir.Snapshots().LastIndex() == 0 {
		t.Error("the follower got no snapshot")
	}
	b.stop(t)
	a.stop(t)

	b = startNode(t, "b", b.path)
	if b.AppliedIndex() > b.dir.Table().Applied() {
		t.Errorf("raft takes %d for applied, the table is at %d", b.AppliedIndex(), b.dir.Table().Applied())
	}
	b.expect(t, 50)
	b.stop(t)
}
