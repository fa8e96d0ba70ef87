// Package cluster is consensus: a [Node] keeps its copy of the key table in step
// with the other nodes' through raft, and is a [onced.Keeper] whichever node leads.
//
// The way of a write: Keeper verb → command → Retrier (until the deadline) → Proposer
// (what waits travels together, on a follower as a frame to the leader) → raft → machine → table →
// result back the same way. The way of a read: the leader says how far its table was and that it still leads, this
// node's table catches up to there, and is read.
//
// Invariants:
//
//   - A write is answered only from its entry's result, after the entry was applied on the leader:
//     it is on the disks of a majority. What is not known is asked again with the same owner or token, never guessed.
//   - Time enters the table only as a stamp of a leader that has applied everything before its term.
//   - Only a completed record is served from a table without asking the leader, and only while
//     neither the table's clock nor this node's own says that its retention is over.
//   - raft's notifications are drained by one goroutine that never blocks on anything else.
//   - A disk that errs or stalls, a command this release does not know, and a table that differs from the
//     majority's end the node (Done, Err); nothing is served on.
//   - Leadership is handed over right before the end, or when the disk is nearly full; a leader that raft keeps
//     from writing after a transfer that failed ends (raft#696).
//   - The membership changes by one node at a time, on the leader, and only where a majority of the voters that would remain
//     answers or an operator insists. A node believes that it was removed only by a leader's word.
package cluster
