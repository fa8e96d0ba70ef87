package store

import (
	"github.com/cockroachdb/pebble/v2/vfs"
)

// faultFS is the table's file system for tests, in which Options.Fault is asked before each write (table.write) and each sync
// (table.sync) of the table. So a sync can err whose write went well.
type faultFS struct {
	vfs.FS
	guard *guard
}

// tableFS is where the table lies: without Options.Fault nothing is between it and the disk.
func (f files) tableFS() vfs.FS {
	if f.guard.fault == nil {
		return f.FS
	}
	return faultFS{f.FS, f.guard}
}

func (f faultFS) wrap(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return faultFile{file, f.guard}, nil
}

// Create implements vfs.FS.
func (f faultFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.wrap(f.FS.Create(name, c))
}

// OpenReadWrite implements vfs.FS.
func (f faultFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return f.wrap(f.FS.OpenReadWrite(name, c, o...))
}

// OpenDir implements vfs.FS.
func (f faultFS) OpenDir(name string) (vfs.File, error) { return f.wrap(f.FS.OpenDir(name)) }

// ReuseForWrite implements vfs.FS.
func (f faultFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.wrap(f.FS.ReuseForWrite(from, to, c))
}

// Unwrap implements vfs.FS.
func (f faultFS) Unwrap() vfs.FS { return f.FS }

type faultFile struct {
	vfs.File
	guard *guard
}

// step is guard.step, with an eye on how long it takes: the file system's own watch lies below.
func (f faultFile) step(name string) error {
	w := f.guard.watch("writing the table")
	defer w.stop()
	return f.guard.step(name)
}

// Write implements vfs.File.
func (f faultFile) Write(p []byte) (int, error) {
	if err := f.step("table.write"); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

// WriteAt implements vfs.File.
func (f faultFile) WriteAt(p []byte, at int64) (int, error) {
	if err := f.step("table.write"); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, at)
}

// Sync implements vfs.File.
func (f faultFile) Sync() error {
	if err := f.step("table.sync"); err != nil {
		return err
	}
	return f.File.Sync()
}

// SyncData implements vfs.File.
func (f faultFile) SyncData() error {
	if err := f.step("table.sync"); err != nil {
		return err
	}
	return f.File.SyncData()
}

// SyncTo implements vfs.File.
func (f faultFile) SyncTo(length int64) (bool, error) {
	if err := f.step("table.sync"); err != nil {
		return false, err
	}
	return f.File.SyncTo(length)
}
