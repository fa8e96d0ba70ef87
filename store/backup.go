package store

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// RestoreOptions are the settings of RestoreBackup. NewCluster is required.
type RestoreOptions struct {
	NewCluster
	Logger *slog.Logger            // nil = none
	Fault  func(step string) error // as in Options; for tests
}

// offlineStall is how long a write of work without a node may take: nobody waits for it.
const offlineStall = time.Minute

// RestoreBackup makes the directory at path, which must be empty or not be there, that of the first and only member of
// a new cluster, from a backup. After an error everything that it made is gone; after a crash in between, Open refuses
// the directory (ErrUnfinished) and so does RestoreBackup.
func RestoreBackup(path string, backup io.Reader, o RestoreOptions) (Refounded, error) {
	made, err := emptyDir(path)
	if err != nil {
		return Refounded{}, err
	}
	var broken brokenDisk
	open := Options{Fatal: broken.set, StallLimit: offlineStall, Logger: o.Logger, Fault: o.Fault, Work: WorkRestore}
	d, err := Open(path, open)
	if errors.Is(err, ErrLocked) {
		return Refounded{}, err // somebody else's: nothing here was made by us
	}
	var out Refounded
	if err == nil {
		out, err = d.takeBackup(backup, o.NewCluster)
		err = errors.Join(err, d.Close(), broken.get())
	}
	if err == nil {
		err = reopen(path, open)
	}
	if err != nil {
		return Refounded{}, errors.Join(err, clear(path, made))
	}
	return out, nil
}

// takeBackup puts the backup's table in the place of the empty one, and founds.
func (d *Dir) takeBackup(backup io.Reader, c NewCluster) (Refounded, error) {
	l, err := readLabel(backup)
	switch {
	case err != nil:
		return Refounded{}, err
	case l.kind != labelBackup || l.index == 0:
		return Refounded{}, fmt.Errorf("reading a backup: %w: it is of kind %d and of entry %d", ErrDamaged, l.kind, l.index)
	}
	if err := d.table.replace(backup, l); err != nil {
		return Refounded{}, err
	}
	if n, err := io.CopyN(io.Discard, backup, 1); n > 0 || err != io.EOF {
		return Refounded{}, fmt.Errorf("reading a backup: %w: something comes after its end", ErrDamaged)
	}
	if d.table.Meta().ClusterID == "" {
		return Refounded{}, fmt.Errorf("reading a backup: %w: its table is no cluster's", ErrDamaged)
	}
	return d.Refound(c)
}

// reopen makes sure that what was made can be opened, and puts it in force.
func reopen(path string, o Options) error {
	d, err := Open(path, o)
	if err != nil {
		return err
	}
	return errors.Join(d.Finish(), d.Close())
}

// emptyDir refuses a directory that has anything in it. made tells that there is none.
func emptyDir(path string) (made bool, err error) {
	if _, err := os.Stat(filepath.Join(path, unfinishedFile)); err == nil {
		return false, fmt.Errorf("%s %w: it holds work that was interrupted; empty it and run onced restore again", path, ErrNotEmpty)
	}
	names, err := os.ReadDir(path)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", path, err)
	}
	for _, entry := range names {
		if name := entry.Name(); name != "LOCK" && name != "lost+found" && !strings.HasSuffix(name, tmpSuffix) {
			return false, fmt.Errorf("%s %w (it has %.80q): expected an empty directory, or none", path, ErrNotEmpty, name)
		}
	}
	return false, nil
}

// clear removes what an interrupted RestoreBackup has made, and the directory where it made that too. The mark goes last, so
// that a crash in between leaves no directory that looks like a new one.
func clear(path string, made bool) error {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	lock, err := lockDir(path)
	if err != nil {
		return fmt.Errorf("clearing %s: %w", path, err)
	}
	defer lock.Close()
	names, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("clearing %s: %w", path, err)
	}
	for _, entry := range names {
		switch name := entry.Name(); name {
		case unfinishedFile, "LOCK", "lost+found":
		default:
			err = errors.Join(err, os.RemoveAll(filepath.Join(path, name)))
		}
	}
	if err == nil {
		err = errors.Join(removeIfThere(filepath.Join(path, unfinishedFile)), removeIfThere(filepath.Join(path, "LOCK")))
	}
	if err == nil && made {
		err = os.Remove(path)
	}
	if err != nil {
		return fmt.Errorf("clearing %s: %w", path, err)
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// brokenDisk keeps what Options.Fatal is called with, where there is no node to end.
type brokenDisk struct {
	mu  sync.Mutex
	err error
}

func (b *brokenDisk) set(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

func (b *brokenDisk) get() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}
