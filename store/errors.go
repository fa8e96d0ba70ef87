package store

import "errors"

var (
	// ErrLocked: another process has the data directory open.
	ErrLocked = errors.New("the data directory is in use by another process")
	// ErrNotWritable: the data directory cannot be written to: read-only, full, or no permission.
	ErrNotWritable = errors.New("the data directory is not writable")
	// ErrDamaged: bytes on disk, or of a snapshot that came in, are not what was written.
	ErrDamaged = errors.New("damaged")
	// ErrBehind: the table lacks entries that raft has dropped from its log.
	ErrBehind = errors.New("the table is behind raft's log")
	// ErrUnfinished: work on the data directory was interrupted, and has to be done again before a node may run on it.
	ErrUnfinished = errors.New("work on the data directory was interrupted")
	// ErrNotEmpty: a directory that is to be made has something in it.
	ErrNotEmpty = errors.New("is not empty")
	// ErrClosed: the data directory has been closed.
	ErrClosed = errors.New("the data directory is closed")
)
