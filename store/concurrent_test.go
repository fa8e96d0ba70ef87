package store

import (
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"onced/fsm"
)

// TestReadersBesideCommitsSnapshotsAndRestores has everything at once; the race detector and the invariants below judge.
func TestReadersBesideCommitsSnapshotsAndRestores(t *testing.T) {
	stream := sourceStream(t)
	d := mustOpenMem(t, vfs.NewMem())
	table := d.Table()
	fill(t, table, 1, 1)
	done := make(chan struct{})
	var wg sync.WaitGroup
	reader := func(read func() error) {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := read(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	reader(func() error {
		// What Applied tells must be in: the row of that entry, and all before it.
		applied := table.Applied()
		row, err := table.Row(keyOf(applied))
		if err == nil && row == nil {
			t.Errorf("the table is said to be at %d, but that row is not there", applied)
		}
		return err
	})
	reader(func() error {
		_, err := table.List(ListQuery{Tenant: "t", Limit: 10})
		return err
	})
	reader(func() error { return table.OpenRows(func(OpenRow) error { _, err := table.Counts("t"); return err }) })
	reader(func() error { _, _, err := table.NextDue(); table.Metrics(); return err })
	reader(func() error { return table.Backup(io.Discard) })
	reader(func() error {
		// raft takes it between two commits, and persists it beside the next ones.
		sink, err := d.Snapshots().Create(1, table.Applied(), 1, oneServer, 1, nil)
		if err != nil {
			return err
		}
		return table.Snapshot().Persist(sink)
	})
	for i := uint64(2); i <= 600; i++ {
		if i == 40 || i == 45 { // raft: a snapshot at 40 whose content is at 50
			if err := install(d, 40, 1, stream); err != nil {
				t.Fatal(err)
			}
		}
		if i <= table.Applied() {
			continue
		}
		fill(t, table, i, i)
	}
	close(done)
	wg.Wait()
	checkFilled(t, table, 601)
}

func TestTableThatCannotBeFlushedIsFatal(t *testing.T) {
	var failing atomic.Bool
	disk := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if failing.Load() && strings.HasSuffix(op.Path, ".sst") && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo) {
			return errPowerLost
		}
		return nil
	}))
	dead := make(chan error, 9) // it is another goroutine that finds out
	d, err := openMem(t, disk, func(err error) { dead <- err }, nil)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, d.Table(), 1, 3)
	failing.Store(true)
	if _, err := take(d, 3, 1); !errors.Is(err, errPowerLost) {
		t.Errorf("a snapshot of a table that cannot be flushed: %v", err)
	}
	if err := <-dead; !errors.Is(err, errPowerLost) {
		t.Errorf("Fatal got %v", err)
	}
	if metas, _ := d.Snapshots().List(); len(metas) != 0 {
		t.Errorf("it is listed: %v", metas)
	}
	if err := d.Table().Begin().Commit(4, 1); err == nil {
		t.Error("a batch went in afterwards")
	}
	_ = d.Close()
	if len(dead) > 0 {
		t.Errorf("Fatal was called again: %v", <-dead)
	}
}

// TestNextDueFollowsAnItemThatMoves: there is one item, which moves to and fro, so something is due at any moment.
func TestNextDueFollowsAnItemThatMoves(t *testing.T) {
	const early, late = 500, 1000
	d := mustOpenMem(t, vfs.NewMem())
	item := keyOf(1)
	commit(t, d.Table(), 1, func(tx *Tx) { tx.PutCancel(item, "o", 0, late) })
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if at, ok, err := d.Table().NextDue(); err != nil || !ok || at != early && at != late {
					t.Errorf("NextDue = %d, %v, %v", at, ok, err)
					return
				}
			}
		})
	}
	for i := uint64(2); i <= 2000; i += 2 {
		if _, err := d.Table().Begin().Due(late-1, 1); err != nil { // raises the floor
			t.Fatal(err)
		}
		commit(t, d.Table(), i, func(tx *Tx) { tx.PutCancel(item, "o", late, early) })
		commit(t, d.Table(), i+1, func(tx *Tx) { tx.PutCancel(item, "o", early, late) })
	}
	close(done)
	wg.Wait()
}

// BenchmarkPairs is a reserve and a complete of a new key, 64 of them to a batch.
func BenchmarkPairs(b *testing.B) {
	d, err := Open(b.TempDir(), Options{Fatal: noFatal(b)})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { mustClose(b, d) }()
	rng := rand.New(rand.NewPCG(1, 1))
	body := func() string { // of 300 bytes that compress as little as identifiers do
		b := make([]byte, 300)
		for i := range b {
			b[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[rng.IntN(64)]
		}
		return string(b)
	}
	index := uint64(0)
	for n := 0; n < b.N; n += 64 {
		for _, row := range []func(uint64) *fsm.Row{running, func(token uint64) *fsm.Row { return completed(token, int64(token), body()) }} {
			index++
			tx := d.Table().Begin()
			for i := n; i < n+64; i++ {
				key := id("tenant", "", fmtKey(uint64(i)*0x9E3779B97F4A7C15))
				old, err := tx.Row(key)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := tx.Counts("tenant"); err != nil {
					b.Fatal(err)
				}
				tx.PutRow(key, old, row(uint64(i+1)))
				tx.PutCounts("tenant", fsm.Counts{Keys: int64(i)})
			}
			if err := tx.Commit(index, 1); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.StopTimer()
	if err := d.Table().Flush(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(d.Table().Metrics().DiskBytes)/float64(b.N), "diskB/key")
}
