// Package fingerprint computes what a key was first used for: a keyed digest of
// an HTTP request that is equal for two requests that mean the same operation.
//
// Invariants:
//
//   - It is pure: no clock, no randomness, no I/O. The same secret, options and request give the
//     same fingerprint on every node and in every release of the version in its prefix ("f1:").
//   - Every part is written with its length, so no byte can move from one part to another and
//     leave the digest as it was.
//   - When in doubt two requests differ: whatever is not certainly valid JSON or multipart is compared
//     byte by byte. A false difference costs a conflict, a false equality costs money.
//   - The digest is keyed (HMAC-SHA-256): whoever reads the table cannot guess a PIN from it.
package fingerprint
