// Package wire is the JSON of the HTTP API, shared by the node and by the Go
// client: it turns the bodies of calls and answers into the words of package
// onced and back.
//
// Invariants:
//
//   - A body of a call is read strictly: a member that is unknown, repeated, written in another case, of
//     another type or null, and anything after the value, is refused as
//     invalid_request by name. Nothing is guessed, joined or cut short.
//   - An answer is read leniently: members that this release does not know are
//     skipped, so that an old client understands a new node.
//   - Text is UTF-8 on both sides. What is not (a body, a header value) travels as base64
//     and comes back byte for byte; nothing is ever replaced by U+FFFD.
//   - A token is an integer literal below 2^53, never a string, a fraction or an exponent.
//   - A duration is a Go string, a time is RFC 3339 in UTC with exactly three
//     digits of a second.
//   - What is decoded shares no memory with the bytes it came from.
package wire
