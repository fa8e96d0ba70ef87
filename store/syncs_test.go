package store

import (
	"math"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
)

// syncCounter is a file system that counts how often files and directories are synced.
type syncCounter struct {
	vfs.FS
	syncs *atomic.Int64
}

type countedFile struct {
	vfs.File
	syncs *atomic.Int64
}

func (c syncCounter) counted(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return countedFile{f, c.syncs}, nil
}

func (c syncCounter) Create(name string, k vfs.DiskWriteCategory) (vfs.File, error) {
	return c.counted(c.FS.Create(name, k))
}

func (c syncCounter) OpenReadWrite(name string, k vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return c.counted(c.FS.OpenReadWrite(name, k, o...))
}

func (c syncCounter) OpenDir(name string) (vfs.File, error) { return c.counted(c.FS.OpenDir(name)) }

func (f countedFile) Sync() error { f.syncs.Add(1); return f.File.Sync() }

func (f countedFile) SyncData() error { f.syncs.Add(1); return f.File.SyncData() }

func (f countedFile) SyncTo(n int64) (bool, error) { f.syncs.Add(1); return f.File.SyncTo(n) }

const countedAppends = 50

// appendCounted does countedAppends appends of three entries each, as raft would.
func appendCounted(t *testing.T, e engine, g *guard) {
	t.Helper()
	l, err := newLogStore(e, math.MaxUint64, g)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(countedAppends) {
		if err := l.StoreLogs(walEntries(3*i+1, 3*i+3, 1, 500)); err != nil {
			t.Fatal(err)
		}
		if err := l.GetLog(3*i+1, new(raft.Log)); err != nil {
			t.Fatal(err)
		}
	}
}

// With the number of appends that 1,000 pairs take (cluster.TestCostOfPairs) these two tests bound the number of their syncs.

// TestWALSyncsOncePerAppend: one sync for an append, whatever the number of its entries.
func TestWALSyncsOncePerAppend(t *testing.T) {
	var syncs atomic.Int64
	b := newWALBed(t, syncCounter{vfs.NewMem(), &syncs}, "data", noFatal(t), nil)
	o := b.options()
	o.segmentBytes = 1 << 20 // no segment ends meanwhile
	l := b.must(startWAL(&walDir{files: b.files, dir: b.path()}, o))
	defer b.close(l)
	made := syncs.Load()
	if made == 0 {
		t.Fatal("a new log was made without a sync")
	}
	appendCounted(t, l, b.files.guard)
	if got := syncs.Load() - made; got != countedAppends {
		t.Errorf("%d appends took %d syncs, expected one each", countedAppends, got)
	}
}

// TestBoltCommitsOncePerAppend: bbolt syncs twice for each transaction, and tells nobody; but it numbers them.
func TestBoltCommitsOncePerAppend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	newest := func(use func(engine)) (transaction int) {
		l, err := openBoltLog(path)
		if err != nil {
			t.Fatal(err)
		}
		use(l)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.View(func(tx *bbolt.Tx) error { transaction = tx.ID(); return nil }); err != nil {
			t.Fatal(err)
		}
		return transaction
	}
	idle := func(engine) {}
	made := newest(idle)
	opening := newest(idle) - made
	before := made + opening
	got := newest(func(e engine) { appendCounted(t, e, newGuard(DefaultStallLimit, noFatal(t), nil)) }) - before - opening
	if got != countedAppends {
		t.Errorf("%d appends took %d transactions, expected one each", countedAppends, got)
	}
}
