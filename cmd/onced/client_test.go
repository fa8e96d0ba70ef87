package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"onced"
	"onced/client"
)

// TestClientFailover kills the leader under callers that use the Go client. No call fails, each
// key is granted once, and nothing is left open.
func TestClientFailover(t *testing.T) {
	nodes, running := startThree(t)
	k, err := client.New(client.Config{Nodes: strings.Split(nodes, ","), TryTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	var done atomic.Int64
	stop := make(chan struct{})
	for w := range 8 {
		callers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				pair(t, k, fmt.Sprintf("k-%d-%d", w, i))
				done.Add(1)
			}
		})
	}
	leader := leaderOf(t, running)
	leader.signal(t, syscall.SIGKILL)
	<-leader.done
	for begun := done.Load(); done.Load() < begun+100 && !t.Failed(); {
		time.Sleep(5 * time.Millisecond)
	}
	close(stop)
	callers.Wait()
	if err := k.Close(context.Background()); err != nil {
		t.Error(err)
	}
	for _, state := range []string{"in_progress", "unknown"} {
		wantFields(t, ask(t, nodes, "keys", "list", "--state", state), "no record matches")
	}
}

// pair reserves a new key and completes it; then it is replayed.
func pair(t *testing.T, k onced.Keeper, key string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r := onced.ReserveRequest{ID: onced.ID{Key: onced.Key(key)}, Fingerprint: "f"}
	granted, err := k.Reserve(ctx, r)
	if err != nil || granted.Replayed || granted.Record.Attempt != 1 {
		t.Errorf("%s: reserve: %+v, %v", key, granted, err)
		return
	}
	response := &onced.Response{Status: 201, Body: []byte(key)}
	if _, err := k.Complete(ctx, onced.CompleteRequest{ID: r.ID, Token: granted.Record.Token, Response: response}); err != nil {
		t.Errorf("%s: complete: %v", key, err)
		return
	}
	if again, err := k.Reserve(ctx, r); err != nil || !again.Replayed || !again.Record.Response.Equal(response) {
		t.Errorf("%s: replay: %+v, %v", key, again, err)
	}
}

// leaderOf returns the node that leads.
func leaderOf(t *testing.T, nodes []*running) *running {
	t.Helper()
	for _, n := range nodes {
		var s onced.ClusterStatus
		if err := (&remote{base: n.api, http: http.DefaultClient}).get(t.Context(), "/v1/cluster", &s); err == nil && s.Role == "leader" {
			return n
		}
	}
	t.Fatal("nobody leads")
	return nil
}
