// Package propose brings commands into the log and their results back, from
// whichever node they were asked on. It knows neither raft nor sockets: the log and the way
// to the leader are interfaces, and time is virtual in its tests.
//
// [Proposer.Do] is one try. [Retrier.Submit] tries until the caller's deadline, and
// cancels in the background what a caller that gave up may have left behind.
//
// # Three answers
//
// A try ends with a result (the command is in the log and was decided), with
// [ErrNotApplied] (this try is not in the log and never will be), or with [ErrUnknown]
// (it may be, or may come to be). When in doubt it is ErrUnknown. ErrNotApplied is said only when the
// command was still in this node's queue and was taken out of it; when it was never
// sent; when the leader says so; when the log says so; or when the machine found it late.
//
// # The way
//
// Commands wait in one queue, and what waits travels together: on the leader as an Entry, on a
// follower as a Frame to the leader, who puts its commands into its own queue. There
// is no timer for the sake of larger batches: what waits leaves as soon as no entry (frame) is under
// way, so a lone caller leaves at once. A second frame leaves beside one that is under way, a second entry if it has at least as many commands, and beside more,
// up to MaxEntries (MaxFrames), only a full batch does: what comes meanwhile gathers, which spares syncs and processor time, and waits
// for at most one entry before its own. A frame is taken only by a node that
// leads in the very term that the frame was sent in, and what came in a frame
// is never forwarded again. An expire travels alone in its entry.
//
// Reserves and everything else have separate shares of the queue, so a flood of reserves
// never refuses a holder's command.
//
// # Until when a command may be applied
//
// A reserve whose caller was told 503 must not turn up later. So every command carries
// not_after, the cluster time at which its caller gives up; the leader drops it from its
// queue after that, and the machine refuses it. The time is absolute and set once, by the node
// that the caller asked: a frame that hangs in a socket buffer, or a leader that was
// stopped with the frame in its memory, does not make it younger.
//
// The leader computes not_after from its own clock. A follower has no clock of the
// cluster, but estimates it from below: an answer carries the leader's time L, taken before
// the answer arrived, so at d after its arrival it is at least L + 0.99·d there. With the budget b that
// is left to the caller, not_after = L + d + b. Hence:
//
//   - It is at most 1 % of d+b later than the caller's end by the leader's clock: 0.3 s
//     with the default bounds (d ≤ 20 s, b ≤ 10 s). This is far less than fsm.CancelMemoryMs (1 h): a cancel
//     that was decided after the caller's end is remembered when the last late try arrives.
//   - It is too early by at most the time that the answer travelled. Then the leader says
//     FATE_TOO_LATE, which is "not applied", and sends a fresh time with it.
//   - An estimate belongs to one term. Without one, or with one older than 20 s, the
//     follower first sends an empty frame, which asks for the time. A frame of another
//     term is refused, so clocks of two leaders are never mixed.
//
// What remains is a leader that is stopped between stamping an entry and handing it to
// the log. Either its term is over when it goes on, and then the entry never gets behind a cancel
// that a later leader wrote; or it is not, and the log goes on from there: the
// machine's clock is the largest stamp, so an entry behind the cancel's is late or
// finds the owner cancelled.
//
// # Giving up
//
// A reserve whose owner this node made, and one try of which is unknown, is followed by a
// cancel of that owner unless it was granted: when the caller's deadline passed, when the caller went
// away, and also when a later try was refused ("in progress" at the second try says nothing of the first, which may
// still arrive once the other holder has released). If every try was ErrNotApplied there is nothing to cancel, and
// nothing is written: an outage would otherwise end with a flood of cancels.
// The cancel is repeated until it is decided, across changes of the leader.
//
// An owner that the caller made is the caller's to cancel. So a refusal of its reserve is not told after a try that is unknown:
// the caller would take it for the last word, and never cancel what the first try may yet bring. It is told that nothing is known,
// and asks again with the same owner, or cancels.
package propose
