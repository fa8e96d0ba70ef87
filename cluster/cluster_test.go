package cluster_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"onced"
	"onced/cluster"
)

// TestThread is the life of a key on a cluster of one: reserved, completed, replayed, and
// still there after a restart.
func TestThread(t *testing.T) {
	h := start(t, 1, nil)
	ctx := context.Background()
	got, err := h.nodes[0].Reserve(ctx, onced.ReserveRequest{ID: id("k"), Fingerprint: "f"})
	if err != nil || got.Replayed || got.Record.Token == 0 || got.Record.Owner == "" {
		t.Fatalf("reserve: %+v, %v", got, err)
	}
	if _, err := h.nodes[0].Complete(ctx, onced.CompleteRequest{ID: id("k"), Token: got.Record.Token, Response: answer("done")}); err != nil {
		t.Fatal(err)
	}
	h.stop(0)
	h.open(0)
	h.ready()
	again, err := h.nodes[0].Reserve(ctx, onced.ReserveRequest{ID: id("k"), Fingerprint: "f"})
	if err != nil || !again.Replayed || !again.Record.Response.Equal(answer("done")) {
		t.Fatalf("replay after a restart: %+v, %v", again, err)
	}
}

// TestOneOfTwoHundred: identical reserves at once over three nodes, one is granted, no other error
// than request_in_progress. (F15, F16, F24)
func TestOneOfTwoHundred(t *testing.T) {
	h := start(t, 3, nil)
	for round := range 10 {
		key := id(fmt.Sprintf("round-%d", round))
		var granted atomic.Int64
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				got, err := h.nodes[i%3].Reserve(context.Background(), onced.ReserveRequest{ID: key, Fingerprint: "f"})
				switch {
				case err == nil && !got.Replayed:
					granted.Add(1)
				case onced.CodeOf(err) != onced.CodeRequestInProgress:
					t.Errorf("reserve: %+v, %v", got, err)
				}
			})
		}
		wg.Wait()
		if n := granted.Load(); n != 1 {
			t.Fatalf("round %d: %d of 200 were granted", round, n)
		}
	}
}

// TestEveryNodeReplays: what was completed on one node is replayed by each, byte for byte, and read by each.
func TestEveryNodeReplays(t *testing.T) {
	h := start(t, 3, nil)
	ctx := context.Background()
	for i := range 3 {
		key := id(fmt.Sprintf("k%d", i))
		got, err := h.nodes[i].Reserve(ctx, onced.ReserveRequest{ID: key, Fingerprint: "f"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.nodes[(i+1)%3].Complete(ctx, onced.CompleteRequest{ID: key, Token: got.Record.Token, Response: answer("x")}); err != nil {
			t.Fatal(err)
		}
		for j, n := range h.nodes {
			rec, err := n.Get(ctx, onced.GetRequest{ID: key})
			if err != nil || !rec.Response.Equal(answer("x")) {
				t.Errorf("get on %d: %+v, %v", j, rec, err)
			}
			again, err := n.Reserve(ctx, onced.ReserveRequest{ID: key, Fingerprint: "f"})
			if err != nil || !again.Replayed || !again.Record.Response.Equal(answer("x")) {
				t.Errorf("replay on %d: %+v, %v", j, again, err)
			}
			if _, err := n.Reserve(ctx, onced.ReserveRequest{ID: key, Fingerprint: "g"}); onced.CodeOf(err) != onced.CodeConflict {
				t.Errorf("conflict on %d: %v", j, err)
			}
		}
	}
}

// TestWaitAcrossNodes: a duplicate waits on another node until the running one ends. (F80)
func TestWaitAcrossNodes(t *testing.T) {
	h := start(t, 3, nil)
	ctx := context.Background()
	first, err := h.nodes[0].Reserve(ctx, onced.ReserveRequest{ID: id("k"), Fingerprint: "f"})
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 2)
	for i := 1; i < 3; i++ {
		go func() {
			got, err := h.nodes[i].Reserve(ctx, onced.ReserveRequest{ID: id("k"), Fingerprint: "f", Wait: 30 * time.Second})
			if err == nil && !got.Replayed {
				err = fmt.Errorf("granted a second time: %+v", got)
			}
			waited <- err
		}()
	}
	if _, err := h.nodes[0].Complete(ctx, onced.CompleteRequest{ID: id("k"), Token: first.Record.Token, Response: answer("x")}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-waited; err != nil {
			t.Error(err)
		}
	}
}

// TestLapseIsSeenByAnIdleCluster: nobody writes, and still the lapse is seen, on every node, after the lease.
func TestLapseIsSeenByAnIdleCluster(t *testing.T) {
	h := start(t, 3, nil)
	ctx := context.Background()
	began := time.Now()
	if _, err := h.nodes[0].Reserve(ctx, onced.ReserveRequest{ID: id("k"), Fingerprint: "f", Lease: 500 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	for i, n := range h.nodes {
		rec, err := n.Get(ctx, onced.GetRequest{ID: id("k"), Wait: 20 * time.Second})
		if err != nil || rec.State != onced.StateUnknown {
			t.Errorf("node %d: %+v, %v", i, rec, err)
		}
	}
	if took := time.Since(began); took < 500*time.Millisecond {
		t.Errorf("the lease of 500 ms was over after %v", took)
	}
}

// TestNoMajority: without one nothing is granted and nothing stays behind; with the second node back, writing goes on.
func TestNoMajority(t *testing.T) {
	h := start(t, 3, func(_ int, c *cluster.Config) { c.RequestTimeout = 500 * time.Millisecond })
	leader := h.leader()
	a, b := (leader+1)%3, (leader+2)%3
	h.stop(a)
	h.stop(b)
	_, err := h.nodes[leader].Reserve(context.Background(), onced.ReserveRequest{ID: id("k"), Fingerprint: "f"})
	if p := onced.AsProblem(err); p.Code != onced.CodeUnavailable || p.RetryAfterSeconds() < 1 {
		t.Fatalf("reserve without a majority: %v", err)
	}
	h.open(a)
	eventually(t, "writing again", func() error {
		_, err := h.nodes[leader].Reserve(context.Background(), onced.ReserveRequest{ID: id("other"), Fingerprint: "f"})
		return err
	})
	// The reserve that ended in 503 was cancelled by its node: the key is unused.
	eventually(t, "the key is unused", func() error {
		_, err := h.nodes[a].Get(context.Background(), onced.GetRequest{ID: id("k")})
		if onced.CodeOf(err) == onced.CodeKeyNotFound {
			return nil
		}
		return fmt.Errorf("get: %v", err)
	})
	got, err := h.nodes[a].Reserve(context.Background(), onced.ReserveRequest{ID: id("k"), Fingerprint: "f"})
	if err != nil || got.Record.Attempt != 1 {
		t.Fatalf("reserve of the unused key: %+v, %v", got, err)
	}
}
