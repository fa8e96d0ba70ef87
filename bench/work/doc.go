// Package work is the load of the comparison, the same for every system, and what it measures.
//
// Invariants:
//
//   - Every answer is looked at: a key that is granted twice, an answer that is not the stored one, or an error is counted, never
//     taken for a success.
//   - In a closed loop a caller sends its next call when the last is answered: that tells what a system can do, not how
//     long anybody waits.
//   - In an open loop calls are due at a fixed rate, whatever became of those before, and a time counts from when the call was due: a
//     stall is seen by all that fell into it. (Anything else leaves out the very calls that waited: coordinated omission.)
package work
