// Package peer is the one port over which the nodes of a cluster talk to each
// other: raft's connections and the RPCs of everything else, told apart by the
// first byte, cleartext on loopback or mutual TLS anywhere else.
//
// Invariants:
//
//   - Nothing reaches raft or a handler before the preface is read and agreed
//     to: which cluster the caller belongs to, who it is, and whom it means to
//     reach. A node that answers at another node's address is refused, so a
//     vote or an entry never lands in the wrong log.
//   - A raft connection is refused until SetClusterID was called, and for ever
//     when it comes from another cluster.
//   - Call never sends a request twice. ErrNotSent means that no byte of it left
//     this node and none will; a *StatusError is the peer's own word that it
//     did not do it; after any other error nobody knows.
//   - Addresses are names. They are resolved at each dial and never stored as
//     numbers: a container comes back with the same name and another number.
//   - Heartbeats go through raft's main loop (raft#695): RaftTransport swallows
//     SetHeartbeatHandler, and keeps pre-vote.
//   - Close leaves no connection and no goroutine behind.
package peer
