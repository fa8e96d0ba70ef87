package memnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"onced/cluster/peer"
)

func join(t *testing.T, n *Network, id string) *Node {
	t.Helper()
	node, err := n.Join(id, id+":1", nil)
	if err != nil {
		t.Fatal(err)
	}
	node.SetClusterID("c")
	return node
}

// kind names the class of a call's error.
func kind(err error) string {
	var status *peer.StatusError
	switch {
	case err == nil:
		return "answered"
	case errors.Is(err, peer.ErrNotSent):
		return "not sent"
	case errors.As(err, &status):
		return fmt.Sprint(status.Code)
	}
	return "unknown"
}

func TestFaultsOfACall(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault Fault
		want  string
		after time.Duration // the caller knows
		runs  int
	}{
		{"healthy", Fault{}, "answered", 0, 1},
		{"refused", Fault{Refuse: true}, "not sent", 0, 0},
		{"request lost", Fault{LoseRequests: true}, "unknown", time.Second, 0},
		{"reply lost", Fault{LoseReplies: true}, "unknown", time.Second, 1},
		{"delayed", Fault{Delay: 300 * time.Millisecond, DelayReplies: 200 * time.Millisecond}, "answered", 500 * time.Millisecond, 1},
		{"delayed beyond its caller", Fault{Delay: 3 * time.Second}, "unknown", time.Second, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := New()
				defer n.Close()
				a, b := join(t, n, "a"), join(t, n, "b")
				var runs atomic.Int32
				b.Handle("/x", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					runs.Add(1)
					body, _ := peer.ReadBody(r)
					_, _ = w.Write(body)
				}))
				n.SetFault("a", "b", tc.fault)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				start := time.Now()
				body, err := a.Call(ctx, b.Addr(), "/x", []byte("hello"))
				if got := kind(err); got != tc.want {
					t.Errorf("%s (%v), want %s", got, err, tc.want)
				}
				if err == nil && string(body) != "hello" {
					t.Errorf("answer %q", body)
				}
				if got := time.Since(start); got != tc.after {
					t.Errorf("known after %v, want %v", got, tc.after)
				}
				time.Sleep(10 * time.Second)
				if got := int(runs.Load()); got != tc.runs {
					t.Errorf("the handler ran %d times, want %d", got, tc.runs)
				}
			})
		})
	}
}

func TestRefusalsAreThoseOfThePort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		defer n.Close()
		a, b := join(t, n, "a"), join(t, n, "b")
		b.Handle("/x", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		b.Handle("/panic", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("broken") }))
		call := func(path string) string {
			_, err := a.Call(t.Context(), "b:1", path, nil)
			return kind(err)
		}
		for _, tc := range []struct {
			name, path, want string
			prepare          func()
		}{
			{"same cluster", "/x", "answered", func() {}},
			{"no such call", "/y", "404", func() {}},
			{"panic", "/panic", "unknown", func() {}},
			{"another cluster", "/x", "421", func() { b.SetClusterID("d") }},
			{"none yet", "/x", "503", func() { b.SetClusterID("") }},
			{"another node", "/x", "not sent", func() { a.SetMembers(map[string]string{"b:1": "z"}) }},
			{"gone", "/x", "not sent", func() { b.Close() }},
			{"closed itself", "/x", "not sent", func() { a.Close() }},
		} {
			tc.prepare()
			if got := call(tc.path); got != tc.want {
				t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
			}
		}
	})
}

func TestCloseCutsCallsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		defer n.Close()
		a, b := join(t, n, "a"), join(t, n, "b")
		b.Handle("/x", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		go func() {
			time.Sleep(time.Second)
			b.Close()
		}()
		// The handler's own answer may win over the cut; either way the caller is let go.
		if _, err := a.Call(t.Context(), "b:1", "/x", nil); kind(err) == "not sent" {
			t.Errorf("error %v", err)
		}
		if _, err := n.Join("b", "b:1", nil); err != nil {
			t.Errorf("the address is not free: %v", err)
		}
	})
}

type nullFSM struct{}

func (nullFSM) Apply(*raft.Log) any                 { return nil }
func (nullFSM) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.New("none") }
func (nullFSM) Restore(r io.ReadCloser) error       { return r.Close() }

// Three rafts elect, lose their leader to a cut network, and elect again.
func TestRaftUnderFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		defer n.Close()
		var members raft.Configuration
		ids := []string{"n1", "n2", "n3"}
		for _, id := range ids {
			members.Servers = append(members.Servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id + ":1")})
		}
		rafts := make(map[string]*raft.Raft)
		for _, id := range ids {
			cfg := raft.DefaultConfig()
			cfg.LocalID, cfg.Logger = raft.ServerID(id), hclog.NewNullLogger()
			store, snaps := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
			trans := join(t, n, id).RaftTransport(time.Second)
			if _, ok := trans.(raft.WithPreVote); !ok {
				t.Fatal("the transport hides pre-vote")
			}
			if err := raft.BootstrapCluster(cfg, store, store, snaps, trans, members); err != nil {
				t.Fatal(err)
			}
			r, err := raft.NewRaft(cfg, nullFSM{}, store, store, snaps, trans)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Shutdown().Error() }()
			rafts[id] = r
		}
		leader := func(but string) string {
			for range 600 {
				time.Sleep(100 * time.Millisecond)
				for id, r := range rafts {
					if id != but && r.State() == raft.Leader {
						return id
					}
				}
			}
			t.Fatal("no leader within a minute")
			return ""
		}
		first := leader("")
		if err := rafts[first].Apply([]byte("x"), time.Second).Error(); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			n.Cut(first, id)
		}
		second := leader(first)
		if err := rafts[second].Apply([]byte("x"), time.Second).Error(); err != nil {
			t.Fatal(err)
		}
		n.Heal()
		time.Sleep(10 * time.Second)
		if got := rafts[first].LastIndex(); got != rafts[second].LastIndex() {
			t.Errorf("the old leader is at %d, the new one at %d", got, rafts[second].LastIndex())
		}
	})
}
