// Package gateway is the protecting reverse proxy: put before an unchanged
// upstream, it makes the operations of its protected routes happen once, on any
// [onced.Keeper].
//
// Invariants:
//
//   - Nothing protected is forwarded without a reservation that the Keeper granted for this very
//     attempt: no decision is 503 and an untouched upstream.
//   - One reservation is one request on the wire. Nothing here, nor the transport below, sends it again,
//     in HTTP/1.1 or HTTP/2.
//   - Nothing is released unless it is certain that the upstream did not do it: no connection was
//     had, or the upstream itself says so, by a status of the release list or by refusing the stream.
//   - The record is durable before the client has the whole answer. What cannot be
//     recorded in time is told as outcome_unknown, and recorded in the background until it is or is refused.
//   - The client's connection decides nothing: an operation runs to its end and is stored, whoever hangs up.
//   - An answer that did not arrive whole is never stored as whole, and never passed on as whole.
//   - A limit refuses before anything is reserved. What has happened is recorded, whatever it takes.
//   - An answer that is kept outside of its record is durable there before the record is, and replayed only as far as
//     it has the record's length and digest. Its store can fail nothing but its own replay.
//   - A path that an upstream might read as a protected one never passes unprotected, and nothing below
//     /.onced/, the gateway's own, is forwarded at all.
//   - What is unknown runs again, under probe, only if its attempt was over by the cluster's time, or by the word
//     of who saw it end, before the upstream was asked; and only by a takeover of its very token.
//   - The records that the gateway keeps aside decide nothing: losing one costs time, or an answer that freed its key.
//   - An operation whose client was answered 202 is one like any other: counted, drained, recorded.
//
// What a user of it has to know beyond the contract:
//
//   - The upstream sees the client's Host, path, query and key as they were sent, and X-Forwarded-For,
//     -Host and -Proto, and Forwarded. Its answer goes on as it is, but for hop-by-hop headers and
//     trailers; docs/gateway.md says what that means on the wire.
//   - Routes match the path read plainly: segments decoded, case and one slash at the end counting for
//     nothing. A path with dot segments, double slashes, backslashes, ";parameters" or escaped
//     separators is 400 where one of its other readings is protected by another route. What an
//     upstream serves under further names (such as /charge.json) needs routes of its own.
//   - scope: route is the method and the pattern with its variable parts as sent: "POST /pay/42".
//   - An answer that is larger than max_response, or an event stream, begins before it is recorded, and so
//     has no Idempotency-Expires. The route's timeout stands still while its client is slow to take
//     it; a client that takes nothing for 10 s counts as gone.
//   - /.onced/problems/ has the pages that explain its refusals, /.onced/operations/{key} what became of one that
//     was accepted with 202.
//   - Every request has an X-Request-Id, its own or a new one, at the upstream, in the log and in a refusal. The
//     upstream's answers are not touched.
//   - An answer without a length that ends with its connection (HTTP/1.0) is taken for whole when
//     the connection is closed in order: no one can tell.
package gateway
