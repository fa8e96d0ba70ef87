package store

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// A child is this test binary once more, in a role of its own, on a directory. It prints "ack N" once its N-th call has
// returned, and "step NAME" before each durable step.
const childRole = "ONCED_TEST_CHILD"

// childRoles are what a child may do.
var childRoles = map[string]func(t *testing.T, path string){"convert": childConverts, "life": childLives}

// TestChild is what a child runs; in any other run it does nothing.
func TestChild(t *testing.T) {
	if do := childRoles[os.Getenv(childRole)]; do != nil {
		do(t, os.Getenv("ONCED_TEST_DIR"))
	}
}

// child is a process in a role.
type child struct {
	cmd *exec.Cmd
	out *bufio.Scanner
}

func startChild(t *testing.T, role, path string, env ...string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.timeout=120s")}
	c.cmd.Env = append(append(os.Environ(), childRole+"="+role, "ONCED_TEST_DIR="+path), env...)
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	return c
}

// killing describes how a child is killed: at its n-th step by itself, before it; or by its parent, as soon as that has read of the step; or by
// itself before the first step of a name.
type killing struct {
	n      int
	parent bool
	before string
}

func (k killing) String() string {
	if k.before != "" {
		return "before the first step " + k.before
	}
	if k.parent {
		return fmt.Sprintf("in about step %d", k.n)
	}
	return fmt.Sprintf("before step %d", k.n)
}

// run runs a child until it is killed, or ends by itself. It returns how many calls were acknowledged, and at which step it was killed.
func (k killing) run(t *testing.T, role, path string, env ...string) (acked int, step string, done bool) {
	t.Helper()
	if !k.parent {
		env = append(env, "ONCED_TEST_KILL="+strconv.Itoa(k.n), "ONCED_TEST_KILL_BEFORE="+k.before)
	}
	c := startChild(t, role, path, env...)
	var said []string
	for steps := 0; c.out.Scan(); {
		said = append(said, c.out.Text())
		if strings.HasPrefix(c.out.Text(), "ack ") {
			acked++
		}
		if name, ok := strings.CutPrefix(c.out.Text(), "step "); ok {
			if step = name; k.parent {
				if steps++; steps == k.n {
					if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
						t.Fatal(err)
					}
				}
			}
		}
	}
	err := c.cmd.Wait()
	if err == nil {
		return acked, "", true
	}
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the child ended by itself: %v\n%s", err, strings.Join(said, "\n"))
	}
	return acked, step, false
}

// childOptions are those of a child that kills itself before its n-th step whose name begins with prefix, or before the first of a name.
func childOptions(t *testing.T, kind LogKind, prefix string) Options {
	at, _ := strconv.Atoi(os.Getenv("ONCED_TEST_KILL"))
	before := os.Getenv("ONCED_TEST_KILL_BEFORE")
	var mu sync.Mutex
	n := 0
	return Options{Log: kind, Usage: smallDisk, CacheBytes: 1 << 20, Fatal: noFatal(t), Fault: func(step string) error {
		mu.Lock()
		defer mu.Unlock()
		if !strings.HasPrefix(step, prefix) || step == "table.write" {
			return nil
		}
		fmt.Println("step " + step)
		if n++; n == at || step == before {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}}
}

func childConverts(t *testing.T, path string) {
	d, err := Open(path, childOptions(t, LogKind(os.Getenv("ONCED_TEST_LOG")), "log."))
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, d)
}

// TestConversionKilled kills a process that converts its log, by SIGKILL, at each step. The log has all its entries at the next start, of
// whichever kind, and no other log is left.
func TestConversionKilled(t *testing.T) {
	onEachLog(t, func(t *testing.T, from LogKind) {
		source, logs := convertible(t, from)
		for n, ended := 1, false; !ended; n++ {
			for _, parent := range []bool{false, true} {
				k, path := killing{n: n, parent: parent}, copyDir(t, source)
				_, step, done := k.run(t, "convert", path, "ONCED_TEST_LOG="+string(otherKind(from)))
				if ended = ended || done && !parent; done && n == 1 && !parent {
					t.Fatal("it had no step")
				}
				next := LogKinds[n%len(LogKinds)]
				d := mustOpenLog(t, path, next)
				t.Logf("killed %v (%s)", k, step)
				checkWAL(t, d.Logs().engine, logs)
				checkFilled(t, d.Table(), 60)
				if err := d.Logs().StoreLogs(walEntries(1301, 1302, 2, 10)); err != nil {
					t.Fatal(err)
				}
				mustClose(t, d)
				checkOneLog(t, path, next)
				if err := os.RemoveAll(path); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// lifeState is what a directory says of itself.
type lifeState struct {
	phase          string
	term, voteTerm uint64
	vote           string
	first, last    uint64 // of the log
	newest         uint64 // snapshot
}

func stateOf(d *Dir) (s lifeState) {
	id, _ := d.Identity()
	s.phase = id.Phase
	s.term, _ = d.Stable().GetUint64([]byte(currentTermKey))
	s.voteTerm, _ = d.Stable().GetUint64([]byte(voteTermKey))
	vote, _ := d.Stable().Get([]byte(voteCandidate))
	s.vote = string(vote)
	s.first, _ = d.Logs().FirstIndex()
	s.last, _ = d.Logs().LastIndex()
	s.newest = d.Snapshots().LastIndex()
	return s
}

// lifeCalls are the calls of a life, each with what it changes.
func lifeCalls(t *testing.T, stream []byte) []struct {
	do    func(d *Dir) error
	after func(s *lifeState)
} {
	phase := func(p string) func(d *Dir) error {
		return func(d *Dir) error { return d.SetIdentity(Identity{ClusterID: "c1", NodeID: "n1", Phase: p}) }
	}
	term := func(n uint64) func(d *Dir) error {
		return func(d *Dir) error { return d.Stable().SetUint64([]byte(currentTermKey), n) }
	}
	return []struct {
		do    func(d *Dir) error
		after func(s *lifeState)
	}{
		{phase(PhaseFounding), func(s *lifeState) { s.phase = PhaseFounding }},
		{term(1), func(s *lifeState) { s.term = 1 }},
		{func(d *Dir) error { return d.Logs().StoreLogs(walEntries(1, 20, 1, 300)) }, func(s *lifeState) { s.first, s.last = 1, 20 }},
		{func(d *Dir) error {
			return errors.Join(d.Stable().SetUint64([]byte(voteTermKey), 2), d.Stable().Set([]byte(voteCandidate), []byte("n2")))
		}, func(s *lifeState) { s.voteTerm, s.vote = 2, "n2" }},
		{phase(PhaseMember), func(s *lifeState) { s.phase = PhaseMember }},
		{func(d *Dir) error {
			fill(t, d.Table(), 1, 20)
			_, err := take(d, 20, 1)
			return err
		}, func(s *lifeState) { s.newest = 20 }},
		{func(d *Dir) error { return d.Logs().DeleteRange(15, 20) }, func(s *lifeState) { s.last = 14 }},
		{func(d *Dir) error { return d.Logs().DeleteRange(1, 5) }, func(s *lifeState) { s.first = 6 }},
		{func(d *Dir) error { return install(d, 40, 1, stream) }, func(s *lifeState) { s.newest = 40 }},
		{func(d *Dir) error { return d.Logs().DeleteRange(6, 14) }, func(s *lifeState) { s.first, s.last = 0, 0 }},
		{func(d *Dir) error { return d.Logs().StoreLogs(walEntries(41, 45, 2, 300)) }, func(s *lifeState) { s.first, s.last = 41, 45 }},
		{term(3), func(s *lifeState) { s.term = 3 }},
	}
}

func childLives(t *testing.T, path string) {
	stream, err := os.ReadFile(os.Getenv("ONCED_TEST_STREAM"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(path, childOptions(t, LogKind(os.Getenv("ONCED_TEST_LOG")), ""))
	if err != nil {
		t.Fatal(err)
	}
	for n, call := range lifeCalls(t, stream) {
		if err := call.do(d); err != nil {
			t.Fatal(err)
		}
		fmt.Println("ack", n)
	}
	mustClose(t, d)
}

// TestLifeKilled kills a process by SIGKILL at each durable step of the life of a directory, from its first open to its close. The next process
// gets the lock, and finds every call that was acknowledged, and of the one under way nothing or all.
func TestLifeKilled(t *testing.T) {
	stream := sourceStream(t)
	file := filepath.Join(t.TempDir(), "stream")
	if err := os.WriteFile(file, stream, 0o600); err != nil {
		t.Fatal(err)
	}
	onEachLog(t, func(t *testing.T, kind LogKind) {
		calls := lifeCalls(t, stream)
		var steps []string
		try := func(k killing) (ended bool) {
			path := filepath.Join(t.TempDir(), "data")
			acked, step, ended := k.run(t, "life", path, "ONCED_TEST_LOG="+string(kind), "ONCED_TEST_STREAM="+file)
			if !ended {
				steps = append(steps, step)
			}
			d := mustOpenLog(t, path, kind)
			var want lifeState
			for _, call := range calls[:acked] {
				call.after(&want)
			}
			with := want
			if acked < len(calls) {
				calls[acked].after(&with)
			}
			if got := stateOf(d); got != want && got != with {
				t.Errorf("killed %v (%s), after %d calls: %+v, expected %+v, or %+v of the call under way", k, step, acked, got, want, with)
			}
			checkFilled(t, d.Table(), 60)
			mustClose(t, d)
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			return ended
		}
		for n := 1; !try(killing{n: n, parent: n%4 == 0}); n++ {
		}
		// How often the table syncs in the background differs from process to process, so that numbers may miss a step.
		for _, want := range []string{"log.store", "log.delete", "stable.set", "identity.rename", "snapshot.sync", "restore.current", "table.sync", "current.sync"} {
			if !slices.Contains(steps, want) && try(killing{before: want}) {
				t.Errorf("there is no step %s, only %v", want, steps)
			}
		}
	})
}
