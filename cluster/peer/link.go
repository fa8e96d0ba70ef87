package peer

import (
	"context"
	"net/http"
	"time"

	"github.com/hashicorp/raft"
)

// Link is how a node reaches the other nodes and is reached by them. A Port is
// one over TCP; memnet has one in memory, for tests in virtual time.
type Link interface {
	// Addr is the address by which the other nodes reach this one, host:port.
	Addr() string
	// RaftTransport is raft's way to the other nodes. It is called at most once at a time:
	// again only after the transport before was closed.
	RaftTransport(timeout time.Duration) raft.Transport
	// Handle adds the handler of a call for nodes of the same cluster. See ReadBody.
	Handle(path string, h http.Handler)
	// HandleAny adds the handler of a call for nodes of any cluster, or none yet.
	HandleAny(path string, h http.Handler)
	// Call posts body to the node at addr and returns its answer. Errors: ErrNotSent,
	// *StatusError, anything else = its fate is not known. It never sends twice.
	Call(ctx context.Context, addr, path string, body []byte) ([]byte, error)
	// SetClusterID says which cluster this node belongs to; raft's connections are refused before.
	SetClusterID(id string)
	// SetMembers says which node id is expected at which address: a Call to another
	// node's address is then refused before anything is sent.
	SetMembers(byAddr map[string]string)
	// Close ends everything and leaves no connection behind. Repeated: no effect.
	Close() error
}

var _ Link = (*Port)(nil)
