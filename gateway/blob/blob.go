package blob

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrNotFound says that there is no blob of this name.
var ErrNotFound = errors.New("there is no such blob")

// Store keeps blobs. Its methods may be called at once. A method whose ctx ends may still go on for a
// while, as a disk that hangs cannot be interrupted.
type Store interface {
	// Create begins a blob. Its writer is to be ended by Commit or Abort.
	Create(ctx context.Context, n Name) (Writer, error)
	// Open reads a blob from its start; ctx bounds the whole of the reading. Errors: ErrNotFound.
	Open(ctx context.Context, n Name) (io.ReadSeekCloser, error)
	// Delete deletes a blob. One that is not there is no error.
	Delete(ctx context.Context, n Name) error
	// Sweep deletes the blobs that were due before now, and what dead writers left. It returns how many blobs
	// it deleted, also beside an error.
	Sweep(ctx context.Context, now time.Time) (int, error)
}

// Writer takes one blob. It belongs to one goroutine.
type Writer interface {
	io.Writer
	// Commit makes the blob durable and visible. After an error it is not there, and nothing is
	// left of it but what a Sweep finds.
	Commit(ctx context.Context) error
	// Abort drops the blob. After a Commit it does nothing.
	Abort()
}
