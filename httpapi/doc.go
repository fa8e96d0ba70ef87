// Package httpapi is the HTTP API of a node: the calls on keys, the state of the
// cluster, health, metrics, and the pages that explain each problem. It stands on a
// [onced.Keeper] and knows nothing of consensus. [NewCompanion] is what is left of it beside a cluster: health,
// metrics and pages.
//
// Invariants:
//
//   - Who calls is decided before anything else is looked at: before the key is
//     read, a body is parsed or the Keeper is asked.
//   - Every answer of a call is JSON, every refusal problem+json with a code of
//     the table, also those of the router, of a panic and of a body that is too large.
//   - A key is percent-decoded exactly once, from the path as it was sent. The path is
//     never cleaned, joined or redirected.
//   - What is not understood is refused by name: query parameters, members, media
//     types, encodings. Nothing is ignored but the body of a call that takes none.
//   - A reserve ends with its client's connection. A write by a holder or by an
//     operator does not: it goes on until it is decided or its time is over.
//   - Every call has a deadline: Config.RequestTimeout, and the wait that it asked for.
package httpapi
