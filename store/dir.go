package store

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// DefaultStallLimit is how long a write may take: three nodes may share one disk.
	DefaultStallLimit = 10 * time.Second
	// DefaultCacheBytes is the size of the cache of the table's blocks.
	DefaultCacheBytes = 64 << 20
)

// Options are the settings of Open.
type Options struct {
	// Fatal is called once, when the disk has erred or stalled in a write on which an answer depends. It must
	// end the process, and must not wait for Close or for raft: it may be called on their goroutines. Required.
	Fatal func(error)
	// StallLimit is how long a write may take; 0 = DefaultStallLimit.
	StallLimit time.Duration
	// CacheBytes is the size of the cache of the table's blocks; 0 = DefaultCacheBytes.
	CacheBytes int64
	// Logger gets what an operator may want to know; nil = none.
	Logger *slog.Logger
	// Work says that no node is to run on the directory: what is done instead, from Begin until Finish. A
	// restore has begun when Open returns. "" = a node runs.
	Work Work
	// Log is what raft's log is to lie in. A log of the other kind is converted. "" = what it lies in, LogWAL in a new directory.
	Log LogKind
	// Fault is for tests: it is called right before each durable step with the step's name, and
	// makes it err by an error, or stall by not returning. It may be called from any goroutine. The names: log.*,
	// stable.*, table.*, probe, identity.*, current.*, snapshot.*, restore.*, unfinished.*. A name that ends in .sync stands for a
	// sync after a write that went well.
	Fault func(step string) error
	// Usage is for tests: how many bytes of the disk are free and how many it has; nil = the file system says.
	Usage func() (free, total uint64)
}

// Dir is an open data directory.
type Dir struct {
	files     files
	log       *slog.Logger
	lock      io.Closer // held until Close
	health    io.Closer // of the file system's watchdog
	logs      *LogStore
	stable    *StableStore
	table     *Table
	snapshots *SnapshotStore
	work      Work
	want      LogKind // Options.Log

	identityMu sync.Mutex
	identity   *Identity // nil = nobody's yet

	closeOnce sync.Once
	closeErr  error
}

// Open opens the data directory at path, or makes it. An error is one line that says what is wrong and, where there is
// something, what to do: ErrLocked, ErrNotWritable, ErrDamaged, ErrBehind, ErrUnfinished, another format version.
func Open(path string, o Options) (*Dir, error) {
	if o.Fatal == nil {
		return nil, errors.New("opening a data directory: Options.Fatal is required")
	}
	if err := o.Log.check(); err != nil {
		return nil, fmt.Errorf("opening a data directory: %w", err)
	}
	if o.StallLimit == 0 {
		o.StallLimit = DefaultStallLimit
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	g := newGuard(o.StallLimit, o.Fatal, o.Fault)
	g.usage = o.Usage
	lock, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	fs, health := vfs.WithDiskHealthChecks(vfs.Default, o.StallLimit, nil, g.slow)
	d := &Dir{files: files{fs, path, g}, log: o.Logger, lock: lock, health: health, work: o.Work, want: o.Log}
	if err := d.open(tableOptions{o.CacheBytes, memtableBytes, o.Logger}); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Dir) open(o tableOptions) error {
	if err := d.files.checkUnfinished(d.work); err != nil {
		return err
	}
	if err := d.files.probe(); err != nil {
		return err
	}
	if d.work == WorkRestore { // before there is anything that looks like a new node's
		if err := d.Begin(); err != nil {
			return err
		}
	}
	if err := d.openFiles(o); err != nil {
		return err
	}
	if err := d.openRaft(); err != nil {
		return err
	}
	return d.checkLog()
}

// openFiles opens everything but raft's two files.
func (d *Dir) openFiles(o tableOptions) (err error) {
	if err := d.files.sweep(d.files.root); err != nil {
		return err
	}
	if d.identity, err = readIdentity(d.files); err != nil {
		return err
	}
	if d.table, err = openTable(d.files, o); err != nil {
		return err
	}
	if d.snapshots, err = openSnapshots(d.files, d.table, d.log); err != nil {
		return err
	}
	return d.snapshots.catchUp()
}

func (d *Dir) openRaft() (err error) {
	if err := d.files.makeDir("raft"); err != nil {
		return err
	}
	if d.logs, err = d.openLog(); err != nil {
		return err
	}
	if d.stable, err = openStable(d.files); err != nil {
		return err
	}
	return d.files.syncDir(d.files.path("raft"))
}

// checkLog refuses a directory whose parts do not belong together. raft would read the missing entries and
// panic, or vote without knowing how it has voted.
func (d *Dir) checkLog() error {
	first, err := d.logs.FirstIndex()
	if err != nil {
		return fmt.Errorf("reading raft's log: %w", err)
	}
	newest := d.snapshots.LastIndex()
	if first > newest+1 {
		return fmt.Errorf("opening %s: %w: raft's log begins at %d and the newest snapshot ends at %d; "+
			"remove this data directory and join the cluster again as a new node", d.files.root, ErrBehind, first, newest)
	}
	last, err := d.logs.LastIndex()
	if err != nil {
		return fmt.Errorf("reading raft's log: %w", err)
	}
	_, err = d.stable.GetUint64([]byte(currentTermKey))
	if applied := d.table.Applied(); errors.Is(err, errNotFound) && max(last, newest, applied) > 0 {
		// raft writes its term before anything else. Without its vote the node might vote twice.
		return fmt.Errorf("opening %s: %w: raft's log is at %d, the table at %d and the newest snapshot at %d, but raft's term and vote are gone; "+
			"remove this data directory and join the cluster again as a new node", d.files.root, ErrDamaged, last, applied, newest)
	}
	return nil
}

// Logs returns raft's log.
func (d *Dir) Logs() *LogStore { return d.logs }

// Stable returns raft's term and vote.
func (d *Dir) Stable() *StableStore { return d.stable }

// Snapshots returns raft's snapshots.
func (d *Dir) Snapshots() *SnapshotStore { return d.snapshots }

// Table returns the key table. It stays the same across a Restore.
func (d *Dir) Table() *Table { return d.table }

// BytesSinceSnapshot returns about how many bytes raft's log has after the newest snapshot.
func (d *Dir) BytesSinceSnapshot() int64 { return d.logs.BytesAfter(d.snapshots.LastIndex()) }

// Err returns what was given to Options.Fatal, nil while the disk works.
func (d *Dir) Err() error { return d.files.guard.err() }

// Empty tells whether the directory has never been anybody's: no identity, no term, no entry, no
// snapshot, no table. False when that cannot be read.
func (d *Dir) Empty() bool {
	if _, ok := d.Identity(); ok || d.snapshots.LastIndex() > 0 || d.table.Applied() > 0 {
		return false
	}
	_, err := d.stable.GetUint64([]byte(currentTermKey))
	if !errors.Is(err, errNotFound) {
		return false
	}
	last, err := d.logs.LastIndex()
	return err == nil && last == 0
}

// Close flushes and closes everything, once; raft must have been shut down. After Options.Fatal it writes
// nothing more, and waits for a write that stalls.
func (d *Dir) Close() error {
	d.closeOnce.Do(func() { d.closeErr = d.close() })
	return d.closeErr
}

func (d *Dir) close() error {
	var errs []error
	if d.table != nil {
		errs = append(errs, d.table.close())
	}
	if d.stable != nil {
		errs = append(errs, d.stable.close())
	}
	if d.logs != nil {
		errs = append(errs, d.logs.close())
	}
	for _, c := range []io.Closer{d.health, d.lock} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing %s: %w", d.files.root, err)
	}
	return nil
}
