package peer

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// raft#695: with a heartbeat handler the library handles heartbeats beside its main
// loop, which may raise the term under it. raft#530: a wrapper that hides pre-vote
// makes returning nodes disrupt the cluster, with no more than a warning.
func TestHeartbeatHandlerIsSwallowedAndPreVoteSurvives(t *testing.T) {
	a, _ := open(t, "n1", nil)
	b, _ := open(t, "n2", nil)
	a.SetClusterID("c")
	b.SetClusterID("c")
	ta, tb := a.RaftTransport(time.Second), b.RaftTransport(time.Second)

	if _, ok := tb.(raft.WithPreVote); !ok {
		t.Error("raft#530: the transport hides pre-vote")
	}
	if _, ok := tb.(raft.WithClose); !ok {
		t.Error("the transport hides Close")
	}
	if _, ok := any((*raft.NetworkTransport)(nil)).(raft.WithPeers); ok {
		if _, ok := tb.(raft.WithPeers); !ok {
			t.Error("the transport hides WithPeers")
		}
	}

	tb.SetHeartbeatHandler(func(raft.RPC) { t.Error("raft#695: a heartbeat went past the main loop") })
	go func() {
		rpc := <-tb.Consumer()
		rpc.Respond(&raft.AppendEntriesResponse{Term: 7, Success: true}, nil)
	}()
	heartbeat := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: 3, Addr: []byte(a.Addr())}, Term: 7}
	var resp raft.AppendEntriesResponse
	if err := ta.AppendEntries("n2", raft.ServerAddress(b.Addr()), heartbeat, &resp); err != nil || resp.Term != 7 {
		t.Errorf("answer %+v, %v", resp, err)
	}
}

func TestRaftConnectionsRefused(t *testing.T) {
	for _, tc := range []struct {
		name           string
		caller, callee string // clusters
		id             string // meant to be reached
		asCaller       string
		want           string
	}{
		{"same cluster", "c", "c", "n2", "n1", ""},
		{"before there is a cluster", "c", "", "n2", "n1", "belongs to no cluster yet"},
		{"another cluster", "d", "c", "n2", "n1", "belongs to cluster c, the caller to d"},
		{"a caller without one", "", "c", "n2", "n1", "the caller to (none)"},
		{"another node at the address", "c", "c", "n3", "n1", "leads to node n2, not to node n3"},
		{"a second node of this name", "c", "c", "n2", "n2", "both named n2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, _ := open(t, tc.asCaller, nil)
			b, log := open(t, "n2", nil)
			a.SetClusterID(tc.caller)
			b.SetClusterID(tc.callee)
			ta, tb := a.RaftTransport(5*time.Second), b.RaftTransport(5*time.Second)
			go func() {
				select {
				case rpc := <-tb.Consumer():
					rpc.Respond(&raft.RequestVoteResponse{Granted: true}, nil)
				case <-b.ctx.Done():
				}
			}()
			var resp raft.RequestVoteResponse
			err := ta.RequestVote(raft.ServerID(tc.id), raft.ServerAddress(b.Addr()), &raft.RequestVoteRequest{}, &resp)
			if tc.want == "" {
				if err != nil || !resp.Granted {
					t.Fatalf("vote: %+v, %v", resp, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want %q", err, tc.want)
			}
			log.has(t, tc.want)
			_ = ta.RequestVote(raft.ServerID(tc.id), raft.ServerAddress(b.Addr()), &raft.RequestVoteRequest{}, &resp)
			if n := strings.Count(log.String(), tc.want); n != 1 {
				t.Errorf("logged %d times within a minute, want once", n)
			}
		})
	}
}

func TestRaftNotRunningYet(t *testing.T) {
	a, _ := open(t, "n1", nil)
	b, _ := open(t, "n2", nil)
	a.SetClusterID("c")
	b.SetClusterID("c")
	var resp raft.RequestVoteResponse
	err := a.RaftTransport(time.Second).RequestVote("n2", raft.ServerAddress(b.Addr()), &raft.RequestVoteRequest{}, &resp)
	if err == nil || !strings.Contains(err.Error(), "raft is not running yet") {
		t.Errorf("error %v", err)
	}
}

func TestTransportIsMadeAgainAfterItsClose(t *testing.T) {
	p, _ := open(t, "n1", nil)
	first := p.RaftTransport(time.Second)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("two transports at a time")
			}
		}()
		p.RaftTransport(time.Second)
	}()
	_ = first.(raft.WithClose).Close()
	a, _ := open(t, "n2", nil)
	a.SetClusterID("c")
	p.SetClusterID("c")
	second := p.RaftTransport(5 * time.Second)
	go func() {
		select {
		case rpc := <-second.Consumer():
			rpc.Respond(&raft.RequestVoteResponse{}, nil)
		case <-p.ctx.Done():
		}
	}()
	if err := a.RaftTransport(5*time.Second).RequestVote("n1", raft.ServerAddress(p.Addr()), &raft.RequestVoteRequest{}, new(raft.RequestVoteResponse)); err != nil {
		t.Error(err)
	}
}

// node is a raft of three over real sockets.
type node struct {
	id   string
	port *Port
	raft *raft.Raft
	fsm  *countFSM
}

type countFSM struct{ applied chan struct{} }

func (f *countFSM) Apply(*raft.Log) any                 { f.applied <- struct{}{}; return nil }
func (f *countFSM) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.New("none") }
func (f *countFSM) Restore(r io.ReadCloser) error       { return r.Close() }

func start(t *testing.T, id string, security *TLS) *node {
	t.Helper()
	p, _ := open(t, id, security)
	p.SetClusterID("c")
	n := &node{id: id, port: p, fsm: &countFSM{applied: make(chan struct{}, 1000)}}
	return n
}

func (n *node) run(t *testing.T, members raft.Configuration) {
	t.Helper()
	cfg := raft.DefaultConfig()
	cfg.LocalID = raft.ServerID(n.id)
	// Long enough for busy machines: how soon a leader is given up is not what is tested.
	cfg.HeartbeatTimeout, cfg.ElectionTimeout, cfg.LeaderLeaseTimeout = time.Second, time.Second, time.Second
	cfg.Logger = hclog.NewNullLogger()
	store := raft.NewInmemStore()
	trans := n.port.RaftTransport(2 * time.Second)
	if err := raft.BootstrapCluster(cfg, store, store, raft.NewInmemSnapshotStore(), trans, members); err != nil {
		t.Fatal(err)
	}
	r, err := raft.NewRaft(cfg, n.fsm, store, store, raft.NewInmemSnapshotStore(), trans)
	if err != nil {
		t.Fatal(err)
	}
	n.raft = r
	t.Cleanup(func() { _ = r.Shutdown().Error() })
}

func TestThreeNodesOverTLS(t *testing.T) {
	var nodes []*node
	var members raft.Configuration
	for i := range 3 {
		id := fmt.Sprintf("n%d", i+1)
		n := start(t, id, secretTLS(t, "the secret of the cluster", id))
		nodes = append(nodes, n)
		members.Servers = append(members.Servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(n.port.Addr())})
	}
	for _, n := range nodes {
		n.run(t, members)
	}
	leader := elected(t, nodes)
	for range 20 {
		if err := leader.raft.Apply([]byte("x"), 5*time.Second).Error(); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes {
		for range 20 {
			<-n.fsm.applied
		}
	}
	leader.port.Close() // as good as dead
	var left []*node
	for _, n := range nodes {
		if n != leader {
			left = append(left, n)
		}
	}
	if err := elected(t, left).raft.Apply([]byte("x"), 5*time.Second).Error(); err != nil {
		t.Fatal(err)
	}
}

func elected(t *testing.T, nodes []*node) *node {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		for _, n := range nodes {
			if n.raft.State() == raft.Leader {
				return n
			}
		}
	}
	t.Fatal("no leader")
	return nil
}

func TestTransportLoggerNeverSaysError(t *testing.T) {
	log := new(lines)
	l := RaftLogger("raft-net", slog.New(slog.NewTextHandler(log, nil)))
	l.Error("failed to decode", "error", "cut")
	if got := log.String(); !strings.Contains(got, "level=WARN") || !strings.Contains(got, "error=cut") {
		t.Errorf("line %q", got)
	}
}

// TestPipelineThatNobodyReads: who waits for a place in a pipeline whose answers nobody takes any more gets an error, as raft's
// replication and its shutdown wait for it.
func TestPipelineThatNobodyReads(t *testing.T) {
	a, _ := open(t, "n1", nil)
	b, _ := open(t, "n2", nil)
	a.SetClusterID("c")
	b.SetClusterID("c")
	const timeout = 200 * time.Millisecond
	ta, tb := a.RaftTransport(timeout), b.RaftTransport(timeout)
	go func() {
		for {
			select {
			case rpc := <-tb.Consumer():
				rpc.Respond(&raft.AppendEntriesResponse{Term: 8}, nil) // a newer term: raft stops to read
			case <-b.ctx.Done():
				return
			}
		}
	}()
	p, err := ta.AppendEntriesPipeline("n2", raft.ServerAddress(b.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: 7, Entries: []*raft.Log{{Index: 1}}}, new(raft.AppendEntriesResponse)); err != nil {
				ended <- err
				return
			}
		}
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, raft.ErrPipelineShutdown) {
			t.Errorf("error %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for ever")
	}
}
