// Package founding is how a node finds its cluster: it founds one together with
// its listed peers, is asked into one, comes back to its own, or asks to be added.
//
// Invariants:
//
//   - One list of peers founds at most one cluster. It is founded by the peer with
//     the smallest id, and only after all listed peers answered that their
//     directories are empty and that they have the same list. Nothing is bootstrapped
//     before every one of them holds the cluster's id on disk.
//   - A node whose directory was wiped is never let in under its old id, as it forgot
//     its votes: every peer of a running cluster that lists it makes it refuse, and an
//     invitation counts only for the process that the founder talked to right before
//     (its incarnation). So an invitation that was under way while the invitee was
//     wiped does nothing: at the time the founder made a good one, this process was
//     running and the cluster was not bootstrapped, hence nobody of this id ever voted.
//   - A directory's identity is durable before any other node may count on it: the
//     invitee's before its yes, the joining node's before it asks.
//   - A directory that has an identity starts at once, without asking anyone.
//   - What stops a start is a *RefusedError, one line that says what to do.
//
// The durable steps of a founding, each of which may be the last before a crash:
//
//	founder: identity {new id, founding} → invitations → (all said yes) → bootstrap, by the caller → identity {member}
//	invitee: identity {id, invited} → yes → raft without bootstrap → identity {member} once it has raft state
//	joining: identity {id, joining} → asks the leader → raft without bootstrap → identity {member} once it has raft state
package founding
