package store

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
)

// seeds is how many random lives the tests of power losses run, each with its seed in its name.
var seeds = flag.Uint64("power-loss-seeds", 2, "random lives of a bbolt file, each with a power loss in every commit")

const sector = 512

// boltCommit is a bbolt file before and after a commit. bbolt writes the pages that it changes, syncs, writes one meta page, and
// syncs: what is synced is before, then before and the pages, then after.
type boltCommit struct{ before, after []byte }

// file is the file as a power loss within the commit may leave it. Any sectors of what was not synced are there. With pages
// alone the meta is not, so the commit has had no effect; with all, it may have.
func (c boltCommit) file(rng *rand.Rand) (file []byte, metaToo bool) {
	file = slices.Clone(c.before)
	if len(c.after) > len(file) && rng.IntN(4) > 0 { // it grew
		file = append(file, make([]byte, len(c.after)-len(file))...)
	}
	metas := 2 * os.Getpagesize()
	metaToo = rng.IntN(3) == 0
	share := rng.IntN(101)
	for at := 0; at+sector <= len(c.after); at += sector {
		switch {
		case metaToo && at >= metas: // synced
		case at < metas && !metaToo, rng.IntN(100) >= share:
			continue
		}
		if need := at + sector; need > len(file) {
			file = append(file, make([]byte, need-len(file))...)
		}
		copy(file[at:], c.after[at:at+sector])
	}
	return file, metaToo
}

// boltLife is a bbolt file under some store, with what the store was told.
type boltLife[S any] struct {
	path  string
	open  func(path string) S
	close func(S)
	// check tells whether the store has what was acknowledged, or, if pending is not nil, that, and can go on.
	check func(name string, s S, acked, pending any)
}

// run does each step, and after it hands outcomes of a power loss in each of its commits to check.
func (l boltLife[S]) run(t *testing.T, rng *rand.Rand, steps int, step func(s S) any) {
	t.Helper()
	s := l.open(l.path)
	var acked any
	for n := range steps {
		var before []byte
		if rng.IntN(12) == 0 { // opening is a commit too
			l.close(s)
			before = mustRead(t, l.path)
			s = l.open(l.path)
			l.outcomes(t, rng, n, boltCommit{before, mustRead(t, l.path)}, acked, acked)
		}
		before = mustRead(t, l.path)
		pending := step(s)
		l.outcomes(t, rng, n, boltCommit{before, mustRead(t, l.path)}, acked, pending)
		acked = pending
	}
	l.close(s)
}

func (l boltLife[S]) outcomes(t *testing.T, rng *rand.Rand, n int, c boltCommit, acked, pending any) {
	t.Helper()
	for k := range 3 {
		file, metaToo := c.file(rng)
		name := fmt.Sprintf("step %d, outcome %d, with the meta: %v", n, k, metaToo)
		path := filepath.Join(t.TempDir(), filepath.Base(l.path))
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		s := l.open(path)
		if !metaToo {
			l.check(name, s, acked, acked)
		} else {
			l.check(name, s, acked, pending)
		}
		l.close(s)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func onEachSeed(t *testing.T, test func(t *testing.T, rng *rand.Rand)) {
	for seed := range *seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { test(t, rand.New(rand.NewPCG(seed, 21))) })
	}
}

// TestBoltLogPowerLoss loses power in each commit of a life of appends, cuts at either end and openings of a log of kind bolt. What was
// acknowledged is there, of the call under way nothing or all, and the log can go on.
func TestBoltLogPowerLoss(t *testing.T) { onEachSeed(t, testBoltLogPowerLoss) }

func testBoltLogPowerLoss(t *testing.T, rng *rand.Rand) {
	var now []*raft.Log
	next, term := uint64(1), uint64(1)
	life := boltLife[boltLog]{path: filepath.Join(t.TempDir(), "log.db")}
	life.open = func(path string) boltLog {
		b, err := openBoltLog(path)
		if err != nil {
			t.Fatalf("opening: %v", err)
		}
		return b
	}
	life.close = func(b boltLog) {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	life.check = func(name string, b boltLog, acked, pending any) {
		want, _ := acked.([]*raft.Log)
		other, _ := pending.([]*raft.Log)
		low, err1 := b.FirstIndex()
		high, err2 := b.LastIndex()
		if err1 != nil || err2 != nil {
			t.Fatalf("%s: %v, %v", name, err1, err2)
		}
		if is := func(logs []*raft.Log) bool {
			return len(logs) == 0 && high == 0 || len(logs) > 0 && logs[0].Index == low && logs[len(logs)-1].Index == high
		}; !is(want) && is(other) {
			want = other
		}
		t.Log(name)
		checkWAL(t, b, want)
		if err := b.StoreLogs(walEntries(high+1, high+2, 99, 50)); err != nil {
			t.Fatalf("%s: going on: %v", name, err)
		}
		checkWAL(t, b, slices.Concat(want, walEntries(high+1, high+2, 99, 50)))
	}
	life.run(t, rng, 60, func(b boltLog) any {
		switch n := len(now); {
		case n > 20 && rng.IntN(5) == 0: // head, as after a snapshot
			cut := 1 + rng.IntN(n-1)
			if err := b.DeleteRange(now[0].Index, now[cut-1].Index); err != nil {
				t.Fatal(err)
			}
			now = now[cut:]
		case n > 1 && rng.IntN(8) == 0: // tail, as after an election
			cut := 1 + rng.IntN(n-1)
			if err := b.DeleteRange(now[cut].Index, now[n-1].Index); err != nil {
				t.Fatal(err)
			}
			next, term = now[cut].Index, term+1
			now = now[:cut]
		default:
			size := rng.IntN(2000)
			if rng.IntN(15) == 0 {
				size = 60_000 // pages of their own
			}
			batch := walEntries(next, next+rng.Uint64N(8), term, size)
			if err := b.StoreLogs(batch); err != nil {
				t.Fatal(err)
			}
			next += uint64(len(batch))
			now = slices.Concat(now, batch)
		}
		return slices.Clone(now)
	})
}

// TestStablePowerLoss loses power in each commit of a life of terms, votes and openings: no term and no vote that was
// acknowledged is forgotten, and a vote is never half of one.
func TestStablePowerLoss(t *testing.T) { onEachSeed(t, testStablePowerLoss) }

func testStablePowerLoss(t *testing.T, rng *rand.Rand) {
	now := map[string]string{}
	term := uint64(0)
	life := boltLife[*StableStore]{path: filepath.Join(t.TempDir(), "stable.db")}
	life.open = func(path string) *StableStore { return mustOpenStable(t, path) }
	life.close = func(s *StableStore) {
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
	}
	life.check = func(name string, s *StableStore, acked, pending any) {
		want, _ := acked.(map[string]string)
		other, _ := pending.(map[string]string)
		if got := stableValues(s); !maps.Equal(got, want) && !maps.Equal(got, other) {
			t.Fatalf("%s: %q, expected %q, or %q of the call under way", name, got, want, other)
		}
		if err := s.SetUint64([]byte(currentTermKey), 1<<40); err != nil {
			t.Fatalf("%s: going on: %v", name, err)
		}
	}
	life.run(t, rng, 80, func(s *StableStore) any {
		if term++; rng.IntN(2) == 0 {
			if err := s.SetUint64([]byte(currentTermKey), term); err != nil {
				t.Fatal(err)
			}
		} else {
			candidate := bytes.Repeat([]byte{'a' + byte(term%26)}, 1+rng.IntN(40))
			if err := s.SetUint64([]byte(voteTermKey), term); err != nil {
				t.Fatal(err)
			}
			if err := s.Set([]byte(voteCandidate), candidate); err != nil {
				t.Fatal(err)
			}
		}
		now = stableValues(s)
		return now
	})
}

func mustOpenStable(t testing.TB, path string) *StableStore {
	t.Helper()
	s := newStable(newGuard(DefaultStallLimit, noFatal(t), nil))
	if err := s.open(path); err != nil {
		t.Fatalf("opening: %v", err)
	}
	return s
}

func stableValues(s *StableStore) map[string]string {
	values := map[string]string{}
	for k, v := range s.values {
		values[k] = string(v)
	}
	return values
}
