package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"onced"
	"onced/cluster"
	"onced/store"
)

func (h *harness) offline(i int) cluster.OfflineConfig {
	return cluster.OfflineConfig{NodeID: h.peers[i].ID, DataDir: h.dirs[i], Address: "127.0.0.1:1", Logger: testLogger(h.t)}
}

// TestBackupUnderLoad: a backup is taken through a follower while writes go on, and restored into a new cluster, which another node joins:
// everything that was acknowledged before is there, on both, and the tokens are larger than any before.
func TestBackupUnderLoad(t *testing.T) {
	h := start(t, 3, nil)
	ctx := context.Background()
	l := h.load(4)
	l.more()
	held, err := h.nodes[0].Reserve(ctx, onced.ReserveRequest{ID: id("held"), Fingerprint: "f", Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	before := map[string]onced.Token{}
	for key, token := range l.written {
		before[key] = token
	}
	l.mu.Unlock()
	b, err := h.nodes[h.follower()].Backup(ctx, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.nodes[h.follower()].Backup(ctx, false); onced.CodeOf(err) != onced.CodeUnavailable {
		t.Errorf("a second one at once: %v", err)
	}
	l.more()
	raw, err := io.ReadAll(b)
	if err := errors.Join(err, b.Close()); err != nil || int64(len(raw)) != b.Size {
		t.Fatalf("%d bytes of %d: %v", len(raw), b.Size, err)
	}
	l.stop()
	old := h.nodes[0].Status().ClusterID

	restored := &harness{t: t, peers: []cluster.Peer{{ID: "r1", Address: freeAddr(t)}}, dirs: []string{filepath.Join(t.TempDir(), "r1")}, nodes: make([]*cluster.Node, 1)}
	t.Cleanup(restored.stopAll)
	newID, out, err := cluster.Restore(restored.offline(0), bytes.NewReader(raw))
	if err != nil || newID == old || out.From != old {
		t.Fatalf("restoring: %s, %+v, %v", newID, out, err)
	}
	restored.open(0)
	restored.ready()
	joined := restored.newcomer("r2", 0)
	restored.open(joined)
	restored.waitVoters(0, "r1,r2")
	restored.ready()
	l.written = before
	for _, n := range restored.nodes {
		l.check(n)
	}
	if _, err := restored.nodes[joined].Complete(ctx, onced.CompleteRequest{ID: id("held"), Token: held.Record.Token, Response: answer("late")}); err != nil {
		t.Errorf("the holder of an open reservation: %v", err)
	}
	got, err := restored.nodes[joined].Reserve(ctx, onced.ReserveRequest{ID: id("new"), Fingerprint: "f"})
	if err != nil || got.Record.Token <= l.largest || uint64(got.Record.Token) <= out.LastToken+store.TokenGap-1 {
		t.Errorf("the largest token before was %d: %+v, %v", l.largest, got.Record, err)
	}
	restored.sameTables()
	// The address that the directory was founded with is nobody's: the node has put in its own.
	if got := restored.nodes[joined].Status().Members[0].Address; got != restored.peers[0].Address {
		t.Errorf("its address is %s", got)
	}
	restored.stop(0)
	restored.open(0)
	restored.ready()
}

// TestRecover: two of three nodes are lost. The third becomes a cluster of its own, with everything that was acknowledged and
// larger tokens; what comes back of the old cluster is refused.
func TestRecover(t *testing.T) {
	h := start(t, 3, nil)
	ctx := context.Background()
	l := h.load(4)
	l.more()
	l.stop()
	held, err := h.nodes[0].Reserve(ctx, onced.ReserveRequest{ID: id("held"), Fingerprint: "f", Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	h.sameTables()
	old := h.nodes[0].Status()
	last := h.leader()
	if _, err := cluster.PlanRecovery(h.offline(last)); !errors.Is(err, store.ErrLocked) {
		t.Errorf("while it runs: %v", err)
	}
	h.stopAll()
	r, err := cluster.PlanRecovery(h.offline(last))
	if err != nil {
		t.Fatal(err)
	}
	if p := r.Plan; p.ClusterID != old.ClusterID || p.NodeID != h.peers[last].ID || len(p.Members) != 3 || p.LastIndex < old.AppliedIndex || p.LastToken != uint64(held.Record.Token) {
		t.Errorf("the plan is %+v", p)
	}
	newID, out, err := r.Run()
	if err := errors.Join(err, r.Close()); err != nil || newID == old.ClusterID {
		t.Fatalf("recovering: %s, %+v, %v", newID, out, err)
	}
	h.open(last)
	eventually(t, "it is ready", h.nodes[last].Ready)
	l.check(h.nodes[last])
	if _, err := h.nodes[last].Complete(ctx, onced.CompleteRequest{ID: id("held"), Token: held.Record.Token, Response: answer("late")}); err != nil {
		t.Errorf("the holder of an open reservation: %v", err)
	}
	got, err := h.nodes[last].Reserve(ctx, onced.ReserveRequest{ID: id("new"), Fingerprint: "f"})
	if err != nil || uint64(got.Record.Token) <= uint64(held.Record.Token)+store.TokenGap {
		t.Errorf("the tokens: %+v, %v", got.Record, err)
	}
	if s := h.nodes[last].Status(); s.ClusterID != newID || len(s.Members) != 1 {
		t.Errorf("the cluster is now %+v", s)
	}
	// One of the old cluster comes back: it finds no leader, and disturbs nobody.
	back := (last + 1) % 3
	term := h.nodes[last].Status().Term
	h.open(back)
	eventually(t, "it is told of another cluster", func() error {
		if s := h.nodes[back].Status(); s.Role != "candidate" && s.Role != "follower" {
			return fmt.Errorf("it is %s", s.Role)
		}
		return nil
	})
	write(t, h.nodes[last], "after")
	if now := h.nodes[last].Status(); now.Term != term || now.Leader != h.peers[last].ID {
		t.Errorf("it was disturbed: %+v", now)
	}
}

// TestRecoverInterrupted stops a recovery at each of its steps: the node is refused until the recovery was done again.
func TestRecoverInterrupted(t *testing.T) {
	h := start(t, 1, nil)
	for i := range 5 {
		write(t, h.nodes[0], fmt.Sprintf("k%d", i))
	}
	h.stopAll()
	stopped := errors.New("stopped")
	steps := 0
	for n := 1; ; n++ {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.CopyFS(dir, os.DirFS(h.dirs[0])); err != nil {
			t.Fatal(err)
		}
		cfg := h.offline(0)
		cfg.DataDir = dir
		r, err := cluster.PlanRecovery(cfg)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
		step, at := 0, ""
		cfg.Fault = func(name string) error {
			if strings.HasPrefix(name, "table.") { // Pebble's own
				return nil
			}
			if step++; step == n {
				at = name
				return stopped
			}
			return nil
		}
		r, err = cluster.PlanRecovery(cfg)
		if err == nil {
			_, _, err = r.Run()
			_ = r.Close() // the disk is said to be broken
		}
		if at == "" {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if !errors.Is(err, stopped) {
			t.Errorf("step %d, %s: %v", n, at, err)
		}
		d, openErr := store.Open(dir, store.Options{Fatal: func(error) {}})
		if openErr == nil {
			id, _ := d.Identity()
			if id.ClusterID == "" || d.Table().Meta().ClusterID != id.ClusterID || d.Table().Meta().LastToken > store.TokenGap {
				t.Errorf("step %d, %s: it opens half done: %+v, %+v", n, at, id, d.Table().Meta())
			}
			_ = d.Close()
		} else if !errors.Is(openErr, store.ErrUnfinished) || !strings.Contains(openErr.Error(), "onced recover again") {
			t.Errorf("step %d, %s: %v", n, at, openErr)
		} else {
			steps++
		}
		cfg.Fault = nil
		r, err = cluster.PlanRecovery(cfg)
		if err != nil {
			t.Fatalf("step %d, %s: again: %v", n, at, err)
		}
		if _, _, err := r.Run(); err != nil {
			t.Fatalf("step %d, %s: again: %v", n, at, err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if steps < 8 {
		t.Errorf("only %d steps were refused", steps)
	}
}

// TestNothingToRecover: what is no node's directory, or another node's, is refused and left alone.
func TestNothingToRecover(t *testing.T) {
	h := start(t, 1, nil)
	h.stopAll()
	for name, change := range map[string]func(*cluster.OfflineConfig){
		"no directory":   func(c *cluster.OfflineConfig) { c.DataDir = filepath.Join(t.TempDir(), "none") },
		"an empty one":   func(c *cluster.OfflineConfig) { c.DataDir = t.TempDir() },
		"another node's": func(c *cluster.OfflineConfig) { c.NodeID = "n7" },
		"no node id":     func(c *cluster.OfflineConfig) { c.NodeID = "" },
	} {
		cfg := h.offline(0)
		change(&cfg)
		if _, err := cluster.PlanRecovery(cfg); !cluster.Refused(err) {
			t.Errorf("%s: %v", name, err)
		}
		if names, _ := os.ReadDir(cfg.DataDir); cfg.DataDir != h.dirs[0] && len(names) > 0 {
			t.Errorf("%s: it made %v", name, names)
		}
	}
}
