package store

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

const (
	segmentsFile  = "segments.json" // which segments there are
	segmentSuffix = ".wal"
	// segmentBytes is how much a segment holds, about; on a small disk it is less.
	segmentBytes      = 16 << 20
	leastSegmentBytes = 1 << 20
	segmentShare      = 1024 // of the disk
)

// walDir is the folder of a log of kind wal, as the library wants it: a types.VFS and a types.MetaStore. What may
// go wrong beyond an append is watched over here, since the library does it in the background and tells nobody.
//
// A segment's file is there, durably, before segments.json names it. So one that is missing was lost, and is not made anew.
type walDir struct {
	files
	dir  string
	live bool // opened, and in force: from here on an error is fatal
	// state is what segments.json says. The library calls its MetaStore from one goroutine at a time.
	state types.PersistentState
}

var (
	_ types.VFS       = (*walDir)(nil)
	_ types.MetaStore = (*walDir)(nil)
)

// segments is segments.json.
type segments struct {
	Version int                   `json:"version"`
	State   types.PersistentState `json:"state"`
}

const segmentsVersion = 1

// segmentSize is how large a segment is to be.
func (f files) segmentSize() int {
	use, err := f.usage()
	if err != nil || use.TotalBytes == 0 {
		return leastSegmentBytes
	}
	return int(min(max(use.TotalBytes/segmentShare, leastSegmentBytes), segmentBytes))
}

// guarded runs a write that nobody waits for, or whose error the library keeps for itself.
func (w *walDir) guarded(step, doing string, write func() error) error {
	if w.live {
		return w.guard.do(step, doing, write)
	}
	if err := w.guard.step(step); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return write()
}

// read fills state; fs.ErrNotExist where there is no segments.json.
func (w *walDir) readState() error {
	path := w.PathJoin(w.dir, segmentsFile)
	data, err := w.files.read(path)
	if err != nil {
		return err
	}
	var s segments
	if err := unseal(data, &s); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if s.Version != segmentsVersion {
		return fmt.Errorf("reading %s: it has version %d; this release reads %d", path, s.Version, segmentsVersion)
	}
	w.state = s.State
	return nil
}

// Load implements types.MetaStore, with what readState has read.
func (w *walDir) Load(string) (types.PersistentState, error) { return w.state, nil }

// CommitState implements types.MetaStore: durable when it returns nil. A new segment's file is made first.
func (w *walDir) CommitState(state types.PersistentState) error {
	return w.guarded("log.segments", "writing which segments raft's log has", func() error {
		state.Segments = slices.Clone(state.Segments)
		for i := range state.Segments {
			state.Segments[i].Codec = walCodecID
		}
		if n := len(state.Segments); n > 0 && state.Segments[n-1].SealTime.IsZero() {
			if err := w.make(state.Segments[n-1]); err != nil {
				return err
			}
		}
		data, err := seal(segments{segmentsVersion, state})
		if err != nil {
			return fmt.Errorf("encoding which segments raft's log has: %w", err)
		}
		if err := w.replace("log.segments", w.PathJoin(w.dir, segmentsFile), data); err != nil {
			return err
		}
		w.state = state
		return nil
	})
}

// make makes a segment's file, durably, with room for it where the file system can; unless it is there.
func (w *walDir) make(info types.SegmentInfo) error {
	path := w.PathJoin(w.dir, segment.FileName(info))
	if there, err := w.exists(path); there || err != nil {
		return err
	}
	file, err := w.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("creating %s: %w", path, err)
	}
	// With its blocks and its length there beforehand a sync has less to write, and a file that was cut short is told from one
	// that is not full yet. Where blocks cannot be had a full disk is met when an entry is written.
	size := int64(info.SizeLimit)
	_ = file.Preallocate(0, size)
	if _, err = file.WriteAt([]byte{0}, size-1); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("creating %s: %w", path, err)
	}
	return w.syncDir(w.dir)
}

// GetStable implements types.MetaStore; raft's term and vote are elsewhere.
func (w *walDir) GetStable([]byte) ([]byte, error) { return nil, nil }

// SetStable implements types.MetaStore.
func (w *walDir) SetStable([]byte, []byte) error { return errors.ErrUnsupported }

// Close implements types.MetaStore.
func (w *walDir) Close() error { return nil }

// ListDir implements types.VFS. What segments.json does not name was removed when the log was checked, so the library finds
// nothing that it would have to remove, and that it might take for a file of the same number.
func (w *walDir) ListDir(string) ([]string, error) { return nil, nil }

// Create implements types.VFS; the file was made by CommitState.
func (w *walDir) Create(_, name string, _ uint64) (types.WritableFile, error) {
	file, err := w.openSegment(name)
	if err != nil && w.live {
		w.guard.trip(err) // the library would only log it
	}
	return file, err
}

// OpenWriter implements types.VFS.
func (w *walDir) OpenWriter(_, name string) (types.WritableFile, error) { return w.openSegment(name) }

// OpenReader implements types.VFS.
func (w *walDir) OpenReader(_, name string) (types.ReadableFile, error) { return w.openSegment(name) }

// openSegment opens a segment's file, which must be there.
func (w *walDir) openSegment(name string) (*segmentFile, error) {
	path := w.PathJoin(w.dir, name)
	if there, err := w.exists(path); err != nil || !there {
		if err == nil {
			err = ErrDamaged // not fs.ErrNotExist, for which the library would begin an empty segment
		}
		return nil, fmt.Errorf("opening segment %s of raft's log: %w: it is missing", path, err)
	}
	file, err := w.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("opening segment %s of raft's log: %w", path, err)
	}
	return &segmentFile{file}, nil
}

// Delete implements types.VFS. The name need not be gone durably: what segments.json does not name is removed at open.
func (w *walDir) Delete(_, name string) error {
	return w.guarded("log.remove", "removing a segment of raft's log", func() error {
		if err := w.Remove(w.PathJoin(w.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// removeUnnamed removes the segments that segments.json does not name: a crash left them.
func (w *walDir) removeUnnamed() error {
	named := map[string]bool{}
	for _, info := range w.state.Segments {
		named[segment.FileName(info)] = true
	}
	names, err := w.List(w.dir)
	if err != nil {
		return fmt.Errorf("listing %s: %w", w.dir, err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, segmentSuffix) || named[name] {
			continue
		}
		if err := w.Remove(w.PathJoin(w.dir, name)); err != nil {
			return fmt.Errorf("removing the unneeded segment %s: %w", w.PathJoin(w.dir, name), err)
		}
	}
	return nil
}

// walFiler is the library's SegmentFiler, told which codec there is: the library knows only its own one when it makes a
// segment, and then refuses to open it with another.
type walFiler struct{ *segment.Filer }

// Create implements types.SegmentFiler.
func (f walFiler) Create(info types.SegmentInfo) (types.SegmentWriter, error) {
	info.Codec = walCodecID
	return f.Filer.Create(info)
}

// segmentFile is a segment's file. Its length is durable from the start, so that the bytes are all there is to sync.
type segmentFile struct{ vfs.File }

// Sync implements types.WritableFile.
func (f *segmentFile) Sync() error { return f.SyncData() }

func (f *segmentFile) size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
