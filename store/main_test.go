package store

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"onced"
	"onced/fsm"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// bbolt leaves it behind when it panics at a damaged file; the process ends then.
		goleak.IgnoreAnyFunction("go.etcd.io/bbolt.(*DB).freepages.func2"))
}

// deaths collects what Options.Fatal was called with.
type deaths struct {
	mu   sync.Mutex
	errs []error
}

func (d *deaths) fatal(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.errs = append(d.errs, err)
}

func (d *deaths) all() []error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]error(nil), d.errs...)
}

// noFatal fails the test when the disk is said to be broken.
func noFatal(t testing.TB) func(error) {
	return func(err error) { t.Errorf("Fatal was called: %v", err) }
}

// openMem opens everything but raft's two files on a file system in memory.
func openMem(t testing.TB, fs vfs.FS, fatal func(error), fault func(string) error) (*Dir, error) {
	t.Helper()
	if err := fs.MkdirAll("data", 0o700); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	d := &Dir{files: files{fs, "data", newGuard(time.Minute, fatal, fault)}, log: log}
	root, err := fs.OpenDir("/")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(root.Sync(), root.Close()); err != nil {
		t.Fatal(err)
	}
	if err := d.openFiles(tableOptions{1 << 20, 256 << 10, log}); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func mustOpenMem(t testing.TB, fs vfs.FS) *Dir {
	t.Helper()
	d, err := openMem(t, fs, noFatal(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustClose(t, d) })
	return d
}

// mustOpen opens a directory with the kind of log that it has, LogWAL for a new one.
func mustOpen(t testing.TB, path string) *Dir { t.Helper(); return mustOpenLog(t, path, "") }

// onEachLog runs a test on each kind of log.
func onEachLog(t *testing.T, test func(t *testing.T, kind LogKind)) {
	for _, kind := range LogKinds {
		t.Run(string(kind), func(t *testing.T) { test(t, kind) })
	}
}

// smallDisk has so little that a log of kind wal has small segments.
func smallDisk() (free, total uint64) { return 1 << 30, 1 << 30 }

func mustOpenLog(t testing.TB, path string, kind LogKind) *Dir {
	t.Helper()
	d, err := Open(path, Options{Fatal: noFatal(t), CacheBytes: 1 << 20, Log: kind, Usage: smallDisk})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustClose(t, d) })
	return d
}

// mustSetTerm writes a term, as raft does before its first entry.
func mustSetTerm(t testing.TB, d *Dir, term uint64) {
	t.Helper()
	if err := d.Stable().SetUint64([]byte(currentTermKey), term); err != nil {
		t.Fatal(err)
	}
}

func mustClose(t testing.TB, d *Dir) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
}

func id(tenant, scope, key string) onced.ID {
	return onced.ID{Tenant: tenant, Scope: scope, Key: onced.Key(key)}
}

func running(token uint64) *fsm.Row {
	return &fsm.Row{Phase: fsm.PhaseRunning, Attempt: 1, Token: token, Owner: "o", Lease: 30_000, Retention: 1000, CreatedAt: 100, LeaseUntil: 30_100}
}

func completed(token uint64, at int64, body string) *fsm.Row {
	return &fsm.Row{Phase: fsm.PhaseCompleted, Attempt: 1, Token: token, Owner: "o", Retention: 1000, CreatedAt: 100, CompletedAt: at, Response: []byte(body)}
}

func fmtKey(n uint64) string { return fmt.Sprintf("key-%d", n) }

func keyOf(entry uint64) onced.ID { return id("t", "", fmtKey(entry)) }

// commit runs put in a transaction of its own.
func commit(t testing.TB, table *Table, index uint64, put func(tx *Tx)) {
	t.Helper()
	tx := table.Begin()
	put(tx)
	if err := tx.Commit(index, 1); err != nil {
		t.Fatal(err)
	}
}

// fill commits the entries from first to last, each with one completed record.
func fill(t testing.TB, table *Table, first, last uint64) {
	t.Helper()
	for i := first; i <= last; i++ {
		commit(t, table, i, func(tx *Tx) {
			tx.PutRow(keyOf(i), nil, completed(i, int64(i), "body"))
			m := tx.Meta()
			m.LastToken, m.Clock = i, int64(i)
			tx.PutMeta(m)
		})
	}
}

// checkFilled tells that the table is what fill leaves after the entry that it says it is at.
func checkFilled(t testing.TB, table *Table, last uint64) {
	t.Helper()
	applied := table.Applied()
	if got := table.Meta().LastToken; got != applied {
		t.Errorf("applied index %d, last token %d: they are of different batches", applied, got)
	}
	for i := uint64(1); i <= last; i++ {
		row, err := table.Row(keyOf(i))
		if err != nil {
			t.Fatal(err)
		}
		if (row != nil) != (i <= applied) {
			t.Errorf("applied index %d, but row %d is there: %v", applied, i, row != nil)
		}
	}
}
