// Package clock is the cluster's time as the leader tells it: what it stamps on
// log entries, in milliseconds since the Unix epoch.
//
// Invariants:
//
//   - Time is read off this process's monotonic clock. Wall clocks only say where
//     a term begins and where it should drift to, so a wall clock that is set while a
//     leader leads changes nothing at once.
//   - [Clock.Now] never gives less than it gave before or than a stamp it was shown.
//   - Within a term, time runs at 99 % to 101 % of the monotonic clock. It neither
//     jumps (that would shorten the leases that are running) nor stands still.
//   - Only a cold start may jump, and forward only: a term that begins while no process remembers
//     a leader's time. While the cluster runs, time goes on across terms.
//
// # The start of a term
//
// The new leader asks the voters. Each answers with its wall clock and with its floor: what a
// leader's time was when it last heard one, and 99 % of what has passed since by its own monotonic
// clock. A floor is never ahead of the time (it runs at 99 % at least), so the largest one of those that heard the
// latest leader is where time goes on, at
//
//	max(floors of the latest leader, the table's clock)
//
// whatever the wall clocks say: a leader that was killed costs no jump, so no lease is cut, and a clock that is
// an hour behind does not hold time back. An idle leader stamps every few seconds, so that floors stay close.
//
// Where no voter has a floor, all of them have been restarted since a leader led. Then the term begins at
//
//	max(lower median of the wall clocks, the table's clock)
//
// The lower median of n answers is the ((n+1)/2)-th smallest, rounded down. As soon
// as there are two answers, one clock that is ahead cannot be it, so it shortens no
// lease. One that is behind may be it when two of three voters answer: then time begins as far behind, but never
// before the table's clock, and catches up by the corrections below. With its own answer alone in
// a cluster of several voters the leader cannot tell whether it is the one that is wrong,
// and goes on from the table's clock; the caller should rather ask again. A cluster of
// one has nobody else to ask and believes itself.
//
//	three voters, cold         answers            begins at
//	leader's clock +1 h        +1h, 0, 0          0
//	leader's clock -1 h        -1h, 0, 0          0
//	a follower's +1 h or -1 h  0, ±1h, 0          0
//	one missing, other +1 h    0, +1h             0
//	one missing, other -1 h    0, -1h             an hour behind, or the table's clock
//	two missing                own                the table's clock
//	all down for two hours     +2h, +2h, +2h      two hours later, at once
//
// # Corrections
//
// The leader asks again from time to time, and [Clock.Check] compares. The
// difference is worked off at 1 % of the time that passes: 10 s of difference take 1,000 s,
// a lease of 30 s becomes 29.7 s or 30.3 s by cluster time. Without a majority of answers
// nothing is corrected. With two of three the lower one is believed, as above: a follower
// that is an hour behind makes time run at 99 % until the third voter is back, no more.
package clock
