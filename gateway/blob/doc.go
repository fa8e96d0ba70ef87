// Package blob keeps bodies that are too large for a record: in a directory, or
// (package s3) in a store that speaks S3.
//
// Invariants:
//
//   - A blob is seen under its name only once it is there whole and durable: [Writer.Commit]
//     returns nil only then, and what was not committed is never seen.
//   - A name is made by us alone: an hour and 256 bits. No text of a client is in one, so no name leaves
//     the store's place, and nobody finds one by guessing.
//   - A blob is never changed. It is deleted by its name, or by a [Store.Sweep] once it is due;
//     any number of gateways may sweep one place at once.
//   - What a store hands out is not to be trusted: the caller knows length and digest.
package blob
