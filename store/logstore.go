package store

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

var _ raft.LogStore = (*LogStore)(nil)

// engine is what raft's log lies in: raft-boltdb's store, or a walLog.
type engine interface {
	FirstIndex() (uint64, error)
	LastIndex() (uint64, error)
	GetLog(index uint64, log *raft.Log) error
	StoreLogs(logs []*raft.Log) error
	DeleteRange(first, last uint64) error
	Close() error
}

// LogStore is raft's log. A write that errs or stalls ends the process (raft#503, raft#614, raft#683), and so does
// an entry that cannot be read; its bytes are counted.
type LogStore struct {
	engine  engine
	portion uint64 // how many entries may be deleted at once
	guard   *guard
	size    logSize
	recent  recentLog
}

// deleteEntries is how many entries one transaction of bbolt deletes, so that no append waits for long behind
// a compaction.
const deleteEntries = 512

// boltOptions leave out writing the list of free pages at each commit, whose cost grows
// with what the log once was (bbolt#401); it is gathered at open instead.
func boltOptions() *bbolt.Options {
	return &bbolt.Options{Timeout: time.Second, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType}
}

// openBolt runs open, which opens the bbolt file at path. A damaged one makes bbolt panic, or read beyond the
// file's end, which is a fault of memory.
func openBolt(path string, open func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, p)
		}
		if err != nil {
			err = fmt.Errorf("opening %s: %w; if it is damaged, remove this data directory and join the cluster again as a new node", path, err)
		}
	}()
	if err := walkBolt(path); err != nil {
		return err
	}
	return open()
}

// openBoltLog opens raft's log in the bbolt file at path, or makes it.
func openBoltLog(path string) (b boltLog, err error) {
	err = openBolt(path, func() error {
		b.BoltStore, err = raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: boltOptions()})
		return err
	})
	return b, err
}

// newLogStore counts what is in e; after an error e is closed.
func newLogStore(e engine, portion uint64, g *guard) (*LogStore, error) {
	l := &LogStore{engine: e, portion: portion, guard: g, size: logSize{every: markEvery}, recent: recentLog{limit: recentBytes}}
	if err := l.estimate(); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return l, nil
}

// estimate reads a few entries at even distances and takes each for those that follow it.
func (l *LogStore) estimate() error {
	first, err := l.engine.FirstIndex()
	if err != nil {
		return err
	}
	last, err := l.engine.LastIndex()
	if err != nil || last == 0 {
		return err
	}
	stride := (last-first)/sampledEntries + 1
	for index := first; index <= last; index += stride {
		var entry raft.Log
		err := l.engine.GetLog(index, &entry)
		if errors.Is(err, raft.ErrLogNotFound) {
			continue // in the gap that raft leaves where a snapshot has come in
		}
		if err != nil {
			return fmt.Errorf("%w: entry %d of %d to %d: %w", ErrDamaged, index, first, last, err)
		}
		l.size.add(index, min(stride, last-index+1), entryBytes(&entry))
	}
	return nil
}

// FirstIndex implements raft.LogStore; 0 for an empty log.
func (l *LogStore) FirstIndex() (uint64, error) { return l.engine.FirstIndex() }

// LastIndex implements raft.LogStore; 0 for an empty log.
func (l *LogStore) LastIndex() (uint64, error) { return l.engine.LastIndex() }

// GetLog implements raft.LogStore. The entry's bytes may be shared, and are not to be changed. An entry that is not what
// was written has ended the process: raft would apply it, and send it to others.
func (l *LogStore) GetLog(index uint64, log *raft.Log) error {
	if l.recent.get(index, log) {
		return nil
	}
	err := l.engine.GetLog(index, log)
	if err != nil && !errors.Is(err, raft.ErrLogNotFound) && !errors.Is(err, wal.ErrClosed) && !errors.Is(err, bbolterrors.ErrDatabaseNotOpen) {
		err = fmt.Errorf("reading raft's log: %w", err)
		l.guard.trip(err) // raft would panic, or try for ever
	}
	return err
}

// StoreLog implements raft.LogStore.
func (l *LogStore) StoreLog(log *raft.Log) error { return l.StoreLogs([]*raft.Log{log}) }

// StoreLogs implements raft.LogStore: durable when it returns nil. Any error has ended the process,
// or is about to.
func (l *LogStore) StoreLogs(logs []*raft.Log) error {
	err := l.guard.do("log.store", "writing raft's log", func() error { return l.engine.StoreLogs(logs) })
	if err != nil {
		return err
	}
	for _, entry := range logs {
		l.size.add(entry.Index, 1, entryBytes(entry))
	}
	l.recent.add(logs)
	return nil
}

// DeleteRange implements raft.LogStore. It deletes in small portions, from the end of the log that
// the range lies at, so that a crash in between leaves no gap.
func (l *LogStore) DeleteRange(first, last uint64) error {
	low, err := l.engine.FirstIndex()
	if err != nil {
		return err
	}
	high, err := l.engine.LastIndex()
	if err != nil {
		return err
	}
	switch first, last = max(first, low), min(last, high); {
	case first > last || low == 0:
		return nil
	case first == low:
		return l.deleteHead(first, last)
	case last == high:
		return l.deleteTail(first, last)
	}
	return fmt.Errorf("deleting entries %d to %d of raft's log: it has %d to %d, and must not get a gap", first, last, low, high)
}

func (l *LogStore) deleteHead(first, last uint64) error {
	for first <= last {
		end := first + min(last-first, l.portion-1)
		if err := l.delete(first, end); err != nil {
			return err
		}
		l.size.dropHead(end)
		first = end + 1
	}
	return nil
}

func (l *LogStore) deleteTail(first, last uint64) error {
	for first <= last {
		begin := first
		if last-first >= l.portion {
			begin = last - l.portion + 1
		}
		if err := l.delete(begin, last); err != nil {
			return err
		}
		l.size.dropTail(begin)
		last = begin - 1
	}
	return nil
}

func (l *LogStore) delete(first, last uint64) error {
	l.recent.drop(first, last)
	return l.guard.do("log.delete", "deleting from raft's log", func() error { return l.engine.DeleteRange(first, last) })
}

// BytesAfter returns about how many bytes the entries after index have.
func (l *LogStore) BytesAfter(index uint64) int64 { return l.size.after(index) }

// TrailingFor returns how many of the log's last entries have about so many bytes: what to give raft, which
// counts entries, for TrailingLogs. It is at most the number of entries that there are.
func (l *LogStore) TrailingFor(bytes int64) uint64 { return l.size.trailing(bytes) }

func (l *LogStore) close() error {
	if err := l.engine.Close(); err != nil {
		return fmt.Errorf("closing raft's log: %w", err)
	}
	return nil
}
