package store

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// otherKind is the kind that a log is converted to.
func otherKind(kind LogKind) LogKind {
	if kind == LogBolt {
		return LogWAL
	}
	return LogBolt
}

// convertible makes a directory with a log of a kind that has all there is to copy, and returns its entries.
func convertible(t *testing.T, kind LogKind) (path string, logs []*raft.Log) {
	t.Helper()
	path = t.TempDir()
	d := mustOpenLog(t, path, kind)
	if err := d.SetIdentity(Identity{ClusterID: "c1", NodeID: "n1", Phase: PhaseMember}); err != nil {
		t.Fatal(err)
	}
	if err := d.Stable().SetUint64([]byte("CurrentTerm"), 1); err != nil {
		t.Fatal(err)
	}
	logs = walEntries(1, 1300, 1, 300)
	logs[1].Extensions, logs[2].Type, logs[3].AppendedAt, logs[4].Data = []byte("ext"), raft.LogConfiguration, time.Now(), nil
	for i := 0; i < len(logs); i += 100 {
		if err := d.Logs().StoreLogs(logs[i : i+100]); err != nil {
			t.Fatal(err)
		}
	}
	fill(t, d.Table(), 1, 50)
	mustClose(t, d)
	return path, logs
}

// TestLogOfNoKind: who asks for no kind gets a log of kind wal in a new directory, and else what there is.
func TestLogOfNoKind(t *testing.T) {
	path := t.TempDir()
	for _, step := range []struct{ ask, want LogKind }{{"", LogWAL}, {LogBolt, LogBolt}, {"", LogBolt}, {LogWAL, LogWAL}, {"", LogWAL}} {
		d := mustOpenLog(t, path, step.ask)
		if got := d.LogKind(); got != step.want {
			t.Errorf("asked for %q: the log is of kind %s, expected %s", step.ask, got, step.want)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestConversionKilledAtEachStep kills a conversion before each of its steps. The log has all its entries at the next start, with
// whichever kind that one asks for, and no other log is left.
func TestConversionKilledAtEachStep(t *testing.T) {
	onEachLog(t, func(t *testing.T, from LogKind) {
		source, logs := convertible(t, from)
		var steps []string
		for n, done := 1, false; !done; n++ {
			for _, next := range LogKinds {
				path := copyDir(t, source)
				at, killed := 0, ""
				d, err := Open(path, Options{Log: otherKind(from), Usage: smallDisk, Fatal: noFatal(t), Fault: func(step string) error {
					if !strings.HasPrefix(step, "log.") {
						return nil
					}
					if at++; at == n {
						killed = step
					}
					if at < n {
						return nil
					}
					return errPowerLost // and so for what comes after it
				}})
				if done = err == nil; done {
					mustClose(t, d)
				} else if !errors.Is(err, errPowerLost) {
					t.Fatalf("killed before %s: %v", killed, err)
				}
				steps = append(steps, killed)
				d = mustOpenLog(t, path, next)
				checkWAL(t, d.Logs().engine, logs)
				checkFilled(t, d.Table(), 60)
				if err := d.Logs().StoreLogs(walEntries(1301, 1302, 2, 10)); err != nil {
					t.Fatal(err)
				}
				if d.LogKind() != next {
					t.Errorf("killed before %s, then opened with %s: it is %s", killed, next, d.LogKind())
				}
				mustClose(t, d)
				checkOneLog(t, path, next)
			}
		}
		for _, want := range []string{"log.make", "log.copy", "log.compare", "log.current.rename", "log.current.sync", "log.leftover"} {
			if !strings.Contains(strings.Join(steps, " "), want) {
				t.Errorf("no kill before %s: %v", want, steps)
			}
		}
	})
}

// checkOneLog tells that the folder has the log of a kind and nothing else.
func checkOneLog(t *testing.T, path string, kind LogKind) {
	t.Helper()
	names, err := os.ReadDir(filepath.Join(path, "raft"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{raftCurrent: true, "stable.db": true, logNames[kind]: true}
	for _, entry := range names {
		if !want[entry.Name()] {
			t.Errorf("%s is left beside a log of kind %s", entry.Name(), kind)
		}
	}
	if len(names) != len(want) {
		t.Errorf("the folder has %d names, expected %d", len(names), len(want))
	}
}

func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestConversionOfADirectoryWithoutCurrent: one of before there was a second kind.
func TestConversionOfADirectoryWithoutCurrent(t *testing.T) {
	for _, next := range []LogKind{"", LogBolt, LogWAL} {
		path, logs := convertible(t, LogBolt)
		if err := os.Remove(filepath.Join(path, "raft", raftCurrent)); err != nil {
			t.Fatal(err)
		}
		d := mustOpenLog(t, path, next)
		checkWAL(t, d.Logs().engine, logs)
		mustClose(t, d)
		checkOneLog(t, path, max(next, LogBolt))
	}
}

// TestConversionLeavesAGapBehind: raft leaves one in a log of kind bolt after a snapshot has come in.
func TestConversionLeavesAGapBehind(t *testing.T) {
	path := t.TempDir()
	d := mustOpenLog(t, path, LogBolt)
	mustSetTerm(t, d, 1)
	want := walEntries(100, 150, 2, 50)
	if err := errors.Join(d.Logs().StoreLogs(walEntries(1, 20, 1, 50)), d.Logs().StoreLogs(want)); err != nil {
		t.Fatal(err)
	}
	mustClose(t, d)
	_, err := Open(path, Options{Log: LogWAL, Fatal: noFatal(t)})
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "entry 99 is missing") {
		t.Errorf("without a snapshot: %v", err)
	}
	d = mustOpen(t, path) // nothing has happened to it
	fill(t, d.Table(), 1, 99)
	if _, err := take(d, 99, 1); err != nil {
		t.Fatal(err)
	}
	if err := d.Stable().SetUint64([]byte("CurrentTerm"), 2); err != nil {
		t.Fatal(err)
	}
	mustClose(t, d)
	d = mustOpenLog(t, path, LogWAL)
	checkWAL(t, d.Logs().engine, want)
	mustClose(t, d)
	checkOneLog(t, path, LogWAL)
}

// TestConversionRefused: without room, and where the log in force is damaged. The log stays as it is.
func TestConversionRefused(t *testing.T) {
	onEachLog(t, func(t *testing.T, from LogKind) {
		path, logs := convertible(t, from)
		free := func() (uint64, uint64) { return 30 << 20, 1 << 30 }
		_, err := Open(path, Options{Log: otherKind(from), Fatal: noFatal(t), Usage: free})
		if !errors.Is(err, ErrNoRoom) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "converting raft's log from "+string(from)) {
			t.Errorf("without room: %v", err)
		}
		checkOneLog(t, path, from)
		d := mustOpenLog(t, path, from)
		checkWAL(t, d.Logs().engine, logs)
		mustClose(t, d)
		if _, err := Open(path, Options{Log: "lmdb", Fatal: noFatal(t)}); err == nil {
			t.Error("a kind that there is not was taken")
		}
	})
}

// TestConversionTells what an operator sees of it.
func TestConversionTells(t *testing.T) {
	path, _ := convertible(t, LogBolt)
	var lines strings.Builder
	d, err := Open(path, Options{Log: LogWAL, Fatal: noFatal(t), Logger: slog.New(slog.NewTextHandler(&lines, nil))})
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, d)
	for _, want := range []string{`msg="converting raft's log" to=wal entries=1300 bytes=`, `msg="converted raft's log" from=bolt to=wal entries=1300`} {
		if !strings.Contains(lines.String(), want) {
			t.Errorf("no line %s in\n%s", want, lines.String())
		}
	}
}

// TestNewLogKilledAtEachStep kills the first start of all before each step.
func TestNewLogKilledAtEachStep(t *testing.T) {
	onEachLog(t, func(t *testing.T, kind LogKind) {
		for n, done := 1, false; !done; n++ {
			path := t.TempDir()
			at := 0
			d, err := Open(path, Options{Log: kind, Usage: smallDisk, Fatal: noFatal(t), Fault: func(step string) error {
				if strings.HasPrefix(step, "log.") {
					if at++; at >= n {
						return fmt.Errorf("%s: %w", step, errPowerLost)
					}
				}
				return nil
			}})
			if done = err == nil; done {
				mustClose(t, d)
			}
			d = mustOpenLog(t, path, kind)
			if !d.Empty() {
				t.Errorf("killed at step %d: not empty", n)
			}
			storeEntries(t, d.Logs(), 1, 3, 10)
			mustClose(t, d)
			checkOneLog(t, path, kind)
		}
	})
}
