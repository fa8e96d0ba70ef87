// Package tokens keeps the credentials of the HTTP API: it makes tokens, reads
// the file that names their digests, and looks a presented token up.
//
// Invariants:
//
//   - A token is never in the file, in an error or in a log: only its SHA-256 is kept, and
//     messages name a line by its number.
//   - How long a look-up takes tells nothing of the digests: the table is keyed by a digest that
//     is salted anew in each process, and the last comparison takes constant time, found or not.
//   - A [Table] is read whole or not at all. It never changes; a reload makes another one.
//   - A credential is of one tenant and one role. Only the role gateway may act for other tenants.
package tokens
