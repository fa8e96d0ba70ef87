package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"
)

var _ raft.SnapshotSink = (*sink)(nil)

// sink makes one snapshot, in a folder of its own that gets its name at Close. raft uses it in one of two ways: our
// tableSnapshot flushes the table and writes nothing, or the stream of another node is
// written to it.
type sink struct {
	store *SnapshotStore
	snap  snapshot
	tmp   string // the folder while it is unfinished

	flushed bool // the table on disk has everything up to the index

	label  []byte   // of the stream, collected first
	state  vfs.File // then its body
	sum    xxhash.Digest
	roomAt int64  // at how many bytes the free room is looked at again
	tail   []byte // the last bytes of the body, not in sum: at the end they are its checksum

	done      bool
	cancelled bool
}

// Create implements raft.SnapshotStore. Nothing is on disk before the first byte, or Close.
func (s *SnapshotStore) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	if version != 1 {
		return nil, fmt.Errorf("creating a snapshot: raft asks for version %d; this release writes 1", version)
	}
	if index == 0 {
		return nil, errors.New("creating a snapshot: its index is 0")
	}
	s.mu.Lock()
	s.seq++
	seq := s.seq
	s.mu.Unlock()
	id := fmt.Sprintf("%d-%d-%d", term, index, seq)
	k := &sink{store: s, tmp: s.dir(id) + tmpSuffix, snap: snapshot{
		FormatVersion: FormatVersion, ID: id, Seq: seq, Index: index, Term: term,
		Version: version, Configuration: configuration.Clone(), ConfigurationIndex: configurationIndex,
	}}
	k.sum.Reset()
	return k, nil
}

// ID implements raft.SnapshotSink.
func (k *sink) ID() string { return k.snap.ID }

// Write implements raft.SnapshotSink: it takes a stream.
func (k *sink) Write(p []byte) (int, error) {
	if k.done {
		return 0, errors.New("writing a snapshot: it is closed")
	}
	rest := p
	if k.state == nil {
		n := min(len(p), labelSize-len(k.label))
		k.label, rest = append(k.label, p[:n]...), p[n:]
		if len(k.label) < labelSize {
			return len(p), nil
		}
		if err := k.begin(); err != nil {
			return 0, fmt.Errorf("writing snapshot %s: %w", k.snap.ID, err)
		}
	}
	if err := k.store.files.guard.step("snapshot.state"); err != nil {
		return 0, fmt.Errorf("writing snapshot %s: %w", k.snap.ID, err)
	}
	if err := k.checkRoom(len(rest)); err != nil {
		return 0, fmt.Errorf("writing snapshot %s: %w", k.snap.ID, err)
	}
	k.tail = append(k.tail, rest...)
	if n := len(k.tail) - sumSize; n > 0 {
		_, _ = k.sum.Write(k.tail[:n])
		k.tail = append(k.tail[:0], k.tail[n:]...)
	}
	if _, err := k.state.Write(append([]byte(nil), rest...)); err != nil { // a vfs.File may change its argument
		return 0, fmt.Errorf("writing snapshot %s: %w", k.snap.ID, err)
	}
	k.snap.StateBytes += int64(len(rest))
	return len(p), nil
}

// roomEvery is after how many bytes the free room is looked at again.
const roomEvery = 1 << 20

// checkRoom refuses a stream that the disk has no room for: for what came and, as it is unpacked beside the table that is in
// force, for as much again. Only its end tells how long it is, so it is asked on the way.
func (k *sink) checkRoom(more int) error {
	if k.snap.StateBytes+int64(more) < k.roomAt {
		return nil
	}
	k.roomAt = k.snap.StateBytes + int64(more) + roomEvery
	return k.store.files.room(2*roomEvery + k.snap.StateBytes)
}

// begin looks at the label, and makes the file for the body.
func (k *sink) begin() error {
	l, err := parseLabel(k.label)
	if err != nil {
		return err
	}
	// What comes under another index than it was made for is the backup of some other log.
	k.snap.Rebase = l.kind != labelSnapshot || l.index != k.snap.Index || l.term != k.snap.Term
	f := k.store.files
	if err := f.MkdirAll(k.tmp, 0o700); err != nil {
		return err
	}
	k.state, err = f.Create(f.PathJoin(k.tmp, stateFile), vfs.WriteCategoryUnspecified)
	return err
}

// Close implements raft.SnapshotSink. The snapshot is durable when it returns nil, and as if it had never been
// after an error.
func (k *sink) Close() error {
	if k.cancelled {
		return fmt.Errorf("closing snapshot %s: it was cancelled", k.snap.ID)
	}
	if k.done {
		return nil
	}
	if err := k.finish(); err != nil {
		return errors.Join(fmt.Errorf("closing snapshot %s: %w", k.snap.ID, err), k.Cancel())
	}
	k.done = true
	k.store.added(k.snap)
	return nil
}

func (k *sink) finish() error {
	switch {
	case k.state != nil:
		if err := k.finishState(); err != nil {
			return err
		}
	case len(k.label) > 0:
		return fmt.Errorf("%w: it is cut short", ErrDamaged)
	case !k.flushed:
		return errors.New("neither was the table flushed nor did bytes come in")
	}
	f := k.store.files
	data, err := seal(k.snap)
	if err != nil {
		return err
	}
	if err := f.MkdirAll(k.tmp, 0o700); err != nil {
		return err
	}
	if err := f.guard.step("snapshot.meta"); err != nil {
		return err
	}
	if err := f.writeSynced(f.PathJoin(k.tmp, metaFile), data); err != nil {
		return err
	}
	if err := f.syncDir(k.tmp); err != nil {
		return err
	}
	return f.publish("snapshot", k.store.dir(k.snap.ID))
}

func (k *sink) finishState() error {
	if len(k.tail) < sumSize {
		return fmt.Errorf("%w: it is cut short", ErrDamaged)
	}
	if got, want := binary.BigEndian.Uint64(k.tail), k.sum.Sum64(); got != want {
		return fmt.Errorf("%w: its checksum is %x, expected %x", ErrDamaged, got, want)
	}
	err := errors.Join(k.state.Sync(), k.state.Close())
	k.state, k.snap.hasState = nil, true
	return err
}

// Cancel implements raft.SnapshotSink: nothing of the snapshot is left.
func (k *sink) Cancel() error {
	if k.done {
		return nil
	}
	k.done, k.cancelled = true, true
	var errs []error
	if k.state != nil {
		errs = append(errs, k.state.Close())
		k.state = nil
	}
	// Where only the last fsync erred, the folder has its name already.
	dir := k.store.dir(k.snap.ID)
	if there, err := k.store.files.exists(dir); there || err != nil {
		errs = append(errs, err, k.store.remove(k.snap.ID))
	}
	errs = append(errs, k.store.files.RemoveAll(k.tmp))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cancelling snapshot %s: %w", k.snap.ID, err)
	}
	return nil
}
