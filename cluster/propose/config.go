package propose

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"onced/fsm/command"
)

// Log is this node's log, used while it leads.
type Log interface {
	// Append hands one entry to the log. It returns soon (within the log's enqueue time-out)
	// and keeps data. The Future must end once the log is closed.
	Append(data []byte) Future
}

// Future is an entry on its way.
type Future interface {
	// Wait blocks until the fate of the entry is known. Either Results holds one
	// result per command in the entry's order and the entry's index, or the error wraps
	// ErrNotApplied or ErrUnknown; any other error is taken for ErrUnknown.
	Wait() (*command.Results, error)
}

// Forwarder is the way to other nodes.
type Forwarder interface {
	// Forward sends a frame to the node at addr, hands it to Receive there, and returns what that
	// returned. It never sends twice. The error wraps ErrNotApplied when
	// nothing of the frame left this node or when Receive returned an error;
	// any other error is taken for ErrUnknown. It ends with ctx.
	Forward(ctx context.Context, addr string, frame []byte) ([]byte, error)
}

// Clock is the leader's cluster time.
type Clock interface {
	// Now returns it in milliseconds, and whether this node leads.
	Now() (int64, bool)
}

// Share bounds one part of the queue. A part that is empty takes a command of any size.
type Share struct {
	Commands int
	Bytes    int // marshalled
}

// Config is what a Proposer needs. Log, Forwarder, Clock and Routes are required.
type Config struct {
	Log       Log
	Forwarder Forwarder
	Clock     Clock
	Routes    *Routes

	MaxEntries     int           // full entries under way on the leader; 0 = 4
	MaxFrames      int           // full frames under way on a follower; 0 = 4
	MaxBatch       int           // commands in an entry or a frame; 0 = 2,000
	MaxBatchBytes  int           // bytes of it; 0 = 1 MiB; a larger command travels alone
	MaxResultBytes int           // bytes of the answer to a frame; 0 = 4 MiB
	Reserves       Share         // of the queue; 0 = 16,384 and 32 MiB
	Holders        Share         // of the queue, for everything but reserves; 0 = 65,536 and 256 MiB
	Budget         time.Duration // the longest a try may take until it is written; 0 = 10 s
	Counters       *Counters     // nil = its own
	Logger         *slog.Logger  // nil = none
}

const (
	// maxEstimateAge is how old the leader's last known time may be before a follower asks again.
	maxEstimateAge = 20 * time.Second
	// perCommand is what a command takes in an entry or a frame beyond its own bytes.
	perCommand = 16
)

func (c Config) withDefaults() Config {
	c.MaxEntries = or(c.MaxEntries, 4)
	c.MaxFrames = or(c.MaxFrames, 4)
	c.MaxBatch = or(c.MaxBatch, 2000)
	c.MaxBatchBytes = or(c.MaxBatchBytes, 1<<20)
	c.MaxResultBytes = or(c.MaxResultBytes, 4<<20)
	c.Reserves = or(c.Reserves, Share{Commands: 16_384, Bytes: 32 << 20})
	c.Holders = or(c.Holders, Share{Commands: 65_536, Bytes: 256 << 20})
	c.Budget = or(c.Budget, 10*time.Second)
	c.Logger = or(c.Logger, slog.New(slog.DiscardHandler))
	c.Counters = or(c.Counters, &Counters{})
	return c
}

func or[T comparable](value, standard T) T {
	var zero T
	if value == zero {
		return standard
	}
	return value
}

// Counters is what the proposer and the retrier count. Read it at any time.
type Counters struct {
	Entries         atomic.Uint64 // handed to the log
	EntryCommands   atomic.Uint64 // in them
	EntryBytes      atomic.Uint64
	Frames          atomic.Uint64 // sent to a leader, without those that only ask for the time
	FrameCommands   atomic.Uint64
	FrameBytes      atomic.Uint64
	FramesReceived  atomic.Uint64
	FramesRefused   atomic.Uint64 // received while not leading in their term
	RefusedReserves atomic.Uint64 // for a full queue
	RefusedHolders  atomic.Uint64 // for a full queue: should stay 0
	NotApplied      atomic.Uint64 // tries
	Unknown         atomic.Uint64 // tries
	Retries         atomic.Uint64
	GaveUp          atomic.Uint64 // submits without a result
	Cancels         atomic.Uint64 // decided, of owners that this node made
	CancelsPending  atomic.Int64
}
