package store

import (
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// forget has the system let go of what it holds of a file in memory, but for what is not on the disk yet. After an fsync that
// erred it holds bytes as if they were on the disk, which are not: whoever reads next is to see the disk's. A hint; no error.
func forget(fd uintptr) {
	if fd != vfs.InvalidFd {
		_ = unix.Fadvise(int(fd), 0, 0, unix.FADV_DONTNEED)
	}
}
