package store

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
)

// Restore replaces the table by the one in a stream: that of SnapshotStore.Open, or of Table.Backup. It must be called on
// the state machine's goroutine. Readers see the old table until they see the new one, and so does a node that crashes:
//
//	unpack     the files lie in table-<n+1>.tmp, and are whole
//	rename     they lie in table-<n+1>, durably
//	open       it opens, and its applied index is at least that of the label
//	CURRENT    names it, durably: from here on it is in force
//	swap       readers get it; the old table and the received bytes are removed
//
// After an error the old table is in force, unless it has ended the process. A snapshot of our own log that has nothing
// that the table lacks changes nothing.
func (d *Dir) Restore(r io.Reader) error {
	if err := d.snapshots.restore(r); err != nil {
		return fmt.Errorf("restoring the table: %w", err)
	}
	return nil
}

func (s *SnapshotStore) restore(r io.Reader) error {
	l, err := readLabel(r)
	if err != nil {
		return err
	}
	if l.kind == labelSnapshot && s.table.Applied() >= l.index {
		// A leader that is behind may send what this node has had for long. Going back would put the table
		// behind our own newest snapshot, and there is no need: it has all that raft asks for.
		if err := s.table.Flush(); err != nil {
			return err
		}
	} else if err := s.table.replace(r, l); err != nil {
		return err
	}
	s.dropStates(s.table.Applied())
	return nil
}

// replace is Restore after the label.
func (t *Table) replace(r io.Reader, l label) error {
	next, state, err := t.prepare(r, l)
	if err != nil {
		return err
	}
	err = t.files.guard.do("restore.current", "putting the restored table in force", func() error { return t.files.setCurrent(next.name) })
	if err != nil {
		// Which of the two is in force is not known before the next Open: the process ends.
		return errors.Join(err, next.Close())
	}
	old := t.swap(next, state)
	if old == nil {
		return errors.Join(ErrClosed, next.Close())
	}
	if err := old.Close(); err != nil {
		return fmt.Errorf("closing the old table: %w", err)
	}
	if err := t.files.RemoveAll(t.files.path(old.name)); err != nil {
		t.opts.log.Warn("the old table stays until the next start", "name", old.name, "error", err)
	}
	return nil
}

// prepare makes a table beside the one in force, up to the point where CURRENT may name it.
func (t *Table) prepare(r io.Reader, l label) (*db, tableState, error) {
	f := t.files
	n, _ := tableNumber(t.db.name) // only the state machine's goroutine changes it
	name := tableName(n + 1)
	if err := f.guard.step("restore.unpack"); err != nil {
		return nil, tableState{}, err
	}
	if err := f.unpack(r, f.path(name)+tmpSuffix); err != nil {
		return nil, tableState{}, errors.Join(err, f.RemoveAll(f.path(name)+tmpSuffix))
	}
	if err := f.RemoveAll(f.path(name)); err != nil { // of an earlier try
		return nil, tableState{}, fmt.Errorf("clearing %s: %w", f.path(name), err)
	}
	if err := f.publish("restore", f.path(name)); err != nil {
		return nil, tableState{}, err
	}
	next, state, err := openDB(f, t.opts, name)
	if err != nil {
		return nil, tableState{}, errors.Join(err, f.RemoveAll(f.path(name)))
	}
	if err := next.settle(l, &state); err != nil {
		return nil, tableState{}, errors.Join(err, next.Close(), f.RemoveAll(f.path(name)))
	}
	return next, state, nil
}

// settle sees to the applied index of a table that is not in force yet.
func (d *db) settle(l label, state *tableState) error {
	if l.kind == labelSnapshot {
		if state.applied < l.index {
			return fmt.Errorf("%w: the snapshot is of index %d, its table at %d", ErrDamaged, l.index, state.applied)
		}
		return nil
	}
	state.applied, state.term = l.index, l.term
	b := d.NewBatch()
	defer b.Close()
	if err := b.Set(metaKey, state.append(nil), nil); err != nil {
		return fmt.Errorf("writing the applied index: %w", err)
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("writing the applied index: %w", err)
	}
	return d.flush()
}

// swap puts next in force in memory and returns the old one; nil after close.
func (t *Table) swap(next *db, state tableState) *db {
	t.writes.Lock()
	defer t.writes.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	old := t.db
	t.db = next
	t.state.Store(&state)
	return old
}

// catchUp is the check at open: raft takes the newest snapshot's index for applied without looking (raft
// closes a sink before it calls Restore). A table that is behind it is restored from it, or the directory refused.
func (s *SnapshotStore) catchUp() error {
	newest, ok := s.newest()
	if applied := s.table.Applied(); ok && applied < newest.Index {
		if !newest.hasState {
			return fmt.Errorf("%w: it is at %d, snapshot %s at %d, and the entries between are gone; "+
				"remove this data directory and join the cluster again as a new node", ErrBehind, applied, newest.ID, newest.Index)
		}
		s.log.Info("restoring the table from a snapshot that came in before the last stop", "id", newest.ID, "applied", applied, "index", newest.Index)
		if err := s.restoreFrom(newest); err != nil {
			return fmt.Errorf("restoring the table from snapshot %s: %w; if it stays so, remove this data directory and join the cluster again as a new node", newest.ID, err)
		}
	}
	s.dropStates(s.table.Applied())
	return nil
}

func (s *SnapshotStore) restoreFrom(snap snapshot) error {
	r, err := s.openState(snap)
	if err != nil {
		return err
	}
	return errors.Join(s.restore(r), r.Close())
}
