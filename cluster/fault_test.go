package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"onced"
	"onced/cluster"
	"onced/fsm"
	"onced/store"
)

// write reserves and completes a key through a node.
func write(t testing.TB, n *cluster.Node, key string) {
	t.Helper()
	ctx := context.Background()
	got, err := n.Reserve(ctx, onced.ReserveRequest{ID: id(key), Fingerprint: "f"})
	if err != nil {
		t.Fatalf("reserving %s: %v", key, err)
	}
	if _, err := n.Complete(ctx, onced.CompleteRequest{ID: id(key), Token: got.Record.Token, Response: answer(key)}); err != nil {
		t.Fatalf("completing %s: %v", key, err)
	}
}

// sameTables waits until every node that is up has applied the same, and compares the
// checksums of their histories.
func (h *harness) sameTables() {
	h.t.Helper()
	eventually(h.t, "equal tables", func() error {
		var index uint64
		var meta fsm.Meta
		for i, n := range h.nodes {
			if n == nil {
				continue
			}
			at, m := n.TableMeta()
			if index == 0 {
				index, meta = at, m
			}
			if at != index || m.History != meta.History || m.LastToken != meta.LastToken {
				return fmt.Errorf("%s is at %d with checksum %016x, the first at %d with %016x", h.peers[i].ID, at, m.History, index, meta.History)
			}
		}
		return nil
	})
}

// TestShutdownHandsLeadershipOver: the leader's end in good order costs no election. It hands over
// only right before its end, since a leader may not serve again after a transfer (raft#696).
func TestShutdownHandsLeadershipOver(t *testing.T) {
	const election = 3 * time.Second // at least, before another node would try
	h := start(t, 3, func(_ int, c *cluster.Config) { c.ElectionTimeout = election })
	leader := h.leader()
	began := time.Now()
	h.stop(leader)
	next := h.leader()
	if next == leader {
		t.Fatal("the stopped node leads")
	}
	write(t, h.nodes[next], "k")
	if took := time.Since(began); took >= election {
		t.Errorf("writing went on after %v: that was an election, not a hand-over", took)
	}
}

// TestLaggingFollowerGetsSnapshot: a follower that was away longer than the log reaches gets the
// table streamed, and it equals the others'.
func TestLaggingFollowerGetsSnapshot(t *testing.T) {
	h := start(t, 3, func(_ int, c *cluster.Config) { c.TrailingBytes = 1 })
	leader, away := h.leader(), h.follower()
	write(t, h.nodes[leader], "before")
	h.stop(away)
	for i := range 200 { // more entries than are kept at least
		write(t, h.nodes[leader], fmt.Sprintf("k%d", i))
	}
	if err := h.nodes[leader].SnapshotNow(); err != nil {
		t.Fatal(err)
	}
	log := capture(h, away)
	h.open(away)
	h.ready()
	h.sameTables()
	if !strings.Contains(log.String(), "restored the table from a snapshot") {
		t.Error("it caught up without a snapshot: the test tests nothing")
	}
	rec, err := h.nodes[away].Get(context.Background(), onced.GetRequest{ID: id("k7"), Stale: true})
	if err != nil || !rec.Response.Equal(answer("k7")) {
		t.Errorf("after the snapshot: %+v, %v", rec, err)
	}
}

// capture makes a node log into a buffer at its next start.
func capture(h *harness, i int) *buffer {
	log := &buffer{}
	tune := h.tune
	h.tune = func(j int, c *cluster.Config) {
		if tune != nil {
			tune(j, c)
		}
		if i == j {
			c.Logger = slog.New(slog.NewTextHandler(log, nil))
		}
	}
	return log
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestRestartReplaysWhatIsMissing: the entries that the table has are skipped, and the log line says how many.
func TestRestartReplaysWhatIsMissing(t *testing.T) {
	h := start(t, 1, nil)
	for i := range 20 {
		write(t, h.nodes[0], fmt.Sprintf("k%d", i))
	}
	_, before := h.nodes[0].TableMeta()
	h.stop(0)
	log := capture(h, 0)
	h.open(0)
	h.ready()
	if _, after := h.nodes[0].TableMeta(); after.History != before.History {
		t.Error("the restart changed the table")
	}
	if !strings.Contains(log.String(), "the table had these entries already") || !strings.Contains(log.String(), "skipped=4") {
		t.Errorf("no line that about 40 entries were skipped:\n%s", log.String())
	}
}

// TestMinorityTableStops: a node whose table was changed behind the log's back is found by its
// checksum, and stops. The others go on.
func TestMinorityTableStops(t *testing.T) {
	h := start(t, 3, nil)
	bad := h.follower()
	write(t, h.nodes[bad], "k")
	h.stop(bad)
	forge(t, h.dirs[bad])
	h.open(bad)
	h.ready()
	write(t, h.nodes[h.leader()], "after")
	for h.nodes[bad].Err() == nil {
		h.nodes[h.leader()].CompareNow(context.Background())
		select {
		case <-h.nodes[bad].Done():
		case <-time.After(50 * time.Millisecond): // its table had not reached the mark; ask again
		}
	}
	if err := h.nodes[bad].Err(); !errors.Is(err, fsm.ErrDiverged) {
		t.Errorf("the node with the forged table stopped with %v", err)
	}
	for i, n := range h.nodes {
		if i != bad && n.Err() != nil {
			t.Errorf("%s stopped too: %v", h.peers[i].ID, n.Err())
		}
	}
	write(t, h.nodes[h.leader()], "goes on")
}

// forge changes a table as no log entry did.
func forge(t *testing.T, path string) {
	t.Helper()
	dir, err := store.Open(path, store.Options{Fatal: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	table := dir.Table()
	tx := table.Begin()
	meta := tx.Meta()
	meta.History++
	tx.PutMeta(meta)
	if err := tx.Commit(table.Applied()+1, table.AppliedTerm()); err != nil {
		t.Fatal(err)
	}
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
}

// TestWrongClock: one node's clock is an hour off, leader or not; a lease is neither
// shortened nor frozen. (F13)
func TestWrongClock(t *testing.T) {
	const lease = time.Second
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			h := start(t, 3, func(i int, c *cluster.Config) {
				if i == 0 {
					c.Wall = func() time.Time { return time.Now().Add(off) }
				}
			})
			for i := range 3 { // each node leads once
				for h.leader() != i {
					other := h.leader()
					h.stop(other)
					h.leader()
					h.open(other)
					h.ready()
				}
				key := fmt.Sprintf("led-by-%d", i)
				began := time.Now()
				if _, err := h.nodes[i].Reserve(context.Background(), onced.ReserveRequest{ID: id(key), Fingerprint: "f", Lease: lease}); err != nil {
					t.Fatal(err)
				}
				granted := time.Now()
				rec, err := h.nodes[(i+1)%3].Get(context.Background(), onced.GetRequest{ID: id(key), Wait: 20 * time.Second})
				if err != nil || rec.State != onced.StateUnknown {
					t.Fatalf("%+v, %v", rec, err)
				}
				if early := time.Since(began); early < lease*98/100 {
					t.Errorf("led by n%d: the lease of %v was over after %v", i+1, lease, early)
				}
				if late := time.Since(granted); late > lease+10*time.Second {
					t.Errorf("led by n%d: the lease of %v was over only after %v", i+1, lease, late)
				}
			}
		})
	}
}

// TestWipedNodeIsRefused: under its old name an empty directory never votes again.
func TestWipedNodeIsRefused(t *testing.T) {
	h := start(t, 3, nil)
	wiped := h.follower()
	h.stop(wiped)
	if err := os.RemoveAll(h.dirs[wiped]); err != nil {
		t.Fatal(err)
	}
	h.open(wiped)
	select {
	case <-h.nodes[wiped].Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the wiped node is not refused")
	}
	if err := h.nodes[wiped].Err(); !cluster.Refused(err) || !strings.Contains(err.Error(), "wiped") {
		t.Errorf("refused with %v", err)
	}
}

// TestNodeIDOfDirectory: a directory starts under its own name only.
func TestNodeIDOfDirectory(t *testing.T) {
	h := start(t, 1, nil)
	h.stop(0)
	cfg := h.config(0)
	cfg.NodeID = "other"
	if n, err := cluster.Open(context.Background(), cfg); err == nil || !cluster.Refused(err) {
		t.Errorf("opened %v, %v", n, err)
	}
}

// TestJoinUnderLoad: a fourth node joins while others write, catches up, becomes a voter and has everything.
func TestJoinUnderLoad(t *testing.T) {
	h := start(t, 3, nil)
	founders, stop := h.nodes, make(chan struct{})
	var written atomic.Int64
	var load sync.WaitGroup
	for w := range 4 {
		load.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					write(t, founders[w%3], fmt.Sprintf("w%d-%d", w, i))
					written.Add(1)
				}
			}
		})
	}
	cfg := h.config(0)
	cfg.NodeID, cfg.ClusterAddr, cfg.Peers, cfg.Join = "n4", freeAddr(t), nil, h.peers[h.follower()].Address
	cfg.DataDir = filepath.Join(t.TempDir(), "n4")
	joined, err := cluster.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.nodes, h.peers = append(h.nodes, joined), append(h.peers, cluster.Peer{ID: "n4"})
	eventually(t, "n4 is a voter", func() error {
		if role := joined.Status().Role; role != "follower" {
			return fmt.Errorf("n4 is %s: %v %v", role, joined.Ready(), joined.Err())
		}
		return nil
	})
	close(stop)
	load.Wait()
	h.sameTables()
	if written.Load() == 0 {
		t.Error("nothing was written meanwhile")
	}
}

// TestFoundingGoesOnAfterACrash: the founder died after raft's term was written and before the first
// entry was, at which the library's own bootstrap would give up for ever.
func TestFoundingGoesOnAfterACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n1")
	dir, err := store.Open(path, store.Options{Fatal: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	identity := store.Identity{ClusterID: strings.Repeat("ab", 16), NodeID: "n1", Phase: store.PhaseFounding}
	if err := errors.Join(dir.SetIdentity(identity), dir.Stable().SetUint64([]byte("CurrentTerm"), 1), dir.Close()); err != nil {
		t.Fatal(err)
	}
	n, err := cluster.Open(context.Background(), cluster.Config{NodeID: "n1", DataDir: path, ClusterAddr: freeAddr(t), Logger: testLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Shutdown(context.Background())
	eventually(t, "n1 is ready", n.Ready)
	write(t, n, "k")
	if got := n.Status().ClusterID; got != identity.ClusterID {
		t.Errorf("the cluster is %s, begun as %s", got, identity.ClusterID)
	}
}

// disk is one whose room a test decides.
type disk struct{ free atomic.Uint64 }

const diskBytes = 1 << 30 // its floor is a twentieth

func (d *disk) usage() (uint64, uint64) { return d.free.Load(), diskBytes }

// TestDiskNearlyFull: a leader whose disk is nearly full is not ready, hands over to the voter that has room, follows on, and is
// ready again once it has room.
func TestDiskNearlyFull(t *testing.T) {
	var disks [3]disk
	h := start(t, 3, func(i int, c *cluster.Config) {
		disks[i].free.Store(diskBytes / 2)
		c.Usage = disks[i].usage
	})
	leader := h.leader()
	roomy := (leader + 1) % 3
	disks[(leader+2)%3].free.Store(diskBytes / 100)
	eventually(t, "the follower is not ready", func() error {
		if err := h.nodes[(leader+2)%3].Ready(); err == nil || !strings.Contains(err.Error(), "nearly full") {
			return fmt.Errorf("it says: %v", err)
		}
		return nil
	})
	if got := h.leader(); got != leader {
		t.Fatalf("a follower's disk moved the leadership to %d", got)
	}
	disks[leader].free.Store(diskBytes / 100)
	eventually(t, "the one with room leads", func() error {
		if s := h.nodes[roomy].Status(); s.Role != "leader" {
			return fmt.Errorf("it is a %s", s.Role)
		}
		return nil
	})
	write(t, h.nodes[leader], "through a full one")
	disks[leader].free.Store(diskBytes / 19) // above the floor, and not clearly
	h.nodes[leader].LookAtRoom()
	if err := h.nodes[leader].Ready(); err == nil {
		t.Error("it is ready again at once")
	}
	for i := range disks {
		disks[i].free.Store(diskBytes / 2)
	}
	h.ready()
	h.sameTables()
}

// TestNobodyHasRoom: a leader with nobody to hand over to leads on.
func TestNobodyHasRoom(t *testing.T) {
	var small disk
	small.free.Store(diskBytes / 100)
	h := start(t, 1, func(_ int, c *cluster.Config) { c.Usage = func() (uint64, uint64) { return diskBytes / 2, diskBytes } })
	h.stop(0)
	h.tune = func(_ int, c *cluster.Config) { c.Usage = small.usage }
	h.open(0)
	eventually(t, "it leads", func() error {
		if h.nodes[0].Status().Role != "leader" {
			return errors.New("it does not")
		}
		return nil
	})
	write(t, h.nodes[0], "k")
	if err := h.nodes[0].Ready(); err == nil || !strings.Contains(err.Error(), "nearly full") {
		t.Errorf("ready: %v", err)
	}
}

// TestNoRoomForASnapshot: a follower that needs a snapshot and has no room for it takes nothing in, stays in one piece, and catches
// up once it has room.
func TestNoRoomForASnapshot(t *testing.T) {
	var disks [3]disk
	h := start(t, 3, func(i int, c *cluster.Config) {
		disks[i].free.Store(diskBytes / 2)
		c.TrailingBytes = 1
		c.Usage = disks[i].usage
	})
	leader, follower := h.leader(), h.follower()
	away := &disks[follower]
	h.stop(follower)
	for i := range 200 {
		write(t, h.nodes[leader], fmt.Sprintf("k%d", i))
	}
	if err := h.nodes[leader].SnapshotNow(); err != nil {
		t.Fatal(err)
	}
	log := capture(h, follower)
	h.tune = func(tune func(int, *cluster.Config)) func(int, *cluster.Config) {
		return func(i int, c *cluster.Config) {
			tune(i, c)
			away.free.Store(diskBytes / 100)
		}
	}(h.tune)
	h.open(follower)
	eventually(t, "the snapshot is refused", func() error {
		if !strings.Contains(log.String(), "too little of the disk is free") {
			return errors.New("not yet")
		}
		return nil
	})
	if strings.Contains(log.String(), "failed to restore snapshot") {
		t.Error("it was taken in, and then there was no room to unpack it")
	}
	away.free.Store(diskBytes / 2)
	h.ready()
	h.sameTables()
}

// TestWrongClockAcrossTerms: one node's clock is an hour behind, and the leader changes while another node is away and
// again when it is back. Time goes on from what the nodes heard, so that the lease which was granted in between is
// not cut by a jump.
func TestWrongClockAcrossTerms(t *testing.T) {
	const idle, lease = 3 * time.Second, 4 * time.Second
	h := start(t, 3, func(i int, c *cluster.Config) {
		if i == 0 {
			c.Wall = func() time.Time { return time.Now().Add(-time.Hour) }
			return
		}
		c.ElectionTimeout = 1500 * time.Millisecond // so that the wrong one is elected wherever it is there
	})
	h.stop(0)
	first := h.leader()
	h.open(0)
	h.ready()
	write(t, h.nodes[first], "before")
	time.Sleep(idle) // nothing is written, so the table's clock stands
	h.stop(first)
	second := h.leader()
	if second != 0 {
		t.Fatalf("%s leads", h.peers[second].ID)
	}
	reserve := onced.ReserveRequest{ID: id("k"), Fingerprint: "f", Lease: lease, OnLapse: onced.Retry}
	asked := time.Now()
	if _, err := h.nodes[second].Reserve(context.Background(), reserve); err != nil {
		t.Fatal(err)
	}
	h.open(first)
	h.ready()
	h.stop(second)
	third := h.nodes[h.leader()]
	eventually(t, "the lease is over", func() error {
		_, err := third.Reserve(context.Background(), reserve)
		return err
	})
	if took := time.Since(asked); took < lease*98/100 {
		t.Errorf("the lease of %v was taken over after %v", lease, took)
	}
}

// TestCutsWaitForAMember, which needs the log from where the table that it gets ends, but not for ever.
func TestCutsWaitForAMember(t *testing.T) {
	const limit = 64 << 20
	for _, tc := range []struct {
		since   int64
		sending bool
		want    bool
	}{{limit - 1, false, false}, {limit, false, true}, {limit, true, false}, {16*limit - 1, true, false}, {16 * limit, true, true}} {
		if got := cluster.CutDue(tc.since, limit, tc.sending); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}
