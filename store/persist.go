package store

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

var _ raft.FSMSnapshot = (*tableSnapshot)(nil)

// tableSnapshot is what the state machine hands to raft for a snapshot: a promise that the table can be flushed.
type tableSnapshot struct {
	table   *Table
	applied uint64 // when raft asked
	term    uint64
}

// Snapshot is for raft.FSM.Snapshot, and costs nothing. It must be called on the state machine's goroutine, with every entry that
// raft has handed over committed: then the table has everything up to the index that raft takes the snapshot at.
func (t *Table) Snapshot() raft.FSMSnapshot {
	s := t.state.Load()
	return &tableSnapshot{table: t, applied: s.applied, term: s.term}
}

// Persist implements raft.FSMSnapshot. Given a sink of our SnapshotStore it flushes the table and
// copies nothing; any other sink gets the table's bytes.
func (s *tableSnapshot) Persist(to raft.SnapshotSink) error {
	k, ours := to.(*sink)
	if !ours {
		if err := s.copy(to); err != nil {
			return errors.Join(err, to.Cancel())
		}
		return to.Close()
	}
	if err := s.flush(k.snap.Index, k.snap.Term); err != nil {
		return errors.Join(fmt.Errorf("taking snapshot %s: %w", k.ID(), err), k.Cancel())
	}
	k.flushed = true
	return k.Close()
}

// flush makes the table on disk one of index at least. Entries between what was applied and
// index are raft's own (a barrier, say): the state machine has not seen them, and never will.
func (s *tableSnapshot) flush(index, term uint64) error {
	if err := s.table.advance(index, term); err != nil {
		return err
	}
	if err := s.table.Flush(); err != nil {
		return err
	}
	if applied := s.table.Applied(); applied < index {
		return fmt.Errorf("%w: it is at %d, the snapshot at %d", ErrBehind, applied, index)
	}
	return nil
}

func (s *tableSnapshot) copy(to io.Writer) error {
	return s.table.copy(to, label{labelSnapshot, s.applied, s.term})
}

// Release implements raft.FSMSnapshot.
func (s *tableSnapshot) Release() {}

// Backup is an open copy of a table, whole and of one moment. It has to be closed.
type Backup struct {
	io.ReadCloser        // the form that RestoreBackup, Dir.Restore and a snapshot sink take
	Size          int64  // of all that will be read, in bytes
	Index         uint64 // of the last log entry that is surely in it
}

// OpenBackup makes a copy of the table as it is now. It holds up no write for longer than a flush does; until it is closed the
// files that it reads take room beside newer ones.
func (t *Table) OpenBackup() (*Backup, error) {
	s := t.state.Load()
	st, err := t.stream(label{labelBackup, s.applied, s.term})
	if err != nil {
		return nil, fmt.Errorf("opening a backup: %w", err)
	}
	return &Backup{ReadCloser: st, Size: st.size, Index: s.applied}, nil
}

// Backup writes a backup to w.
func (t *Table) Backup(w io.Writer) error {
	s := t.state.Load()
	return t.copy(w, label{labelBackup, s.applied, s.term})
}

func (t *Table) copy(w io.Writer, l label) error {
	st, err := t.stream(l)
	if err != nil {
		return err
	}
	n, err := io.Copy(w, st)
	if err == nil && n != st.size {
		err = fmt.Errorf("it has %d bytes, expected %d", n, st.size)
	}
	if err = errors.Join(err, st.Close()); err != nil {
		return fmt.Errorf("copying the table: %w", err)
	}
	return nil
}

// stream makes a checkpoint of the table, whose files are links, and streams it. The checkpoint is
// removed when the stream is closed, or at the next Open.
func (t *Table) stream(l label) (*stream, error) {
	dir := t.files.path(snapshotsDir, fmt.Sprintf("checkpoint-%d%s", t.checkpoints.Add(1), tmpSuffix))
	// Without a write-ahead log the checkpoint has only what was flushed.
	if err := t.Flush(); err != nil {
		return nil, err
	}
	err := t.use(func(d *db) error { return d.Checkpoint(dir) })
	if err != nil {
		return nil, fmt.Errorf("making a checkpoint of the table: %w", err)
	}
	remove := func() error { return t.files.RemoveAll(dir) }
	st, err := newStream(t.files, l, dir, remove)
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	return st, nil
}
