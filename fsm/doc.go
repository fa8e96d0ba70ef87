// Package fsm is the key table as a pure state machine: [Apply] runs the
// commands of one log entry against a [Tx], and [Step] decides a single command
// from a [View] alone.
//
// Invariants:
//
//   - No clock, no I/O, no goroutine, no map iteration, no randomness, no raft: the
//     same entries give the same table, results and history on every node and in every release.
//   - Time is the entry's stamp; the table's clock is the largest stamp it has seen. A lease,
//     a retention and a tombstone are judged on that clock alone. It does not import "time".
//   - A refused command writes nothing.
//   - A token is given out once, in rising order.
//   - An error of Step, Apply or a codec is fatal: the node must stop rather than drift.
package fsm
