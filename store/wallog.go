package store

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// walLog is raft's log on raft-wal. The library wants entries without a gap, and would have raft empty the log after
// each snapshot that came in (raft.MonotonicLogStore), which raft does wrong where the log goes further than the snapshot (raft#697).
// So it does not say so to raft, and closes a gap itself: by dropping what lies before it, which a snapshot covers.
type walLog struct {
	wal     *wal.WAL
	dir     *walDir
	covered func() uint64 // index of the newest snapshot

	mu    sync.Mutex // held for a write: codec is the writer's
	codec *entryCodec
}

// walOptions are the settings of a log of kind wal.
type walOptions struct {
	segmentBytes int           // 0 = files.segmentSize
	covered      func() uint64 // index of the newest snapshot
	beside       bool          // not in force yet: no error is fatal
	log          *slog.Logger
}

// openWAL opens the log in a folder, which must have one.
func openWAL(f files, dir string, o walOptions) (*walLog, error) {
	w := &walDir{files: f, dir: dir}
	err := w.check(o.log.Warn)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w; if it is damaged, remove this data directory and join the cluster again as a new node", dir, err)
	}
	return startWAL(w, o)
}

// startWAL opens the log that w has checked, or makes one in a folder that is empty.
func startWAL(w *walDir, o walOptions) (*walLog, error) {
	if o.segmentBytes == 0 {
		o.segmentBytes = w.segmentSize()
	}
	l := &walLog{dir: w, covered: o.covered, codec: &entryCodec{}}
	var err error
	l.wal, err = wal.Open(w.dir, wal.WithMetaStore(w), wal.WithSegmentFiler(walFiler{segment.NewFiler(w.dir, w)}), wal.WithCodec(l.codec),
		wal.WithSegmentSize(o.segmentBytes), wal.WithLogger(hclog.NewNullLogger()))
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", w.dir, err)
	}
	w.live = !o.beside
	return l, nil
}

// FirstIndex implements engine.
func (l *walLog) FirstIndex() (uint64, error) { return l.wal.FirstIndex() }

// LastIndex implements engine.
func (l *walLog) LastIndex() (uint64, error) { return l.wal.LastIndex() }

// GetLog implements engine. What was deleted is not found, also where its bytes are still there.
func (l *walLog) GetLog(index uint64, log *raft.Log) error {
	first, err := l.wal.FirstIndex()
	if err != nil {
		return err
	}
	if index < first {
		return raft.ErrLogNotFound
	}
	err = l.wal.GetLog(index, log)
	switch {
	case err == nil && log.Index != index:
		return fmt.Errorf("%w: entry %d lies in the place of entry %d", ErrDamaged, log.Index, index)
	case errors.Is(err, types.ErrCorrupt):
		return fmt.Errorf("%w: entry %d: %w", ErrDamaged, index, err)
	case err != nil && !errors.Is(err, raft.ErrLogNotFound):
		return fmt.Errorf("entry %d: %w", index, err)
	}
	return err
}

// StoreLogs implements engine.
func (l *walLog) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.closeGap(logs[0].Index); err != nil {
		return err
	}
	l.codec.batch = logs[0].Index
	return l.wal.StoreLogs(logs)
}

// closeGap drops the log where the next entry does not follow its last one.
func (l *walLog) closeGap(next uint64) error {
	first, err := l.wal.FirstIndex()
	if err != nil {
		return err
	}
	last, err := l.wal.LastIndex()
	if err != nil || last == 0 || next <= last+1 {
		return err
	}
	if covered := l.covered(); covered < next-1 {
		return fmt.Errorf("entry %d does not follow entry %d, and the newest snapshot ends at %d", next, last, covered)
	}
	return l.wal.DeleteRange(first, last)
}

// DeleteRange implements engine: one step, whatever its length.
func (l *walLog) DeleteRange(first, last uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wal.DeleteRange(first, last)
}

// Close implements engine.
func (l *walLog) Close() error { return l.wal.Close() }
