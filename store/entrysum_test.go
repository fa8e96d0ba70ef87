package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// TestChangedEntryIsNoticed changes one bit of an entry behind the log's back: it is never read as if it were
// what was written, and the node ends.
func TestChangedEntryIsNoticed(t *testing.T) {
	path := t.TempDir()
	d, err := Open(path, Options{Fatal: noFatal(t), Log: LogBolt})
	if err != nil {
		t.Fatal(err)
	}
	want := []byte("a body that is found again, byte for byte")
	for i := uint64(1); i <= 300; i++ { // too many for each to be looked at when the log is opened
		data := []byte("another")
		if i == 151 {
			data = want
		}
		if err := d.Logs().StoreLog(&raft.Log{Index: i, Term: 1, Type: raft.LogCommand, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	var entry raft.Log
	if err := d.Logs().GetLog(151, &entry); err != nil || !bytes.Equal(entry.Data, want) || entry.Extensions != nil {
		t.Fatalf("%+v, %v", entry, err)
	}
	mustClose(t, d)
	file := filepath.Join(path, "raft", "log.db")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.ReplaceAll(raw, want, bytes.Replace(want, []byte("body"), []byte("bodx"), 1))
	if bytes.Equal(raw, changed) {
		t.Fatal("the entry is not in the file as it is")
	}
	if err := os.WriteFile(file, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	var told error
	d, err = Open(path, Options{Fatal: func(err error) { told = err }})
	if err == nil {
		defer d.Close()
		err = d.Logs().GetLog(151, &entry)
		if told == nil {
			t.Error("the node goes on")
		}
	}
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "entry 151") {
		t.Errorf("%v: it is read as %q", err, entry.Data)
	}
}

// TestEntryOfAnOlderRelease has no checksum, and is read.
func TestEntryOfAnOlderRelease(t *testing.T) {
	d := mustOpenLog(t, t.TempDir(), LogBolt)
	if err := d.Logs().engine.(boltLog).BoltStore.StoreLog(&raft.Log{Index: 1, Term: 1, Data: []byte("old")}); err != nil {
		t.Fatal(err)
	}
	var entry raft.Log
	if err := d.Logs().GetLog(1, &entry); err != nil || string(entry.Data) != "old" {
		t.Errorf("%+v, %v", entry, err)
	}
}
