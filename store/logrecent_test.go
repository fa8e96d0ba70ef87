package store

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/hashicorp/raft"
)

// countingEngine counts what is read from the log itself.
type countingEngine struct {
	engine
	reads int
}

func (e *countingEngine) GetLog(index uint64, l *raft.Log) error {
	e.reads++
	return e.engine.GetLog(index, l)
}

// failingEngine takes nothing.
type failingEngine struct{ engine }

func (failingEngine) StoreLogs([]*raft.Log) error { return errors.New("no room") }

func TestRecentEntriesAreNotReadFromDisk(t *testing.T) {
	onEachLog(t, testRecentEntriesAreNotReadFromDisk)
}

func testRecentEntriesAreNotReadFromDisk(t *testing.T, kind LogKind) {
	d, err := Open(t.TempDir(), Options{Log: kind, Fatal: noFatal(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, d)
	l := d.Logs()
	counted := &countingEngine{engine: l.engine}
	l.engine = counted
	l.recent.limit = 100 * (1000 + entryOverhead)
	storeEntries(t, l, 1, 1000, 1000)
	for i := uint64(901); i <= 1000; i++ {
		var entry raft.Log
		if err := l.GetLog(i, &entry); err != nil || entry.Index != i || !bytes.Equal(entry.Data, bytes.Repeat([]byte{byte(i)}, 1000)) {
			t.Fatalf("entry %d: %d, %v", i, entry.Index, err)
		}
	}
	if counted.reads != 0 {
		t.Errorf("%d of the last 100 entries were read from disk", counted.reads)
	}
	checkEntries(t, l, 1, 1000) // the older ones are there as well
	if counted.reads < 900 {
		t.Errorf("only %d entries were read from disk: more is in memory than the limit", counted.reads)
	}
}

// TestRecentEntriesFollowTheLog: whatever is stored, deleted, overwritten and asked, an entry is what the log itself says.
func TestRecentEntriesFollowTheLog(t *testing.T) { onEachLog(t, testRecentEntriesFollowTheLog) }

func testRecentEntriesFollowTheLog(t *testing.T, kind LogKind) {
	rng := rand.New(rand.NewPCG(1, 2))
	d, err := Open(t.TempDir(), Options{Log: kind, Fatal: noFatal(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, d)
	l := d.Logs()
	l.recent.limit = 40 * (50 + entryOverhead)
	term := uint64(1)
	storeEntries(t, l, 1, 10, 50)
	for step := range 300 {
		first, _ := l.FirstIndex()
		last, _ := l.LastIndex()
		switch rng.IntN(6) {
		case 0: // a compaction
			if last > first+60 {
				err = l.DeleteRange(first, first+rng.Uint64N(last-first))
			}
		case 1: // another leader's log
			term++
			if last > first {
				err = l.DeleteRange(first+1+rng.Uint64N(last-first), last)
			}
		default:
			var logs []*raft.Log
			for i := range 1 + rng.Uint64N(20) {
				logs = append(logs, &raft.Log{Index: last + 1 + i, Term: term, Data: make([]byte, rng.IntN(100))})
			}
			err = l.StoreLogs(logs)
		}
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		for i := max(first, 1) - 1; i <= last+21; i++ {
			var got, want raft.Log
			err, truth := l.GetLog(i, &got), l.engine.GetLog(i, &want)
			if !errors.Is(err, truth) || got.Index != want.Index || got.Term != want.Term || !bytes.Equal(got.Data, want.Data) {
				t.Fatalf("step %d: entry %d is %+v (%v), in the log %+v (%v)", step, i, got, err, want, truth)
			}
		}
		if r := &l.recent; r.bytes > r.limit || (len(r.entries) == 0) != (r.bytes == 0) {
			t.Fatalf("step %d: %d entries of %d bytes in memory, at most %d", step, len(r.entries), r.bytes, r.limit)
		}
	}
}

func TestEntryThatWasNotStoredIsNotRecent(t *testing.T) {
	d, err := Open(t.TempDir(), Options{Fatal: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	l := d.Logs()
	storeEntries(t, l, 1, 2, 10)
	l.engine = failingEngine{l.engine}
	if err := l.StoreLog(&raft.Log{Index: 3, Term: 1, Data: []byte("x")}); err == nil {
		t.Fatal("it was stored")
	}
	var entry raft.Log
	if err := l.GetLog(3, &entry); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("an entry that is not on disk: %v", err)
	}
}
