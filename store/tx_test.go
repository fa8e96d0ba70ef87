package store

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"
)

// compacted is a table whose rows of the entries 2, 4, ... are all in the lowest level.
func compacted(t *testing.T, fs vfs.FS, last uint64) *Dir {
	t.Helper()
	d := mustOpenMem(t, fs)
	commit(t, d.Table(), 1, func(tx *Tx) {
		for i := uint64(2); i <= last; i += 2 {
			tx.PutRow(keyOf(i), nil, completed(i, int64(i), strings.Repeat("body", 100)))
		}
	})
	if err := d.Table().Flush(); err != nil {
		t.Fatal(err)
	}
	if err := d.Table().db.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil {
		t.Fatal(err)
	}
	m := d.Table().db.Metrics()
	if all, lowest := m.Total().TablesCount, m.Levels[6].TablesCount; all != lowest || lowest == 0 {
		t.Fatalf("%d of %d files are in the lowest level", lowest, all)
	}
	return d
}

// TestNewKeysReadNoBlock: the look-ups of keys that are not there end at the filters, also those of the lowest level, which
// Pebble's Get does not ask.
func TestNewKeysReadNoBlock(t *testing.T) {
	const last = 4000
	d := compacted(t, vfs.NewMem(), last)
	before := d.Table().db.Metrics().Filter.Hits
	tx := d.Table().Begin()
	for i := uint64(3); i < last; i += 2 {
		if row, err := tx.Row(keyOf(i)); row != nil || err != nil {
			t.Fatalf("Row of nothing = %v, %v", row, err)
		}
	}
	if err := tx.Close(); err != nil {
		t.Fatal(err)
	}
	if hits := d.Table().db.Metrics().Filter.Hits - before; hits < last/2*9/10 {
		t.Errorf("filters told of %d of %d keys that they are not there", hits, last/2)
	}
}

func TestLookUpsOfATx(t *testing.T) {
	const last = 400
	d := compacted(t, vfs.NewMem(), last)
	commit(t, d.Table(), 2, func(tx *Tx) { // over those of the lowest level
		tx.PutRow(keyOf(100), completed(100, 100, strings.Repeat("body", 100)), completed(1000, 1000, "newer"))
		tx.PutRow(keyOf(200), completed(200, 200, strings.Repeat("body", 100)), nil)
	})
	tx := d.Table().Begin()
	for i := uint64(last); i > 0; i-- { // key-1 is how key-10 begins
		want, err := d.Table().Row(keyOf(i))
		if err != nil {
			t.Fatal(err)
		}
		if present := i%2 == 0 && i != 200; (want != nil) != present {
			t.Fatalf("row of entry %d: %v", i, want)
		}
		got, err := tx.Row(keyOf(i))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("row of entry %d: %v, %s", i, err, diff)
		}
	}
	if _, err := tx.Row(id("t", "", "a\x00b")); err == nil || !strings.Contains(err.Error(), "is no id") {
		t.Errorf("a zero byte in a key: %v", err)
	}
	if err := errors.Join(tx.Close(), tx.Close()); err != nil { // it is never committed
		t.Error(err)
	}
	mustClose(t, d) // which tells when something of the table is still in use
}

// TestLookUpThatFails: a row that cannot be read is not one that is not there.
func TestLookUpThatFails(t *testing.T) {
	const last = 4000
	disk := vfs.NewMem()
	mustClose(t, compacted(t, disk, last))
	var failing atomic.Bool
	d, err := openMem(t, errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if failing.Load() && strings.HasSuffix(op.Path, ".sst") && op.Kind == errorfs.OpFileReadAt {
			return errorfs.ErrInjected
		}
		return nil
	})), func(error) {}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	tx := d.Table().Begin()
	defer tx.Close()
	for i := uint64(2); i <= 20; i += 2 {
		if row, err := tx.Row(keyOf(i)); row == nil || err != nil {
			t.Fatalf("row of entry %d: %v, %v", i, row, err)
		}
	}
	failing.Store(true)
	failed := 0
	for i := uint64(100); i <= last; i += 2 {
		row, err := tx.Row(keyOf(i))
		if err != nil {
			failed++
		} else if row == nil {
			t.Fatalf("the row of entry %d is not there", i)
		}
	}
	if failed == 0 {
		t.Error("no look-up failed, though no file could be read")
	}
}
