package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockDir makes the data directory, unless it is there, and keeps every other process, and every other
// Open of this one, out of it until the returned file is closed.
func lockDir(path string) (*os.File, error) {
	if err := makeAll(path); err != nil {
		return nil, fmt.Errorf("making data directory %s: %w", path, err)
	}
	name := filepath.Join(path, "LOCK")
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, notWritable(path, err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", path, ErrLocked), file.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", name, err), file.Close())
	}
	return file, nil
}

// makeAll is os.MkdirAll, durably: each folder's name is fsynced with the folder that has it.
func makeAll(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(path)
	if err := makeAll(parent); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	dir, err := os.Open(parent)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// probeBytes is more than one block, so that a full disk is noticed.
const probeBytes = 64 << 10

// probe writes to the directory for real, since neither permission bits nor free blocks tell
// whether that works.
func (f files) probe() error {
	name := f.path("probe" + tmpSuffix)
	err := f.guard.step("probe")
	if err == nil {
		err = f.writeSynced(name, make([]byte, probeBytes))
	}
	if err == nil {
		err = f.Remove(name)
	}
	if err != nil {
		_ = f.RemoveAll(name) // a part of it may be there
		return notWritable(f.root, err)
	}
	return nil
}

// notWritable says in one line why the directory cannot be used.
func notWritable(path string, err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return fmt.Errorf("opening %s: %w: %w", path, ErrNotWritable, errno)
	}
	return fmt.Errorf("opening %s: %w: %w", path, ErrNotWritable, err)
}
