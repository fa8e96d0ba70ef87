package cluster_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"onced"
	"onced/cluster"
	"onced/store"
)

// harness is three nodes in this process, over real TCP, each with a directory of its own.
type harness struct {
	t     testing.TB
	peers []cluster.Peer
	dirs  []string
	nodes []*cluster.Node // nil = it is down
	tune  func(i int, c *cluster.Config)
}

// start starts n nodes and waits until they are ready.
func start(t testing.TB, n int, tune func(i int, c *cluster.Config)) *harness {
	t.Helper()
	h := &harness{t: t, nodes: make([]*cluster.Node, n), tune: tune}
	root := t.TempDir()
	for i := range n {
		h.peers = append(h.peers, cluster.Peer{ID: fmt.Sprintf("n%d", i+1), Address: freeAddr(t)})
		h.dirs = append(h.dirs, filepath.Join(root, h.peers[i].ID))
	}
	for i := range n {
		h.open(i)
	}
	t.Cleanup(h.stopAll)
	h.ready()
	return h
}

func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (h *harness) config(i int) cluster.Config {
	cfg := cluster.Config{
		NodeID: h.peers[i].ID, DataDir: h.dirs[i], ClusterAddr: h.peers[i].Address, Peers: h.peers,
		Logger: testLogger(h.t), LogStore: store.LogKind(os.Getenv("ONCED_TEST_LOG_STORE")),
	}
	if i == 1 && cfg.LogStore == "" { // clusters of both kinds
		cfg.LogStore = store.LogBolt
	}
	if len(h.peers) == 1 {
		cfg.Peers = nil
	}
	if h.tune != nil {
		h.tune(i, &cfg)
	}
	return cfg
}

// testLogger is silent unless ONCED_TEST_LOG is set.
func testLogger(t testing.TB) *slog.Logger {
	if os.Getenv("ONCED_TEST_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("test", t.Name())
}

func (h *harness) open(i int) {
	h.t.Helper()
	node, err := cluster.Open(context.Background(), h.config(i))
	if err != nil {
		h.t.Fatalf("opening %s: %v", h.peers[i].ID, err)
	}
	h.nodes[i] = node
}

// stop ends a node in good order.
func (h *harness) stop(i int) {
	h.t.Helper()
	if h.nodes[i] == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := h.nodes[i].Shutdown(ctx); err != nil {
		h.t.Errorf("stopping %s: %v", h.peers[i].ID, err)
	}
	h.nodes[i] = nil
}

func (h *harness) stopAll() {
	var wg sync.WaitGroup
	for i := range h.nodes {
		wg.Go(func() { h.stop(i) })
	}
	wg.Wait()
}

// ready waits until every node that is up is ready.
func (h *harness) ready() {
	h.t.Helper()
	for i, n := range h.nodes {
		if n != nil {
			eventually(h.t, h.peers[i].ID+" is ready", n.Ready)
		}
	}
}

// eventually polls until ok gives nil; the poll is the last resort where nothing tells of the event.
func eventually(t testing.TB, what string, ok func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err = ok(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not within 20 s: %v", what, err)
}

// leader returns the index of the node that leads.
func (h *harness) leader() int {
	h.t.Helper()
	found := -1
	eventually(h.t, "a leader", func() error {
		for i, n := range h.nodes {
			if n != nil && n.Status().Role == "leader" && n.Ready() == nil {
				found = i
				return nil
			}
		}
		return fmt.Errorf("nobody leads")
	})
	return found
}

func (h *harness) follower() int {
	h.t.Helper()
	return (h.leader() + 1) % len(h.nodes)
}

func id(key string) onced.ID { return onced.ID{Tenant: "t", Key: onced.Key(key)} }

func answer(body string) *onced.Response {
	return &onced.Response{Status: 201, Headers: []onced.Header{{Name: "Content-Type", Value: "text/plain"}}, Body: []byte(body)}
}
