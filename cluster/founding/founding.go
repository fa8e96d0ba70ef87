package founding

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"onced/cluster/peer"
)

// Caller asks another node. peer.Link is one; its classes of errors are relied on.
type Caller interface {
	Call(ctx context.Context, addr, path string, body []byte) ([]byte, error)
}

// Registrar takes the handlers. peer.Link is one.
type Registrar interface {
	HandleAny(path string, h http.Handler)
}

// Config is what a Founding needs. Storage and Caller are required.
type Config struct {
	NodeID   string
	Addr     string           // the advertised address of this node's cluster port
	Peers    []Peer           // the first membership, this node included; none = a cluster of one
	Join     string           // host:port of a member of the cluster to be added to; "" = none
	Storage  Storage          // of the data directory
	Caller   Caller           // to the other nodes
	HasState func() bool      // the directory holds a raft log entry or a snapshot, now; nil = never
	Members  func() []Member  // as raft knows them, none before it runs; nil = never
	Admitter Admitter         // adds learners; nil = this node never does
	Language int              // version of the commands that this node understands
	Wall     func() time.Time // this node's wall clock; nil = time.Now
	Logger   *slog.Logger     // nil = discard
}

// Decision is how to start raft.
type Decision struct {
	ClusterID string
	Bootstrap bool   // bootstrap raft with Servers, then call Settle
	Servers   []Peer // the first membership; only with Bootstrap
}

// Founding finds the cluster of one node, and answers the other nodes that look
// for theirs. Make it with New, give it to the port with Register, and Run it once.
type Founding struct {
	cfg         Config
	incarnation string // of this process
	poke        chan struct{}

	writing sync.Mutex // held across each check and write of the identity

	mu      sync.Mutex
	heard   map[string]Hello // listed, empty peers that said hello; guarded by mu
	missing map[string]bool  // peers whose hello ends a pause; guarded by mu
}

// New checks the settings. Its errors are *RefusedError.
func New(cfg Config) (*Founding, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Wall == nil {
		cfg.Wall = time.Now
	}
	if cfg.HasState == nil {
		cfg.HasState = func() bool { return false }
	}
	if cfg.Members == nil {
		cfg.Members = func() []Member { return nil }
	}
	if err := check(cfg); err != nil {
		return nil, &RefusedError{Line: err.Error()}
	}
	cfg.Peers = sorted(cfg.Peers)
	return &Founding{
		cfg:         cfg,
		incarnation: NewID(),
		poke:        make(chan struct{}, 1),
		heard:       make(map[string]Hello),
		missing:     make(map[string]bool),
	}, nil
}

// check tells what is wrong with the settings.
func check(cfg Config) error {
	if err := peer.CheckNodeID(cfg.NodeID); err != nil {
		return err
	}
	if len(cfg.Peers) > 0 && cfg.Join != "" {
		return errors.New("--peers founds a cluster and --join asks to be added to one: give one of them")
	}
	if cfg.Join != "" {
		if err := peer.CheckAddr(cfg.Join); err != nil {
			return fmt.Errorf("--join: %w", err)
		}
		if cfg.Join == cfg.Addr {
			return fmt.Errorf("--join names this node itself, %s", cfg.Addr)
		}
	}
	return checkPeers(cfg.Peers, cfg.NodeID, cfg.Addr)
}

// Run returns how to start raft. A directory that has an identity decides at once;
// an empty one waits for its peers, as long as ctx lets it, and says for whom.
//
// Errors: *RefusedError, what ended ctx, or that the identity could not be written.
func (f *Founding) Run(ctx context.Context) (Decision, error) {
	id, ok := f.cfg.Storage.Identity()
	switch {
	case ok:
		return f.resume(ctx, id)
	case f.cfg.HasState():
		return Decision{}, refusef("the data directory holds a raft log but no identity: part of it is missing; " +
			"empty it and start with a new --node-id and --join")
	case f.cfg.Join != "":
		return f.join(ctx)
	case len(f.cfg.Peers) <= 1:
		return f.found(ctx)
	}
	return f.gather(ctx)
}

// resume goes on where the directory's identity says that this node was.
func (f *Founding) resume(ctx context.Context, id Identity) (Decision, error) {
	if id.NodeID != f.cfg.NodeID {
		return Decision{}, refusef("this data directory belongs to node %s of cluster %s, but --node-id is %s", id.NodeID, id.ClusterID, f.cfg.NodeID)
	}
	started := Decision{ClusterID: id.ClusterID}
	state := f.cfg.HasState()
	switch {
	case id.Phase == PhaseRemoved:
		return Decision{}, refuseRemoved(id)
	case state:
		return started, f.Settle()
	case id.Phase == PhaseFounding:
		return f.inviteAll(ctx, id.ClusterID)
	case id.Phase == PhaseInvited:
		return started, nil
	case id.Phase == PhaseJoining && f.cfg.Join != "":
		return f.askIn(ctx, id.ClusterID)
	case id.Phase == PhaseJoining:
		return Decision{}, refusef("this data directory was about to join cluster %s: start it with --join again", id.ClusterID)
	case id.Phase == PhaseMember:
		return Decision{}, refusef("this data directory belongs to node %s of cluster %s, but its raft log is gone: a node that forgot its votes "+
			"must never vote again under its old id. To replace it: onced members remove %s on a running node, then start this one on an "+
			"empty directory with a new --node-id and --join", id.NodeID, id.ClusterID, id.NodeID)
	}
	return Decision{}, refusef("this data directory's identity has the phase %q, which this version does not know", id.Phase)
}

// Settle writes down that this node has raft state. It is called after a bootstrap,
// and may be called on any node once its raft has its first entry; a restart does it otherwise.
func (f *Founding) Settle() error {
	f.writing.Lock()
	defer f.writing.Unlock()
	id, ok := f.cfg.Storage.Identity()
	if !ok || id.Phase == PhaseMember || id.Phase == PhaseRemoved {
		return nil
	}
	id.Phase = PhaseMember
	return f.write(id)
}

// Removed writes down that this node was removed from its cluster, so that this directory never starts again,
// and returns the *RefusedError to end with.
func (f *Founding) Removed() error {
	f.writing.Lock()
	defer f.writing.Unlock()
	id, _ := f.cfg.Storage.Identity()
	id.Phase = PhaseRemoved
	return errors.Join(refuseRemoved(id), f.write(id))
}

// Hello asks the node at addr who it is. Its error is that of the Caller, or says
// that the answer is none.
func (f *Founding) Hello(ctx context.Context, addr string) (Hello, error) {
	var h Hello
	err := f.ask(ctx, addr, PathHello, f.self(), &h)
	return h, err
}

// self is what this node says of itself now.
func (f *Founding) self() Hello {
	id, _ := f.cfg.Storage.Identity()
	return Hello{
		NodeID: f.cfg.NodeID, Address: f.cfg.Addr, ClusterID: id.ClusterID, Phase: id.Phase, HasState: f.cfg.HasState(),
		Peers: f.cfg.Peers, Join: f.cfg.Join, Incarnation: f.incarnation, Language: f.cfg.Language,
		WallMS: f.cfg.Wall().UnixMilli(), Members: f.cfg.Members(),
	}
}

// write makes the identity durable. f.writing is held.
func (f *Founding) write(id Identity) error {
	if err := f.cfg.Storage.SetIdentity(id); err != nil {
		return fmt.Errorf("writing the identity of the data directory: %w", err)
	}
	return nil
}
