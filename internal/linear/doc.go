// Package linear is contract §2 for one key as a model that porcupine orders calls by: for whoever has
// sent calls to a cluster at once and asks whether there is an order of them that explains every answer.
//
// Invariants:
//
//   - A call that was sent once, and whose answer was lost, may take effect at any later time, or never.
//   - A refusal says what holds when it is said. That an earlier try of the same call, which a node made, had no
//     effect, it does not say (contract §2, rule 2).
//   - Times are only ever used to say "not yet": a lease or a retention is never over before it can be, by the
//     caller's monotonic clock and what the cluster's time may differ from it ([Earliest]). How late one may
//     end, the model does not judge.
//   - A key whose records end by retention may be replayed for a while after that, by a node that lags
//     (contract §2, rule 4).
package linear
