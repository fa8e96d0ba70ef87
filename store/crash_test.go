package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var errPowerLost = errors.New("the power is lost")

// crasher loses power right before the n-th durable step: what is on disk then is kept, and every step from there on errs.
type crasher struct {
	mu    sync.Mutex
	fs    *vfs.MemFS
	cfg   vfs.CrashCloneCfg
	armed bool
	n     int
	after *vfs.MemFS // nil while the power is on
	step  string
}

func (c *crasher) fault(step string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.armed || strings.HasPrefix(step, "table.") { // Pebble's own; the file system in memory knows what is synced
		return nil
	}
	if c.n--; c.n == 0 {
		c.after, c.step = c.fs.CrashClone(c.cfg), step
	}
	if c.n <= 0 {
		return fmt.Errorf("%s: %w", step, errPowerLost)
	}
	return nil
}

// crashEverywhere runs do on a directory that before has prepared, with a power loss before its first durable step,
// its second, and so on, and hands each outcome, opened anew, to check. done tells whether do had returned before the loss.
func crashEverywhere(t *testing.T, before func(*Dir), do func(*Dir) error, check func(t *testing.T, d *Dir, done bool)) {
	t.Helper()
	for _, unsynced := range []int{0, 50, 100} {
		for n, done := 1, false; !done; n++ {
			fs := vfs.NewCrashableMem()
			c := &crasher{fs: fs, n: n, cfg: vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rand.New(rand.NewPCG(uint64(n), 7))}}
			var dead deaths
			d, err := openMem(t, fs, dead.fatal, c.fault)
			if err != nil {
				t.Fatal(err)
			}
			before(d)
			c.armed = true
			err = do(d)
			c.armed = false
			if done = c.after == nil; done {
				c.after, c.step = fs.CrashClone(c.cfg), "the end"
				if err != nil {
					t.Fatalf("without a power loss: %v", err)
				}
				if n == 1 {
					t.Fatal("there was no durable step")
				}
			} else if !errors.Is(err, errPowerLost) {
				t.Errorf("power lost before %s, and the call returned %v", c.step, err)
			}
			_ = d.Close()
			t.Run(fmt.Sprintf("%d%% unsynced, before %s", unsynced, c.step), func(t *testing.T) {
				again, err := openMem(t, c.after, noFatal(t), nil)
				if err != nil {
					t.Fatalf("after the power loss: %v", err)
				}
				check(t, again, done)
				mustClose(t, again)
			})
		}
	}
}

func TestPowerLossWhileInstalling(t *testing.T) {
	stream := sourceStream(t)
	before := func(d *Dir) {
		fill(t, d.Table(), 1, 20)
		if err := d.Table().Flush(); err != nil {
			t.Fatal(err)
		}
	}
	crashEverywhere(t, before, func(d *Dir) error { return install(d, 40, 1, stream) }, func(t *testing.T, d *Dir, done bool) {
		switch applied, newest := d.Table().Applied(), d.Snapshots().LastIndex(); {
		case applied == 50 && newest == 40: // new
		case applied == 20 && newest == 0 && !done: // old
		default:
			t.Errorf("the table is at %d, the newest snapshot at %d", applied, newest)
		}
		checkFilled(t, d.Table(), 60)
	})
}

func TestPowerLossWhileTakingASnapshot(t *testing.T) {
	crashEverywhere(t, func(d *Dir) { fill(t, d.Table(), 1, 20) },
		func(d *Dir) error { _, err := take(d, 22, 1); return err },
		func(t *testing.T, d *Dir, done bool) {
			applied, newest := d.Table().Applied(), d.Snapshots().LastIndex()
			if newest != 0 && newest != 22 || done && newest != 22 || applied < newest {
				t.Errorf("the table is at %d, the newest snapshot at %d", applied, newest)
			}
		})
}

func TestPowerLossWhileSettingTheIdentity(t *testing.T) {
	was := Identity{FormatVersion: 1, ClusterID: "c1", NodeID: "n1", Phase: PhaseFounding}
	is := Identity{FormatVersion: 1, ClusterID: "c1", NodeID: "n1", Phase: PhaseMember}
	before := func(d *Dir) {
		if err := d.SetIdentity(was); err != nil {
			t.Fatal(err)
		}
	}
	crashEverywhere(t, before, func(d *Dir) error { return d.SetIdentity(is) }, func(t *testing.T, d *Dir, done bool) {
		if got, ok := d.Identity(); !ok || got != is && (got != was || done) {
			t.Errorf("the identity is %+v, %v", got, ok)
		}
	})
}

func TestPowerLossWhileMakingADirectory(t *testing.T) {
	for n := 1; ; n++ {
		fs := vfs.NewCrashableMem()
		c := &crasher{fs: fs, n: n, armed: true}
		d, err := openMem(t, fs, noFatal(t), c.fault)
		if err == nil {
			mustClose(t, d)
		}
		if c.after == nil {
			if n < 3 {
				t.Fatalf("only %d durable steps", n)
			}
			return
		}
		again := mustOpenMem(t, c.after)
		fill(t, again.Table(), 1, 1)
	}
}

func TestTableBehindTheNewestSnapshot(t *testing.T) {
	stream := sourceStream(t)
	for name, tc := range map[string]struct {
		harm func(f files, state string) error // to the received bytes
		want error
	}{
		"whose bytes are there":   {func(files, string) error { return nil }, nil},
		"whose bytes are gone":    {func(f files, state string) error { return f.Remove(state) }, ErrBehind},
		"whose bytes are damaged": {flipByte, ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			d := mustOpenMem(t, fs)
			fill(t, d.Table(), 1, 20)
			id, err := receive(d, 40, 1, stream)
			if err != nil {
				t.Fatal(err)
			}
			mustClose(t, d) // raft closes the sink and then dies
			if err := tc.harm(d.files, d.files.path(snapshotsDir, id, stateFile)); err != nil {
				t.Fatal(err)
			}
			again, err := openMem(t, fs, noFatal(t), nil)
			if !errors.Is(err, tc.want) {
				t.Fatalf("opened, or refused otherwise: %v", err)
			}
			if err != nil {
				return
			}
			if again.Table().Applied() != 50 {
				t.Errorf("the table is at %d, expected 50", again.Table().Applied())
			}
			checkFilled(t, again.Table(), 60)
			mustClose(t, again)
		})
	}
}

func flipByte(f files, path string) error {
	data, err := f.read(path)
	if err != nil {
		return err
	}
	data[len(data)/2] ^= 1
	return f.writeSynced(path, data)
}
