package store

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"
)

const smallSegment = 4 << 10

// walBed is a log of kind wal with small segments, without a directory around it.
type walBed struct {
	t       testing.TB
	files   files
	covered uint64 // by a snapshot
	lines   bytes.Buffer
}

func newWALBed(t testing.TB, fs vfs.FS, root string, fatal func(error), fault func(string) error) *walBed {
	t.Helper()
	b := &walBed{t: t, files: files{fs, root, newGuard(time.Minute, fatal, fault)}}
	if err := fs.MkdirAll(b.path(), 0o700); err != nil {
		t.Fatal(err)
	}
	return b
}

// memBed is one in memory.
func memBed(t testing.TB) *walBed { return newWALBed(t, vfs.NewMem(), "data", noFatal(t), nil) }

func (b *walBed) path() string { return b.files.path("wal") }

func (b *walBed) options() walOptions {
	return walOptions{segmentBytes: smallSegment, covered: func() uint64 { return b.covered }, log: slog.New(slog.NewTextHandler(&b.lines, nil))}
}

func (b *walBed) create() (*walLog, error) {
	return startWAL(&walDir{files: b.files, dir: b.path()}, b.options())
}

func (b *walBed) open() (*walLog, error) { return openWAL(b.files, b.path(), b.options()) }

func (b *walBed) must(l *walLog, err error) *walLog {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	return l
}

func (b *walBed) close(l *walLog) {
	b.t.Helper()
	if err := l.Close(); err != nil {
		b.t.Error(err)
	}
}

// walEntries makes entries whose bytes tell which they are.
func walEntries(first, last, term uint64, size int) (logs []*raft.Log) {
	for i := first; i <= last; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: term, Type: raft.LogCommand, Data: bytes.Repeat([]byte{byte(i), byte(term), 3}, size/3+1)[:size]})
	}
	return logs
}

// checkWAL tells that the log has exactly these entries.
func checkWAL(t testing.TB, l engine, want []*raft.Log) {
	t.Helper()
	var first, last uint64
	if len(want) > 0 {
		first, last = want[0].Index, want[len(want)-1].Index
	}
	low, err1 := l.FirstIndex()
	high, err2 := l.LastIndex()
	if low != first || high != last || err1 != nil || err2 != nil {
		t.Fatalf("the log has %d to %d (%v, %v), expected %d to %d", low, high, err1, err2, first, last)
	}
	for _, w := range want {
		var got raft.Log
		if err := l.GetLog(w.Index, &got); err != nil || !sameEntry(&got, w) {
			t.Fatalf("entry %d of %d to %d: %v, %v", w.Index, first, last, got, err)
		}
	}
	for _, i := range []uint64{first - 1, last + 1} {
		if err := l.GetLog(i, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
			t.Fatalf("entry %d, beside %d to %d: %v", i, first, last, err)
		}
	}
}

// TestEntryHoldsEverything looks at the fields of raft.Log themselves, so that a new one is noticed.
func TestEntryHoldsEverything(t *testing.T) {
	full := raft.Log{
		Index: 1 << 60, Term: 1 << 61, Type: raft.LogConfiguration, Data: []byte("data"), Extensions: []byte("ext"),
		AppendedAt: time.Date(2026, 11, 30, 1, 2, 3, 456789, time.UTC),
	}
	for i, v := 0, reflect.ValueOf(full); i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("%s is not in this test", v.Type().Field(i).Name)
		}
	}
	for _, want := range []raft.Log{full, {Index: 1}, {Index: 2, Extensions: []byte("x")}} {
		var b bytes.Buffer
		if err := (&entryCodec{batch: 1}).Encode(&want, &b); err != nil {
			t.Fatal(err)
		}
		var got raft.Log
		if err := (&entryCodec{}).Decode(b.Bytes(), &got); err != nil || !sameEntry(&got, &want) {
			t.Errorf("%+v came back as %+v, %v", want, got, err)
		}
		for i := range b.Len() {
			changed := slices.Clone(b.Bytes())
			changed[i] ^= 0x10
			if err := (&entryCodec{}).Decode(changed, &got); !errors.Is(err, ErrDamaged) {
				t.Errorf("with byte %d changed: %v", i, err)
			}
			if err := (&entryCodec{}).Decode(changed[:i], &got); !errors.Is(err, ErrDamaged) {
				t.Errorf("of %d bytes: %v", i, err)
			}
		}
	}
	if err := (&entryCodec{}).Encode(&raft.Log{Data: make([]byte, maxEntryBytes)}, new(bytes.Buffer)); err == nil {
		t.Error("an entry was written that could not be read back")
	}
}

// TestWALFollowsAModel appends, deletes and opens anew at random, and compares with a list.
func TestWALFollowsAModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	b := memBed(t)
	l := b.must(b.create())
	b.close(l)
	l = b.must(b.open())
	var want []*raft.Log
	next, term := uint64(1), uint64(1)
	for range 800 {
		switch n := len(want); {
		case rng.IntN(20) == 0:
			b.close(l)
			l = b.must(b.open())
		case n > 0 && rng.IntN(15) == 0: // head, as after a snapshot
			cut := 1 + rng.IntN(n)
			if err := l.DeleteRange(want[0].Index, want[cut-1].Index); err != nil {
				t.Fatal(err)
			}
			want = want[cut:]
		case n > 0 && rng.IntN(15) == 0: // tail, as after an election
			cut := rng.IntN(n)
			next, term = want[cut].Index, term+1
			if err := l.DeleteRange(next, want[n-1].Index); err != nil {
				t.Fatal(err)
			}
			want = want[:cut]
		case rng.IntN(60) == 0: // a snapshot came in that goes further
			next += 1 + rng.Uint64N(100)
			b.covered = next - 1
			want = nil
			fallthrough
		default:
			batch := walEntries(next, next+rng.Uint64N(5), term, rng.IntN(900))
			if err := l.StoreLogs(batch); err != nil {
				t.Fatal(err)
			}
			want, next = append(want, batch...), next+uint64(len(batch))
		}
		checkWAL(t, l, want)
	}
	b.close(l)
	if n := len(b.segments()); n > 60 {
		t.Errorf("%d segments are left", n)
	}
	if b.lines.Len() > 0 {
		t.Errorf("without any crash: %s", b.lines.String())
	}
}

func TestWALRefusesAGapThatNoSnapshotCovers(t *testing.T) {
	b := memBed(t)
	l := b.must(b.create())
	defer b.close(l)
	want := walEntries(1, 5, 1, 10)
	if err := l.StoreLogs(want); err != nil {
		t.Fatal(err)
	}
	b.covered = 7
	if err := l.StoreLogs(walEntries(9, 9, 1, 10)); err == nil {
		t.Error("entry 9 was stored, and entry 8 is nowhere")
	}
	if err := l.StoreLogs(walEntries(4, 4, 1, 10)); err == nil {
		t.Error("entry 4 was stored twice")
	}
	checkWAL(t, l, want)
}

// oneSegment makes a log of one segment with a batch for each of the given sizes and returns the offset at which each ends.
func oneSegment(t *testing.T, b *walBed, sizes ...int) (ends []int, logs [][]*raft.Log) {
	t.Helper()
	l := b.must(b.create())
	next := uint64(1)
	for _, size := range sizes {
		batch := walEntries(next, next+1, 1, size)
		if err := l.StoreLogs(batch); err != nil {
			t.Fatal(err)
		}
		next += 2
		ends, logs = append(ends, len(bytes.TrimRight(b.segment(0), "\x00"))), append(logs, batch)
	}
	b.close(l)
	return ends, logs
}

// segment returns the bytes of the n-th segment.
func (b *walBed) segment(n int) []byte {
	b.t.Helper()
	data, err := b.files.read(b.segments()[n])
	if err != nil {
		b.t.Fatal(err)
	}
	return data
}

// segments returns the segments' paths, in their order.
func (b *walBed) segments() (paths []string) {
	b.t.Helper()
	names, err := b.files.List(b.path())
	if err != nil {
		b.t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.HasSuffix(name, segmentSuffix) {
			paths = append(paths, b.files.PathJoin(b.path(), name))
		}
	}
	return paths
}

func zero(b []byte) { copy(b, make([]byte, len(b))) }

// put replaces the bytes of the n-th segment, in its file.
func (b *walBed) put(n int, data []byte) {
	b.t.Helper()
	file, err := b.files.OpenReadWrite(b.segments()[n], vfs.WriteCategoryUnspecified)
	if err != nil {
		b.t.Fatal(err)
	}
	_, err = file.WriteAt(data, 0)
	if err := errors.Join(err, file.Close()); err != nil {
		b.t.Fatal(err)
	}
}

// TestTornTail leaves of the last append what a crash may leave of it: its beginning, its end, or pieces. What was
// acknowledged before is there, and the log goes on.
func TestTornTail(t *testing.T) {
	b := memBed(t)
	ends, logs := oneSegment(t, b, 100, 100, 100)
	whole := b.segment(0)
	from, to := ends[1], ends[2]
	before := append(slices.Clone(logs[0]), logs[1]...)
	rng := rand.New(rand.NewPCG(1, 2))
	for n := from; n < to; n += 3 {
		beginning, end, pieces := slices.Clone(whole), slices.Clone(whole), slices.Clone(whole)
		zero(beginning[n:to])
		zero(end[from : n+1])
		for at := from; at < to; at += 8 {
			if rng.IntN(2) == 0 {
				zero(pieces[at:min(at+8, to)])
			}
		}
		for name, torn := range map[string][]byte{"beginning": beginning, "end": end, "pieces": pieces} {
			if bytes.Equal(torn, whole) {
				continue
			}
			b.put(0, torn)
			b.lines.Reset()
			l, err := b.open()
			if err != nil {
				t.Fatalf("%s, at %d of %d to %d: %v", name, n, from, to, err)
			}
			checkWAL(t, l, before)
			more := walEntries(5, 5, 2, rng.IntN(150))
			if err := l.StoreLogs(more); err != nil {
				t.Fatal(err)
			}
			b.close(l)
			if left := len(bytes.TrimRight(torn, "\x00")) > from; left != strings.Contains(b.lines.String(), "not ended") {
				t.Errorf("%s, at %d: the line %q", name, n, b.lines.String())
			}
			l = b.must(b.open())
			checkWAL(t, l, append(slices.Clone(before), more...))
			b.close(l)
		}
	}
}

// TestChangedByteIsRefused changes each byte of what was acknowledged before the last append, in the last segment.
func TestChangedByteIsRefused(t *testing.T) {
	b := memBed(t)
	ends, logs := oneSegment(t, b, 100, 60, 100)
	whole := b.segment(0)
	all := slices.Concat(logs...)
	for at := range ends[2] {
		changed := slices.Clone(whole)
		changed[at] ^= 1 << (at % 8)
		b.put(0, changed)
		l, err := b.open()
		switch {
		case at < ends[1]:
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "acknowledged") || strings.Contains(err.Error(), "\n") {
				t.Errorf("byte %d of %d changed: %v", at, ends[2], err)
			}
			if got := b.segment(0); !bytes.Equal(got, changed) {
				t.Fatalf("byte %d: a file that is refused was changed", at)
			}
		case err != nil:
			t.Errorf("byte %d of the last append changed: %v", at, err)
		default:
			checkWAL(t, l, all[:4])
		}
		if err == nil {
			b.close(l)
		}
	}
}

// TestFullSegmentMustBeWhole changes each byte of a segment that is full, and one while the log is open.
func TestFullSegmentMustBeWhole(t *testing.T) {
	b := memBed(t)
	l := b.must(b.create())
	for i := uint64(1); i <= 20; i++ {
		if err := l.StoreLogs(walEntries(i, i, 1, 500)); err != nil {
			t.Fatal(err)
		}
	}
	b.close(l)
	l = b.must(b.open())
	whole := b.segment(0)
	for at := 0; at < len(bytes.TrimRight(whole, "\x00")); at += 9 { // every remainder by 8 in turn
		changed := slices.Clone(whole)
		changed[at] ^= 0x55
		b.put(0, changed)
		if other, err := b.open(); !errors.Is(err, ErrDamaged) {
			t.Errorf("byte %d changed: %v", at, err)
			if err == nil {
				b.close(other)
			}
		}
		for i := uint64(1); i <= 5; i++ { // it is open all the time
			var got raft.Log
			if err := l.GetLog(i, &got); err == nil && !sameEntry(&got, walEntries(i, i, 1, 500)[0]) {
				t.Fatalf("byte %d changed: entry %d is read as another one", at, i)
			}
		}
	}
	b.put(0, whole)
	b.close(l)
	b.close(b.must(b.open()))
	if err := b.files.Remove(b.segments()[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := b.open(); !errors.Is(err, ErrDamaged) {
		t.Errorf("without a segment: %v", err)
	}
}

// TestUnreadableEntryEndsTheProcess: raft would panic at it, or ask for it again for ever.
func TestUnreadableEntryEndsTheProcess(t *testing.T) {
	path := t.TempDir()
	var dead deaths
	d, err := Open(path, Options{Log: LogWAL, Fatal: dead.fatal})
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, d)
	storeEntries(t, d.Logs(), 1, 3, 100)
	d.Logs().recent.drop(1, 3) // else they are read from memory
	names, _ := filepath.Glob(filepath.Join(path, "raft", "wal", "*"+segmentSuffix))
	f, err := os.OpenFile(names[0], os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{99}, segmentHeader+frameHeader+entryHeader); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := d.Logs().GetLog(1, new(raft.Log)); !errors.Is(err, ErrDamaged) {
		t.Errorf("reading it: %v", err)
	}
	if errs := dead.all(); len(errs) != 1 || !errors.Is(errs[0], ErrDamaged) {
		t.Errorf("Fatal got %v", errs)
	}
}

// TestWALPowerLoss loses power before each durable step of a life of appends, cuts and gaps, in segments of four
// KiB, and on each outcome once more: what was acknowledged is there, in the order and without a gap, and the log can go on.
func TestWALPowerLoss(t *testing.T) {
	for _, unsynced := range []int{0, 50, 100} {
		for n, done := 1, false; !done; n++ {
			var w walLife
			fs := vfs.NewCrashableMem()
			c := &crasher{fs: fs, n: n, cfg: vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rand.New(rand.NewPCG(uint64(n), 8))}}
			var dead deaths
			b := newWALBed(t, fs, "data", dead.fatal, c.fault)
			b.close(b.must(b.create()))
			syncMem(t, fs)
			c.armed = true
			l, err := b.open()
			if err == nil {
				err = w.run(b, l)
			}
			if l != nil {
				_ = l.Close() // with what goes on in the background
			}
			c.armed = false
			if done = c.after == nil; done {
				if err != nil {
					t.Fatalf("without a power loss: %v", err)
				}
				c.after = fs.CrashClone(c.cfg)
			}
			name := fmt.Sprintf("%d%% unsynced, step %d (%s)", unsynced, n, c.step)
			again := newWALBed(t, c.after, "data", noFatal(t), nil)
			again.covered = b.covered
			l, err = again.open()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			w.check(t, name, l)
			last, _ := l.LastIndex()
			if last == 0 {
				last = again.covered
			}
			if err := l.StoreLogs(walEntries(last+1, last+1, 9, 50)); err != nil {
				t.Fatalf("%s: going on: %v", name, err)
			}
			again.close(l)
			again.close(again.must(again.open()))
		}
	}
}

// TestKilledBeforeTheSync: a process dies between the write and the sync of an append; the next one finds the append in the system's memory
// and takes it for durable. Then it must be: power that is lost afterwards takes nothing that it has seen.
func TestKilledBeforeTheSync(t *testing.T) {
	fs := vfs.NewCrashableMem()
	var dying atomic.Bool
	disk := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if dying.Load() && strings.HasSuffix(op.Path, segmentSuffix) && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) {
			return errPowerLost
		}
		return nil
	}))
	var dead deaths
	b := newWALBed(t, disk, "data", dead.fatal, nil)
	b.close(b.must(b.create()))
	syncMem(t, fs)
	l := b.must(b.open())
	if err := l.StoreLogs(walEntries(1, 2, 1, 100)); err != nil {
		t.Fatal(err)
	}
	dying.Store(true)
	if err := l.StoreLogs(walEntries(3, 4, 1, 100)); !errors.Is(err, errPowerLost) {
		t.Fatalf("without a sync: %v", err)
	}
	_ = l.Close()
	next := newWALBed(t, fs, "data", noFatal(t), nil)
	l = next.must(next.open())
	seen := walEntries(1, 4, 1, 100)
	checkWAL(t, l, seen)
	after := newWALBed(t, fs.CrashClone(vfs.CrashCloneCfg{}), "data", noFatal(t), nil)
	next.close(l)
	l = after.must(after.open())
	checkWAL(t, l, seen)
	after.close(l)
}

// syncMem makes the names down to the log durable.
func syncMem(t *testing.T, fs vfs.FS) {
	t.Helper()
	for _, dir := range []string{"/", "data", "data/wal"} {
		f, err := fs.OpenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// walLife is what was done to a log: what is acknowledged, and the one call that may have been under way.
type walLife struct {
	acked   []*raft.Log
	pending []*raft.Log // what the log has if the call under way took effect
	under   bool
}

func (w *walLife) try(b *walBed, after []*raft.Log, call func() error) error {
	w.pending, w.under = after, true
	// The steps within are known to the crasher; right before and after it there is one more.
	if err := b.files.guard.step("before"); err != nil {
		return err
	}
	if err := call(); err != nil {
		return err
	}
	w.acked, w.under = after, false
	return b.files.guard.step("after")
}

func (w *walLife) store(b *walBed, l *walLog, logs []*raft.Log) error {
	return w.try(b, slices.Concat(w.acked, logs), func() error { return l.StoreLogs(logs) })
}

func (w *walLife) run(b *walBed, l *walLog) error {
	next := uint64(1)
	fill := func(n, term uint64) error {
		for range n {
			logs := walEntries(next, next+1, term, 400)
			if err := w.store(b, l, logs); err != nil {
				return err
			}
			next += 2
		}
		return nil
	}
	cut := func(keep []*raft.Log, first, last uint64) error {
		return w.try(b, keep, func() error { return l.DeleteRange(first, last) })
	}
	if err := fill(12, 1); err != nil { // several segments
		return err
	}
	if err := cut(w.acked[9:], 1, 9); err != nil {
		return err
	}
	if err := cut(w.acked[:8], 18, 24); err != nil {
		return err
	}
	next = 18
	if err := fill(6, 2); err != nil {
		return err
	}
	next, b.covered = 101, 100 // a snapshot came in
	logs := walEntries(101, 102, 3, 400)
	if err := w.try(b, logs, func() error { return l.StoreLogs(logs) }); err != nil {
		return err
	}
	next = 103
	return fill(3, 3)
}

// check: all that was acknowledged, and of a call under way nothing or everything; a gap is closed in two steps.
func (w *walLife) check(t *testing.T, name string, l *walLog) {
	t.Helper()
	last, err := l.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	first, _ := l.FirstIndex()
	is := func(logs []*raft.Log) bool {
		return len(logs) == 0 && last == 0 || len(logs) > 0 && logs[0].Index == first && logs[len(logs)-1].Index == last
	}
	switch gap := len(w.pending) > 0 && w.pending[0].Index == 101 && len(w.pending) == 2; {
	case is(w.acked):
		checkWAL(t, l, w.acked)
	case w.under && is(w.pending):
		checkWAL(t, l, w.pending)
	case w.under && gap && last == 0:
	default:
		t.Fatalf("%s: the log has %d to %d; %d entries are acknowledged", name, first, last, len(w.acked))
	}
}

// TestBackgroundErrorIsFatal: the library makes the next segment, and removes old ones, where nobody waits for an error.
func TestBackgroundErrorIsFatal(t *testing.T) {
	failing := errors.New("input/output error")
	for _, step := range []string{"log.segments", "log.segments.sync", "log.remove"} {
		t.Run(step, func(t *testing.T) {
			var broken atomic.Bool
			died := make(chan error, 1)
			b := newWALBed(t, vfs.Default, t.TempDir(), func(err error) { died <- err }, func(s string) error {
				if broken.Load() && s == step {
					return failing
				}
				return nil
			})
			l := b.must(b.create())
			defer b.close(l)
			next := uint64(1)
			full := func() error {
				logs := walEntries(next, next+9, 1, 500)
				next += 10
				return l.StoreLogs(logs)
			}
			if err := full(); err != nil {
				t.Fatal(err)
			}
			broken.Store(true)
			if err := full(); err != nil && step == "log.remove" {
				t.Fatal(err)
			}
			if step == "log.remove" {
				if err := l.DeleteRange(1, 15); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-died; !errors.Is(err, failing) {
				t.Errorf("Fatal got %v", err)
			}
		})
	}
}

// TestFullDiskEndsTheLog fills a small disk by appending. What was acknowledged is there when there is room again.
func TestFullDiskEndsTheLog(t *testing.T) {
	onEachLog(t, func(t *testing.T, kind LogKind) {
		path := t.TempDir()
		if err := unix.Mount("tmpfs", path, "tmpfs", 0, "size=12m"); err != nil {
			t.Skipf("SKIPPED: a small file system cannot be mounted here: %v", err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(path, 0); err != nil {
				t.Errorf("unmounting: %v", err)
			}
		})
		ballast := filepath.Join(path, "ballast")
		if err := os.WriteFile(ballast, make([]byte, 2<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		var dead deaths
		d, err := Open(path, Options{Log: kind, Fatal: dead.fatal})
		if err != nil {
			t.Fatal(err)
		}
		mustSetTerm(t, d, 1)
		var acked []*raft.Log
		for {
			next := uint64(len(acked) + 1)
			logs := walEntries(next, next+3, 1, 10_000)
			if err = d.Logs().StoreLogs(logs); err != nil {
				break
			}
			acked = append(acked, logs...)
		}
		if errs := dead.all(); !errors.Is(err, unix.ENOSPC) && len(errs) == 0 || len(errs) != 1 || !errors.Is(errs[0], unix.ENOSPC) {
			t.Errorf("StoreLogs returned %v, Fatal got %v", err, errs)
		}
		if len(acked) < 100 {
			t.Errorf("%d entries fit", len(acked))
		}
		_ = d.Close()
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		d = mustOpen(t, path)
		checkWAL(t, d.Logs().engine, acked)
		storeEntries(t, d.Logs(), uint64(len(acked)+1), uint64(len(acked)+5), 100)
		mustClose(t, d)
	})
}
