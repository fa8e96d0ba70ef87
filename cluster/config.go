package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"onced/cluster/founding"
	"onced/cluster/peer"
	"onced/store"
)

// Peer is one node of the first membership: its id and the address of its cluster port.
type Peer = founding.Peer

// Config is what a Node needs. NodeID, DataDir, and ClusterAddr or Link are required.
type Config struct {
	NodeID           string
	DataDir          string
	LogStore         store.LogKind // what raft's log lies in, converted if it is another; "" = what it is, wal in a new directory
	ClusterAddr      string        // host:port to listen on
	ClusterAdvertise string        // host:port that the others dial; "" = ClusterAddr
	Peers            []Peer        // the first membership, this node included; none = a cluster of one
	Join             string        // host:port of a node to ask for admission, instead of Peers

	Secret []byte    // the cluster's secret: mutual TLS between the nodes comes from it
	TLS    *peer.TLS // or own certificates. Neither = cleartext, on loopback only

	ElectionTimeout time.Duration // of heartbeats, elections and the leader's lease; 0 = 400 ms
	CommitTimeout   time.Duration // within which followers learn of a commit; 0 = 10 ms
	RequestTimeout  time.Duration // how long a call is tried; 0 = 10 s
	StallLimit      time.Duration // a disk write that takes longer ends the node; 0 = 10 s
	SnapshotBytes   int64         // of log since the last snapshot that ask for one; 0 = 64 MiB
	TrailingBytes   int64         // of log kept behind a snapshot, for followers that lag; 0 = 128 MiB

	Wall     func() time.Time      // this node's wall clock; nil = time.Now
	Registry prometheus.Registerer // nil = no metrics
	Logger   *slog.Logger          // nil = none
	Link     peer.Link             // instead of a port at ClusterAddr; for tests
	// Fatal is called when the disk errs or stalls, or the table must not be trusted, where there may be
	// nothing left to end in order: it should end the process. nil = only Done tells.
	Fatal func(error)
	Usage func() (free, total uint64) // of the disk, instead of what the file system says; for tests
	Fault func(step string) error     // makes a durable step err or stall, see store.Options; for tests
}

func (c Config) withDefaults() Config {
	if c.ElectionTimeout == 0 {
		c.ElectionTimeout = 400 * time.Millisecond
	}
	if c.CommitTimeout == 0 {
		c.CommitTimeout = 10 * time.Millisecond
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = 10 * time.Second
	}
	if c.StallLimit == 0 {
		c.StallLimit = 10 * time.Second
	}
	if c.SnapshotBytes == 0 {
		c.SnapshotBytes = 64 << 20
	}
	if c.TrailingBytes == 0 {
		c.TrailingBytes = 128 << 20
	}
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// refusal is an error that stops the start for good: the command ends with exit code 2.
type refusal struct{ err error }

func (r refusal) Error() string { return r.err.Error() }
func (r refusal) Unwrap() error { return r.err }

func refuse(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

// Refused tells whether err is a start that was refused (settings, the data directory, the
// address, or the cluster's word), as opposed to a node that ran and failed.
func Refused(err error) bool {
	var r refusal
	var f *founding.RefusedError
	return errors.As(err, &r) || errors.As(err, &f)
}
