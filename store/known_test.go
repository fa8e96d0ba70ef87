package store

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"onced/fsm"
)

// That what is known is what the table has, TestTableIsAModelOfMaps shows. Here: what is known at all, and for how long.
func TestKnownRows(t *testing.T) {
	d := mustOpenMem(t, vfs.NewMem())
	defer mustClose(t, d)
	a := id("t", "s", "a")
	row, end := running(1), completed(1, 500, "x")
	tx := d.Table().Begin()
	tx.PutRow(a, nil, row)
	if got := d.table.db.known.row(a); got != nil {
		t.Errorf("known before Commit: %v", got)
	}
	if err := tx.Commit(1, 1); err != nil {
		t.Fatal(err)
	}
	if got := d.table.db.known.row(a); got != row {
		t.Errorf("after a reserve %v is known, expected its row", got)
	}
	commit(t, d.Table(), 2, func(tx *Tx) {
		if old, err := tx.Row(a); old != row || err != nil {
			t.Errorf("a transaction reads the row anew: %p, %v; expected %p", old, err, row)
		}
		tx.PutRow(a, row, end)
	})
	if got := d.table.db.known.row(a); got != nil {
		t.Errorf("a settled row is known: %v", got)
	}
	for i := range uint64(maxKnownRows + 10) {
		commit(t, d.Table(), i+3, func(tx *Tx) { tx.PutRow(keyOf(i), nil, running(i)) })
		if n := len(d.table.db.known.rows); n > maxKnownRows {
			t.Fatalf("%d rows are known, at most %d", n, maxKnownRows)
		}
	}
	if n := len(d.table.db.known.rows); n != 10 {
		t.Errorf("%d rows are known after the bound was reached, expected 10", n)
	}
}

func TestKnownCancels(t *testing.T) {
	fs := vfs.NewMem()
	d := mustOpenMem(t, fs)
	a := id("t", "s", "a")
	none := func(what string, want bool) {
		t.Helper()
		if got := d.table.db.known.noCancels(); got != want {
			t.Errorf("%s: no cancels: %v, expected %v", what, got, want)
		}
	}
	none("a new table", true)
	commit(t, d.Table(), 1, func(tx *Tx) { tx.PutRow(a, nil, running(1)) })
	none("a row", true)
	commit(t, d.Table(), 2, func(tx *Tx) { tx.PutCancel(a, "o", 0, 70) })
	none("a cancel", false)
	mustClose(t, d)
	d = mustOpenMem(t, fs)
	none("opened again", false)
	commit(t, d.Table(), 3, func(tx *Tx) { tx.PutCancel(a, "o", 70, 0) })
	mustClose(t, d)
	d = mustOpenMem(t, fs)
	defer func() { mustClose(t, d) }()
	none("opened again without", true)
}

// TestKnownOfARestoredTable: nothing that was known of the old table is taken for the new one's.
func TestKnownOfARestoredTable(t *testing.T) {
	source := mustOpenMem(t, vfs.NewMem())
	defer mustClose(t, source)
	a, b := id("t", "s", "a"), id("t", "s", "b")
	commit(t, source.Table(), 9, func(tx *Tx) {
		tx.PutRow(b, nil, running(9))
		tx.PutCancel(b, "o", 0, 70)
	})
	name, err := take(source, 9, 1)
	if err != nil {
		t.Fatal(err)
	}
	d := mustOpenMem(t, vfs.NewMem())
	defer mustClose(t, d)
	commit(t, d.Table(), 1, func(tx *Tx) { tx.PutRow(a, nil, running(1)) })
	if err := install(d, 9, 1, streamOf(t, source, name)); err != nil {
		t.Fatal(err)
	}
	tx := d.Table().Begin()
	defer tx.Close()
	if row, err := tx.Row(a); row != nil || err != nil {
		t.Errorf("a row of the old table: %v, %v", row, err)
	}
	if until, err := tx.Cancelled(b, "o"); until != 70 || err != nil {
		t.Errorf("a cancel of the new table: %d, %v", until, err)
	}
	if row, err := tx.Row(b); err != nil || row == nil || row.Phase != fsm.PhaseRunning {
		t.Errorf("a row of the new table: %v, %v", row, err)
	}
}
