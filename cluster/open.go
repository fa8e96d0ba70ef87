package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"onced/cluster/clock"
	"onced/cluster/founding"
	"onced/cluster/peer"
	"onced/cluster/propose"
	"onced/cluster/watch"
	"onced/store"
)

// Bounds of raft. An entry is about 256 KiB at most unless a single command is larger, so
// that what travels at once stays within a few MiB and heartbeats never wait long behind it.
const (
	maxAppendEntries = 8
	maxEntryBytes    = 256 << 10
	transportTimeout = 2 * time.Second
	never            = 365 * 24 * time.Hour // raft's own snapshot timer is not used: see compact
	maxWatchers      = 100_000
)

// Open opens the data directory and the cluster port and returns at once; the cluster is found
// or founded in the background (see Ready, Done, Err). An error that Refused tells is a setting, a
// directory or an address that must be mended first.
func Open(ctx context.Context, cfg Config) (*Node, error) {
	cfg = cfg.withDefaults()
	n := &Node{
		cfg: cfg, log: cfg.Logger, done: make(chan struct{}), raftEnded: make(chan struct{}),
		route: propose.NewRoutes(), counters: &propose.Counters{},
		leases: &leases{}, watchers: watch.New(maxWatchers),
		leadership: leadership{changed: make(chan struct{})}, changes: make(chan struct{}, 1),
	}
	n.ctx, n.cancel = context.WithCancel(context.WithoutCancel(ctx))
	n.working, n.giveUp = context.WithCancel(n.ctx)
	if err := n.open(); err != nil {
		n.cancel()
		return nil, err
	}
	n.wg.Go(func() {
		if err := n.run(); err != nil && n.ctx.Err() == nil {
			n.fail(err)
		}
	})
	return n, nil
}

// open opens what is on this machine: directory, port, machine, proposer.
func (n *Node) open() error {
	if err := peer.CheckNodeID(n.cfg.NodeID); err != nil {
		return refuse("%w", err)
	}
	dir, err := store.Open(n.cfg.DataDir, store.Options{Log: n.cfg.LogStore, Fatal: n.fail, StallLimit: n.cfg.StallLimit, Logger: n.log, Fault: n.cfg.Fault, Usage: n.cfg.Usage})
	if err != nil {
		return refuse("%w", err)
	}
	n.dir, n.table = dir, dir.Table()
	n.lookAtRoom()
	if err := n.openLink(); err != nil {
		return errors.Join(err, dir.Close())
	}
	if err := n.build(); err != nil {
		return errors.Join(err, n.link.Close(), dir.Close())
	}
	n.handleCalls(n.link)
	n.founding.Register(n.link)
	return nil
}

func (n *Node) openLink() error {
	if identity, ok := n.dir.Identity(); ok && identity.NodeID != n.cfg.NodeID {
		return refuse("the data directory %s belongs to node %s of cluster %s, not to %s: start it as %s, or give %s a directory of its own",
			n.cfg.DataDir, identity.NodeID, identity.ClusterID, n.cfg.NodeID, identity.NodeID, n.cfg.NodeID)
	}
	if n.link = n.cfg.Link; n.link != nil {
		return nil
	}
	tls := n.cfg.TLS
	if tls == nil && n.cfg.Secret != nil {
		var err error
		if tls, err = peer.SecretTLS(n.cfg.Secret, n.cfg.NodeID); err != nil {
			return refuse("%w", err)
		}
	}
	port, err := peer.Listen(peer.Config{NodeID: n.cfg.NodeID, Addr: n.cfg.ClusterAddr, Advertise: n.cfg.ClusterAdvertise, TLS: tls, Logger: n.log})
	if err != nil {
		return refuse("%w", err)
	}
	n.link = port
	return nil
}

func (n *Node) build() error {
	n.clock = clock.New(clock.Config{Wall: n.cfg.Wall})
	n.clock.Saw(n.table.Meta().Clock)
	n.progress = newProgress(n.table.Applied())
	if err := n.leases.load(n.table); err != nil {
		return err
	}
	var err error
	if n.founding, err = n.newFounding(); err != nil {
		return err
	}
	n.machine = &machine{
		dir: n.dir, table: n.table, clock: n.clock, leases: n.leases, watchers: n.watchers, progress: n.progress,
		log: n.log, fatal: n.fail, toSkip: n.table.Applied(), live: n.caughtUp.Load,
	}
	n.proposer = propose.New(propose.Config{
		Log: raftLog{n}, Forwarder: forwarder{n.link}, Clock: n.clock, Routes: n.route,
		MaxBatchBytes: maxEntryBytes, Budget: n.cfg.RequestTimeout, Counters: n.counters, Logger: n.log,
	})
	n.retrier = propose.NewRetrier(propose.RetryConfig{
		Doer: n.proposer, Routes: n.route, CancelTry: n.cfg.RequestTimeout, Counters: n.counters, Logger: n.log,
	})
	if n.cfg.Registry != nil {
		return n.register(n.cfg.Registry)
	}
	return nil
}

// run finds the cluster, starts raft, and does what every member does until the node ends.
func (n *Node) run() error {
	decision, err := n.founding.Run(n.ctx)
	if err != nil {
		return err
	}
	r, notify, err := n.startRaft(decision)
	if err != nil {
		return err
	}
	n.raft.Store(r)
	n.refreshMembers(r)
	n.wg.Go(func() { n.drain(notify) })
	n.wg.Go(func() { n.leads(r) })
	n.wg.Go(func() { n.routes(r) })
	n.wg.Go(func() { n.compact(r) })
	n.wg.Go(n.catchUpOnce)
	n.wg.Go(n.checkPeers)
	n.wg.Go(n.watchMembership)
	n.wg.Go(func() { n.watchRoom(r) })
	return nil
}

func (n *Node) startRaft(d founding.Decision) (*raft.Raft, <-chan bool, error) {
	n.link.SetClusterID(d.ClusterID)
	notify := make(chan bool, 16)
	conf := n.raftConfig(notify)
	transport := n.link.RaftTransport(transportTimeout)
	if d.Bootstrap {
		if err := n.bootstrap(conf, d, transport); err != nil {
			return nil, nil, err
		}
	}
	r, err := raft.NewRaft(conf, n.machine, n.dir.Logs(), n.dir.Stable(), n.dir.Snapshots(), transport)
	if err != nil {
		return nil, nil, fmt.Errorf("starting raft: %w", err)
	}
	return r, notify, nil
}

// bootstrap gives raft the first membership, once. A founder that died right after it finds it done; one
// that died in the middle of it finds raft's term written and its log empty, which the library refuses to go on
// from: since raft has never run here, the one entry that is missing is written.
func (n *Node) bootstrap(conf *raft.Config, d founding.Decision, transport raft.Transport) error {
	first := raft.Configuration{Servers: servers(d.Servers)}
	err := raft.BootstrapCluster(conf, n.dir.Logs(), n.dir.Stable(), n.dir.Snapshots(), transport, first)
	if errors.Is(err, raft.ErrCantBootstrap) {
		err = nil
		if !n.hasState() {
			err = n.dir.Logs().StoreLog(&raft.Log{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(first)})
		}
	}
	if err != nil {
		return fmt.Errorf("founding the cluster: %w", err)
	}
	return n.founding.Settle()
}

func (n *Node) raftConfig(notify chan bool) *raft.Config {
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(n.cfg.NodeID)
	conf.HeartbeatTimeout = n.cfg.ElectionTimeout
	conf.ElectionTimeout = n.cfg.ElectionTimeout
	conf.LeaderLeaseTimeout = n.cfg.ElectionTimeout
	conf.CommitTimeout = n.cfg.CommitTimeout
	conf.MaxAppendEntries = maxAppendEntries
	conf.SnapshotInterval = never
	conf.SnapshotThreshold = 1 << 62
	conf.TrailingLogs = minTrailing
	conf.NoSnapshotRestoreOnStart = true // the table is on disk, see store
	conf.ShutdownOnRemove = false
	conf.NotifyCh = notify
	conf.Logger = peer.RaftLogger("raft", n.log)
	return conf
}
