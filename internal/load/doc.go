// Package load puts a running cluster under load and measures it from its callers' side.
//
// Invariants:
//
//   - It is a closed loop: each caller sends its next call when the last is answered. A stall is
//     seen as one long call, not as many.
//   - Its keys begin with a prefix of the run's own, and go by themselves when their retention is over, also
//     those of a run that was cut: nothing of it ever becomes unknown.
//   - Every answer is checked: a new key that is not granted, or a replay that is another
//     answer, is counted as wrong.
package load
