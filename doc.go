// Package onced holds the words of the domain: the idempotency [Key] and its
// parser, the [Record] and its [State], the fencing [Token], the [Problem]
// codes with their HTTP status and retry advice, and [Keeper], the verbs that
// everything outside consensus is written against.
//
// Invariants:
//
//   - The package imports the standard library only and does no I/O.
//   - A [Key] that [ParseKey] or [KeyFromPath] returned is valid: 1 to
//     [MaxKeyBytes] bytes of 0x20–0x7E.
//   - Every error that a [Keeper] returns is a [*Problem] with a known [Code].
//   - A duration is a time.Duration; a point in cluster time is an [Instant]
//     (milliseconds). Nothing in this package reads a clock.
package onced
