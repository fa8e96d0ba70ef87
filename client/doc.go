// Package client is a [onced.Keeper] over the HTTP API of an onced cluster, which fails over
// between its nodes, and net/http middleware that makes the operations of a
// handler happen once on any Keeper.
//
// Invariants of [Client]:
//
//   - A reserve always carries an owner, one made for it alone unless the caller gave one, so that
//     the same reserve sent to another node is the same reservation.
//   - A call whose fate is not known is sent again, with the same owner or token, to the next node,
//     until it is decided or its time is over. An operator's verb (Resolve, Forget) is sent
//     again only when nothing of it was sent: it acts on the record that it saw.
//   - What was decided is never sent again: only unavailable is, after its Retry-After.
//   - A reserve that fails after one of its tries had an unknown fate cancels the owner that
//     the Client made for it, in the background and for a bounded time, so that no reservation that nobody
//     holds stays behind.
//   - Nothing below this package sends a request a second time: no redirect is followed, and net/http
//     can neither rewind a body nor sees a header that would allow it to.
//   - Every error is a [*onced.Problem] with a known code.
//
// Invariants of [Middleware]:
//
//   - The handler runs only on a reservation that was granted to this very request, once.
//   - The client has the answer only after it is recorded. What cannot be recorded in time is told as
//     outcome_unknown, and recording goes on.
//   - A handler that panics leaves unknown, never a free key.
//   - The client's connection decides nothing: the handler's context does not end with it.
package client
