package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hashicorp/raft"
)

// storeEntries stores the entries from first to last, of size bytes each.
func storeEntries(t testing.TB, l *LogStore, first, last uint64, size int) {
	t.Helper()
	var logs []*raft.Log
	for i := first; i <= last; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: 1, Data: bytes.Repeat([]byte{byte(i)}, size)})
	}
	if err := l.StoreLogs(logs); err != nil {
		t.Fatal(err)
	}
}

func checkEntries(t testing.TB, l *LogStore, first, last uint64) {
	t.Helper()
	low, err1 := l.FirstIndex()
	high, err2 := l.LastIndex()
	if low != first || high != last || err1 != nil || err2 != nil {
		t.Fatalf("the log has %d to %d (%v, %v), expected %d to %d", low, high, err1, err2, first, last)
	}
	for i := max(first, 1) - 1; i <= last+1; i++ {
		var entry raft.Log
		err := l.GetLog(i, &entry)
		if in := i >= first && i <= last && last > 0; in && (err != nil || entry.Index != i) || !in && !errors.Is(err, raft.ErrLogNotFound) {
			t.Fatalf("entry %d of %d to %d: index %d, %v", i, first, last, entry.Index, err)
		}
	}
}

func TestDeleteRangeLeavesNoGap(t *testing.T) { onEachLog(t, testDeleteRangeLeavesNoGap) }

func testDeleteRangeLeavesNoGap(t *testing.T, kind LogKind) {
	path := t.TempDir()
	steps := 0
	d, err := Open(path, Options{Log: kind, Fatal: noFatal(t), Fault: func(step string) error {
		if step == "log.delete" {
			steps++
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, d)
	l := d.Logs()
	storeEntries(t, l, 1, 3000, 20)
	checkEntries(t, l, 1, 3000)
	for _, tc := range []struct{ from, to, first, last uint64 }{
		{1, 1300, 1301, 3000}, {1, 1300, 1301, 3000}, {2000, 3000, 1301, 1999}, {1900, 9999, 1301, 1899}, {0, 1301, 1302, 1899},
	} {
		if err := l.DeleteRange(tc.from, tc.to); err != nil {
			t.Fatal(err)
		}
		checkEntries(t, l, tc.first, tc.last)
	}
	if kind == LogBolt && steps < 6 {
		t.Errorf("%d portions: a long range goes in one", steps)
	}
	if err := l.DeleteRange(1400, 1500); err == nil {
		t.Error("a gap was made")
	}
	checkEntries(t, l, 1302, 1899)
	if err := l.DeleteRange(1, 5000); err != nil {
		t.Fatal(err)
	}
	checkEntries(t, l, 0, 0)
	if got := l.BytesAfter(0); got != 0 {
		t.Errorf("an empty log has %d bytes", got)
	}
}

// TestGapBehindASnapshot: a follower that was away keeps its last entries when a snapshot comes in, and goes on behind it.
func TestGapBehindASnapshot(t *testing.T) {
	onEachLog(t, func(t *testing.T, kind LogKind) {
		path := t.TempDir()
		d := mustOpenLog(t, path, kind)
		storeEntries(t, d.Logs(), 1, 20, 10)
		fill(t, d.Table(), 1, 1000)
		if err := d.Stable().SetUint64([]byte("CurrentTerm"), 1); err != nil {
			t.Fatal(err)
		}
		if _, err := take(d, 1000, 1); err != nil {
			t.Fatal(err)
		}
		storeEntries(t, d.Logs(), 1001, 1100, 10)
		mustClose(t, d)
		d = mustOpenLog(t, path, kind)
		for i := uint64(1001); i <= 1100; i++ {
			if err := d.Logs().GetLog(i, new(raft.Log)); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Logs().GetLog(500, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) { // the text that asks for a snapshot
			t.Errorf("an entry in the gap: %v", err)
		}
	})
}

// TestDeleteRangeCutShort stops between two portions, at either end of the log. In the log of kind wal any range goes in one.
func TestDeleteRangeCutShort(t *testing.T) {
	for _, tc := range []struct{ from, to, first, last uint64 }{{1, 2000, 513, 3000}, {1000, 3000, 1, 2488}} {
		n := 0
		var dead deaths
		d, err := Open(t.TempDir(), Options{Log: LogBolt, Fatal: dead.fatal, Fault: func(step string) error {
			if step == "log.delete" {
				if n++; n == 2 {
					return errPowerLost
				}
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		storeEntries(t, d.Logs(), 1, 3000, 10)
		if err := d.Logs().DeleteRange(tc.from, tc.to); !errors.Is(err, errPowerLost) {
			t.Errorf("DeleteRange returned %v", err)
		}
		checkEntries(t, d.Logs(), tc.first, tc.last)
		mustClose(t, d)
	}
}

func TestBytesOfTheLog(t *testing.T) { onEachLog(t, testBytesOfTheLog) }

func testBytesOfTheLog(t *testing.T, kind LogKind) {
	const kib = 1 << 10
	path := t.TempDir()
	d := mustOpenLog(t, path, kind)
	mustSetTerm(t, d, 1)
	storeEntries(t, d.Logs(), 1, 1000, kib-entryOverhead) // 1,000 KiB
	storeEntries(t, d.Logs(), 1001, 1100, 20*kib-entryOverhead)
	check := func(when string, tolerance float64) {
		t.Helper()
		for _, tc := range []struct {
			what      string
			got, want int64
		}{
			{"bytes after 0", d.Logs().BytesAfter(0), 3000 * kib},
			{"bytes after 1,000", d.Logs().BytesAfter(1000), 2000 * kib},
			{"bytes after 1,050", d.Logs().BytesAfter(1050), 1000 * kib},
			{"bytes after 1,100", d.Logs().BytesAfter(1100), 0},
			{"bytes after 9,999", d.Logs().BytesAfter(9999), 0},
			{"trailing for 1,000 KiB", int64(d.Logs().TrailingFor(1000 * kib)), 50},
			{"trailing for 2,500 KiB", int64(d.Logs().TrailingFor(2500 * kib)), 600},
			{"trailing for everything", int64(d.Logs().TrailingFor(1 << 40)), 1100},
			{"trailing for nothing", int64(d.Logs().TrailingFor(0)), 0},
		} {
			slack := int64(tolerance*float64(tc.want)) + 1
			if tc.got < tc.want-slack || tc.got > tc.want+slack {
				t.Errorf("%s: %s = %d, expected about %d", when, tc.what, tc.got, tc.want)
			}
		}
	}
	check("exactly", 0.1)
	mustClose(t, d)
	d = mustOpen(t, path)
	check("after a restart", 0.1)
	if got := d.BytesSinceSnapshot(); got < 2700*kib || got > 3300*kib {
		t.Errorf("BytesSinceSnapshot = %d", got)
	}
	fill(t, d.Table(), 1, 1050)
	if _, err := take(d, 1050, 1); err != nil {
		t.Fatal(err)
	}
	if got := d.BytesSinceSnapshot(); got < 900*kib || got > 1100*kib {
		t.Errorf("BytesSinceSnapshot after a snapshot = %d", got)
	}
}

// TestLogSizeFollowsTheLog compares the estimate with the truth along random appends and cuts.
func TestLogSizeFollowsTheLog(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	s := logSize{every: 1000}
	var sizes []int64 // of the entries from first on
	first := uint64(1)
	for step := range 5000 {
		switch n := uint64(len(sizes)); {
		case n > 0 && rng.IntN(50) == 0:
			cut := 1 + rng.Uint64N(n)
			s.dropHead(first + cut - 1)
			sizes, first = sizes[cut:], first+cut
		case n > 0 && rng.IntN(50) == 0:
			cut := rng.Uint64N(n)
			s.dropTail(first + cut)
			sizes = sizes[:cut]
		default:
			size := 64 + rng.Int64N(200)
			s.add(first+n, 1, size)
			sizes = append(sizes, size)
		}
		var want int64
		from := 0
		if len(sizes) > 0 {
			from = rng.IntN(len(sizes))
		}
		for _, size := range sizes[from:] {
			want += size
		}
		if got := s.after(first + uint64(from) - 1); got < want-1300 || got > want+1300 {
			t.Fatalf("step %d: %d bytes from entry %d of %d on, expected about %d", step, got, from, len(sizes), want)
		}
		if got := int64(s.trailing(want)); got < int64(len(sizes)-from)-20 || got > int64(len(sizes)-from)+20 {
			t.Fatalf("step %d: %d trailing entries for %d bytes, expected about %d", step, got, want, len(sizes)-from)
		}
	}
	s = logSize{every: 1}
	for i := uint64(1); i <= 5*maxMarks; i++ {
		s.add(i, 1, 100)
	}
	if len(s.marks) > maxMarks || s.after(maxMarks) != 4*maxMarks*100 {
		t.Errorf("%d marks; %d bytes after the %dth entry", len(s.marks), s.after(maxMarks), maxMarks)
	}
}

func TestVoteIsOneStep(t *testing.T) {
	path := t.TempDir()
	d := mustOpen(t, path)
	vote := func() string {
		term, err1 := d.Stable().GetUint64([]byte("LastVoteTerm"))
		candidate, err2 := d.Stable().Get([]byte("LastVoteCand"))
		return fmt.Sprint(term, " ", string(candidate), " ", err1, " ", err2)
	}
	expect := func(want string) {
		t.Helper()
		if got := vote(); got != want {
			t.Errorf("the vote is %q, expected %q", got, want)
		}
	}
	set := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	restart := func() { mustClose(t, d); d = mustOpen(t, path) }

	expect("0  not found not found") // the text that raft compares with
	set(d.Stable().SetUint64([]byte("LastVoteTerm"), 1))
	restart() // between the two
	expect("0  not found not found")
	set(d.Stable().SetUint64([]byte("LastVoteTerm"), 2), d.Stable().Set([]byte("LastVoteCand"), []byte("a")))
	expect("2 a <nil> <nil>")
	restart()
	expect("2 a <nil> <nil>")
	set(d.Stable().SetUint64([]byte("LastVoteTerm"), 3), d.Stable().SetUint64([]byte("CurrentTerm"), 3))
	restart()
	expect("2 a <nil> <nil>")
	set(d.Stable().Set([]byte("LastVoteCand"), []byte("b"))) // no term is held any more
	expect("2 b <nil> <nil>")
	if term, err := d.Stable().GetUint64([]byte("CurrentTerm")); term != 3 || err != nil {
		t.Errorf("CurrentTerm = %d, %v", term, err)
	}
	if _, err := d.Stable().GetUint64([]byte("LastVoteCand")); !errors.Is(err, ErrDamaged) {
		t.Errorf("a value of one byte as a number: %v", err)
	}
}
