// Package s3 keeps blobs in a bucket of a store that speaks S3.
//
// Invariants:
//
//   - An object is uploaded only once the blob is whole: it is gathered in a file without a name on the
//     machine's temporary storage, so a slow store slows nobody's answer, and a process that dies leaves nothing.
//   - Objects stand under the prefix, in folders by the hour in which they are due. Nothing
//     outside of the prefix is looked at.
package s3
