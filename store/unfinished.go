package store

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// Work says what is done to a data directory while no node runs on it.
type Work string

// The kinds of work.
const (
	WorkRestore Work = "restore" // the directory is made from a backup
	WorkRecover Work = "recover" // the node is made the only one of a new cluster
)

// unfinishedFile says which work has begun on the directory and not ended. It is there, durably, before the
// first change and until the last one is durable. While it is there the directory is nobody's: Open refuses it
// unless the same work goes on.
const unfinishedFile = "UNFINISHED"

// unfinished returns the work that was interrupted, "" for none.
func (f files) unfinished() (Work, error) {
	data, err := f.read(f.path(unfinishedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return Work(strings.TrimSpace(string(data))), nil
}

// checkUnfinished refuses a directory whose work is to be ended by another command.
func (f files) checkUnfinished(now Work) error {
	begun, err := f.unfinished()
	switch {
	case err != nil || begun == "" || begun == now:
		return err
	case begun == WorkRestore:
		return fmt.Errorf("opening %s: %w: empty it and run onced restore again", f.root, ErrUnfinished)
	}
	return fmt.Errorf("opening %s: %w: run onced %.20s again", f.root, ErrUnfinished, string(begun))
}

// Begin marks the directory before the first change: until Finish no node can run on it.
func (d *Dir) Begin() error {
	if err := d.files.replace("unfinished", d.files.path(unfinishedFile), []byte(string(d.work)+"\n")); err != nil {
		return fmt.Errorf("beginning to %s %s: %w", d.work, d.files.root, err)
	}
	return nil
}

// Finish ends the work that the directory was opened for: a node may run on it from now on.
func (d *Dir) Finish() error {
	err := d.files.guard.step("unfinished.remove")
	if err == nil {
		err = d.files.Remove(d.files.path(unfinishedFile))
	}
	if err == nil {
		err = d.files.syncDir(d.files.root)
	}
	if err != nil {
		return fmt.Errorf("ending to %s %s: %w", d.work, d.files.root, err)
	}
	return nil
}
