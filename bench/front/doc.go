// Package front is the thin HTTP front that puts other stores behind the calls of onced's API that the comparison makes:
// what a service does today that keeps its idempotency keys in one of them.
//
// Invariants:
//
//   - It is the same code for every store: only what a [Store] does differs.
//   - It promises what the store promises and not more: no retries, no clock, no sweeper.
//   - Answers have the shape of onced's, so that the same callers load both.
package front
