package store

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"
)

func TestDirIsEmptyUntilItIsSomebodys(t *testing.T) { onEachLog(t, testDirIsEmpty) }

func testDirIsEmpty(t *testing.T, kind LogKind) {
	for name, touch := range map[string]func(*Dir) error{
		"an identity": func(d *Dir) error { return d.SetIdentity(Identity{ClusterID: "c", NodeID: "n", Phase: PhaseInvited}) },
		"a term":      func(d *Dir) error { return d.Stable().SetUint64([]byte("CurrentTerm"), 1) },
		"an entry": func(d *Dir) error {
			mustSetTerm(t, d, 1)
			return d.Logs().StoreLog(&raft.Log{Index: 1, Term: 1})
		},
	} {
		path := filepath.Join(t.TempDir(), "not", "there", "yet")
		d := mustOpenLog(t, path, kind)
		if !d.Empty() {
			t.Errorf("%s: a new directory is not empty", name)
		}
		if err := touch(d); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if d.Empty() {
				t.Errorf("a directory with %s is empty", name)
			}
			mustClose(t, d)
			d = mustOpen(t, path)
		}
	}
}

// TestFoldersAreOfTheOwnerAlone is about a data directory that was there before, and that everybody may enter.
func TestFoldersAreOfTheOwnerAlone(t *testing.T) {
	path := t.TempDir()
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, path))
	err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || name == path {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %o, expected 700: stored answers lie below", name, info.Mode().Perm())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestIdentityStays(t *testing.T) {
	path := t.TempDir()
	d := mustOpen(t, path)
	want := Identity{FormatVersion: FormatVersion, ClusterID: "c1", NodeID: "n1", Phase: PhaseMember}
	if _, ok := d.Identity(); ok {
		t.Error("a new directory has an identity")
	}
	if err := d.SetIdentity(Identity{ClusterID: "c1", NodeID: "n1", Phase: PhaseMember}); err != nil {
		t.Fatal(err)
	}
	if got, ok := d.Identity(); !ok || got != want {
		t.Errorf("Identity = %+v, %v", got, ok)
	}
	for _, bad := range []Identity{{FormatVersion: 2, ClusterID: "c", NodeID: "n", Phase: "p"}, {NodeID: "n", Phase: "p"}, {ClusterID: "c", Phase: "p"}, {ClusterID: "c", NodeID: "n"}} {
		if err := d.SetIdentity(bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	mustClose(t, d)
	if got, _ := mustOpen(t, path).Identity(); got != want {
		t.Errorf("after the next start: %+v", got)
	}
}

func TestDamagedDirectoriesAreRefused(t *testing.T) { onEachLog(t, testDamagedDirectories) }

func testDamagedDirectories(t *testing.T, kind LogKind) {
	later, err := seal(Identity{FormatVersion: 2, ClusterID: "c", NodeID: "n", Phase: "p"})
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, data []byte) func(string) error {
		return func(path string) error { return os.WriteFile(filepath.Join(path, name), data, 0o600) }
	}
	cut := func(name string, by int) func(string) error {
		return func(path string) error {
			data, err := os.ReadFile(filepath.Join(path, name))
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(path, name), data[:len(data)/by], 0o600)
		}
	}
	remove := func(name string) func(string) error {
		return func(path string) error { return os.RemoveAll(filepath.Join(path, name)) }
	}
	type damage struct {
		do   func(string) error
		want string
	}
	damages := map[string]damage{
		"identity cut short":          {cut(identityFile, 2), "identity.json: damaged"},
		"identity empty":              {write(identityFile, nil), "identity.json: damaged"},
		"identity changed":            {write(identityFile, []byte(`{"body":{"format_version":1,"cluster_id":"x"},"crc32c":"00000000"}`)), "checksum"},
		"identity of a later release": {write(identityFile, later), "format version 2; this release reads 1"},
		"CURRENT empty":               {write(currentFile, nil), "CURRENT: damaged"},
		"CURRENT outside":             {write(currentFile, []byte("table-../x\n")), "CURRENT: damaged"},
		"CURRENT gone":                {remove(currentFile), "no CURRENT"},
		"raft's CURRENT empty":        {write("raft/CURRENT", nil), "raft/CURRENT: damaged"},
		"raft's vote cut short":       {cut("raft/stable.db", 8), "raft/stable.db"},
		"raft's vote gone":            {remove("raft/stable.db"), "term and vote are gone"},
		"raft's files gone":           {remove("raft"), "term and vote are gone"},
	}
	if kind == LogBolt {
		damages["raft's log cut short"] = damage{cut("raft/log.db", 4), "raft/log.db"}
		damages["raft's log empty of meaning"] = damage{write("raft/log.db", bytes.Repeat([]byte("x"), 1<<16)), "raft/log.db"}
		damages["raft's log gone"] = damage{remove("raft/log.db"), "raft's log is missing"}
	} else {
		segment := "raft/wal/00000000000000000001-0000000000000000.wal"
		damages["raft's log cut short"] = damage{cut(segment, 4), "or more"}
		damages["raft's log gone"] = damage{remove("raft/wal"), "raft's log is missing"}
		damages["a segment gone"] = damage{remove(segment), "it is missing"}
		damages["segments.json gone"] = damage{remove("raft/wal/segments.json"), "no segments.json"}
		damages["segments.json empty"] = damage{write("raft/wal/segments.json", nil), "segments.json: damaged"}
	}
	for name, tc := range damages {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			d := mustOpenLog(t, path, kind)
			if err := d.SetIdentity(Identity{ClusterID: "c1", NodeID: "n1", Phase: PhaseMember}); err != nil {
				t.Fatal(err)
			}
			mustSetTerm(t, d, 1)
			storeEntries(t, d.Logs(), 1, 300, 1000)
			fill(t, d.Table(), 1, 10)
			mustClose(t, d)
			if err := tc.do(path); err != nil {
				t.Fatal(err)
			}
			d, err := Open(path, Options{Fatal: noFatal(t)})
			if err == nil {
				mustClose(t, d)
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v: expected one line with %q", err, tc.want)
			}
		})
	}
}

func TestLogThatBeginsAfterTheSnapshotIsRefused(t *testing.T) { onEachLog(t, testLogThatBeginsLater) }

func testLogThatBeginsLater(t *testing.T, kind LogKind) {
	path := t.TempDir()
	d := mustOpenLog(t, path, kind)
	storeEntries(t, d.Logs(), 5, 9, 10)
	mustClose(t, d)
	if _, err := Open(path, Options{Fatal: noFatal(t)}); !errors.Is(err, ErrBehind) {
		t.Errorf("it was opened: %v", err)
	}
}

func TestLeftoversAreRemoved(t *testing.T) {
	path := t.TempDir()
	mustClose(t, mustOpen(t, path))
	for _, name := range []string{"table-7.tmp/x", "table-9/x", "snapshots/1-2-3.tmp/state", "snapshots/checkpoint-1.tmp/x", "identity.json.tmp/x"} {
		if err := os.MkdirAll(filepath.Join(path, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, mustOpen(t, path))
	left, err := filepath.Glob(filepath.Join(path, "*"))
	if err != nil {
		t.Fatal(err)
	}
	more, _ := filepath.Glob(filepath.Join(path, "snapshots", "*"))
	for _, name := range append(left, more...) {
		if base := filepath.Base(name); strings.HasSuffix(base, tmpSuffix) || base == "table-9" {
			t.Errorf("%s stays", base)
		}
	}
}

func TestDirectoryHasOneProcess(t *testing.T) {
	path := os.Getenv("ONCED_TEST_LOCKED_DIR")
	if path != "" { // the second process
		_, err := Open(path, Options{Fatal: noFatal(t)})
		if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), path) {
			t.Fatalf("the second process got %v", err)
		}
		return
	}
	path = t.TempDir()
	d := mustOpen(t, path)
	if _, err := Open(path, Options{Fatal: noFatal(t)}); !errors.Is(err, ErrLocked) {
		t.Errorf("opened twice in one process: %v", err)
	}
	second := exec.Command(os.Args[0], "-test.run=^TestDirectoryHasOneProcess$", "-test.v", "-test.timeout=60s")
	second.Env = append(os.Environ(), "ONCED_TEST_LOCKED_DIR="+path)
	if out, err := second.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v\n%s", err, out)
	}
	mustClose(t, d)
	mustClose(t, mustOpen(t, path))
}

func TestDirectoryThatCannotBeWritten(t *testing.T) {
	t.Run("by a fault", func(t *testing.T) {
		fault := func(step string) error {
			if step == "probe" {
				return unix.EROFS
			}
			return nil
		}
		checkNotWritable(t, t.TempDir(), fault, "read-only file system")
	})
	for name, tc := range map[string]struct {
		flags uintptr
		want  string
	}{"full": {0, "no space left on device"}, "read-only": {unix.MS_RDONLY, "read-only file system"}} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			if err := unix.Mount("tmpfs", path, "tmpfs", tc.flags, "size=32k"); err != nil {
				t.Skipf("SKIPPED: a small file system cannot be mounted here: %v", err)
			}
			t.Cleanup(func() {
				if err := unix.Unmount(path, 0); err != nil {
					t.Errorf("unmounting: %v", err)
				}
			})
			checkNotWritable(t, path, nil, tc.want)
		})
	}
}

func checkNotWritable(t *testing.T, path string, fault func(string) error, want string) {
	t.Helper()
	d, err := Open(path, Options{Fatal: noFatal(t), Fault: fault})
	if err == nil {
		mustClose(t, d)
	}
	if !errors.Is(err, ErrNotWritable) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v: expected it to name the path and %q", err, want)
	}
}

func TestFirstWriteErrorIsFatalAndTheLast(t *testing.T) { onEachLog(t, testFirstWriteError) }

func testFirstWriteError(t *testing.T, kind LogKind) {
	failing := errors.New("input/output error")
	for name, write := range map[string]func(*Dir) error{
		"log.store":       func(d *Dir) error { return d.Logs().StoreLog(&raft.Log{Index: 2, Term: 1}) },
		"log.delete":      func(d *Dir) error { return d.Logs().DeleteRange(1, 1) },
		"stable.set":      func(d *Dir) error { return d.Stable().SetUint64([]byte("CurrentTerm"), 2) },
		"restore.current": func(d *Dir) error { return d.Restore(bytes.NewReader(sourceStream(t))) },
	} {
		t.Run(name, func(t *testing.T) {
			var dead deaths
			var broken bool
			path := t.TempDir()
			d, err := Open(path, Options{Log: kind, Fatal: dead.fatal, Fault: func(step string) error {
				if broken && step == name {
					return failing
				}
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			mustSetTerm(t, d, 1)
			storeEntries(t, d.Logs(), 1, 1, 10)
			broken = true
			for range 2 {
				if err := write(d); !errors.Is(err, failing) {
					t.Errorf("the write returned %v", err)
				}
			}
			if errs := dead.all(); len(errs) != 1 || !errors.Is(errs[0], failing) || !errors.Is(d.Err(), failing) {
				t.Errorf("Fatal got %v, expected the error once", errs)
			}
			broken = false
			if err := d.Logs().StoreLog(&raft.Log{Index: 2, Term: 1}); err == nil {
				t.Error("an entry was stored after the disk broke")
			}
			if err := d.Stable().Set([]byte("k"), nil); err == nil {
				t.Error("a value was stored after the disk broke")
			}
			if err := d.Table().Begin().Commit(9, 1); err == nil {
				t.Error("a batch went in after the disk broke")
			}
			if _, err := take(d, 9, 1); err == nil {
				t.Error("a snapshot was taken after the disk broke")
			}
			mustClose(t, d)
			if last, _ := mustOpen(t, path).Logs().LastIndex(); last != 1 {
				t.Errorf("the log ends at %d, expected 1", last)
			}
		})
	}
}

func TestStalledWriteIsFatal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dead deaths
		g := newGuard(10*time.Second, dead.fatal, nil)
		stall := func(d time.Duration) error {
			return g.do("log.store", "writing raft's log", func() error { time.Sleep(d); return nil })
		}
		if err := stall(9 * time.Second); err != nil || len(dead.all()) != 0 {
			t.Errorf("a write of 9 s: %v, Fatal got %v", err, dead.all())
		}
		start := time.Now()
		g.fatal = func(err error) {
			if d := time.Since(start); d != 10*time.Second {
				t.Errorf("Fatal after %s", d)
			}
			dead.fatal(err)
		}
		if err := stall(11 * time.Second); err == nil {
			t.Error("a write of 11 s succeeded after the process was told to end")
		}
		if errs := dead.all(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "stalled for more than 10s") {
			t.Errorf("Fatal got %v", errs)
		}
		if err := stall(0); err == nil {
			t.Error("a write after the stall succeeded")
		}
	})
}

// TestPauseIsNoStall is about a process that stood still in the middle of a write, and wakes up with the limit over: what is due by then
// comes at once, before the write can return.
func TestPauseIsNoStall(t *testing.T) {
	var dead deaths
	g := newGuard(10*time.Second, dead.fatal, nil)
	var due []func()
	passed := time.Duration(0)
	g.after = func(d time.Duration, f func()) *time.Timer {
		passed += d
		due = append(due, f)
		return time.NewTimer(time.Hour)
	}
	wake := func() {
		for _, f := range due[:len(due):len(due)] {
			due = due[1:]
			f()
		}
	}
	if err := g.do("log.store", "writing raft's log", func() error { wake(); return nil }); err != nil || len(dead.all()) != 0 {
		t.Errorf("a write that ends after a pause: %v, Fatal got %v", err, dead.all())
	}
	if passed != g.limit {
		t.Errorf("a stall is noticed after %s, expected %s", passed, g.limit)
	}
	if err := g.do("log.store", "writing raft's log", func() error { return nil }); err != nil {
		t.Errorf("the next write: %v", err)
	}
	due = due[1:] // of the first: that write is over
	wake()        // of the next, late
	if len(dead.all()) != 0 || len(due) != 0 {
		t.Errorf("a write that is over is still watched, Fatal got %v", dead.all())
	}
	if err := g.do("log.store", "writing raft's log", func() error { wake(); wake(); return nil }); err == nil || len(dead.all()) != 1 {
		t.Errorf("a write that does not end after a pause either: %v, Fatal got %v", err, dead.all())
	}
}

// TestSyncStepIsFatal: its write has gone well, and nobody may believe it.
func TestSyncStepIsFatal(t *testing.T) {
	failing := errors.New("input/output error")
	var dead deaths
	g := newGuard(time.Minute, dead.fatal, func(step string) error {
		if step == "log.store.sync" {
			return failing
		}
		return nil
	})
	written := 0
	for range 2 {
		if err := g.do("log.store", "writing raft's log", func() error { written++; return nil }); !errors.Is(err, failing) {
			t.Errorf("the write returned %v", err)
		}
	}
	if errs := dead.all(); written != 1 || len(errs) != 1 || !errors.Is(errs[0], failing) {
		t.Errorf("written %d times, Fatal got %v", written, errs)
	}
}

func TestCloseTwice(t *testing.T) {
	d := mustOpen(t, t.TempDir())
	fill(t, d.Table(), 1, 1)
	mustClose(t, d)
	mustClose(t, d)
	if _, err := d.Table().Row(id("t", "", "key-1")); !errors.Is(err, ErrClosed) {
		t.Errorf("Row after Close: %v", err)
	}
	if _, err := Open(t.TempDir(), Options{}); err == nil {
		t.Error("Options without Fatal were taken")
	}
}
