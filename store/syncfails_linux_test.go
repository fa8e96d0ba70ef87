package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// failSyncs makes every sync of this process err from now on, as of a disk that has lost what it took, while its writes
// succeed. It cannot be undone.
func failSyncs() error {
	const errno = unix.SECCOMP_RET_ERRNO | uint32(unix.EIO)
	calls := []uint32{unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNC_FILE_RANGE}
	program := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the number of the call
	for i, call := range calls {
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jt: uint8(len(calls) - i)})
	}
	program = append(program, unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW}, unix.SockFilter{Code: unix.BPF_RET, K: errno})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, failed := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	runtime.KeepAlive(program)
	if failed != 0 {
		return failed
	}
	return nil
}

// What a child in the role "sync" ends with.
const (
	endedByFatal = 40 // Options.Fatal was called
	noFilter     = 41 // syncs cannot be made to err here
	refused      = 42 // the call returned the error, and the disk is still used
)

func init() { childRoles["sync"] = childSyncs }

// syncedCalls are the calls whose return says that something is durable, so that a sync that errs must end the process.
func syncedCalls(t *testing.T) map[string]func(d *Dir) error {
	return map[string]func(d *Dir) error{
		"append": func(d *Dir) error { return d.Logs().StoreLogs(walEntries(11, 12, 1, 300)) },
		"cut":    func(d *Dir) error { return d.Logs().DeleteRange(1, 5) },
		"vote": func(d *Dir) error {
			return errors.Join(d.Stable().SetUint64([]byte(voteTermKey), 9), d.Stable().Set([]byte(voteCandidate), []byte("n3")))
		},
		"flush":    func(d *Dir) error { fill(t, d.Table(), 11, 12); return d.Table().Flush() },
		"snapshot": func(d *Dir) error { fill(t, d.Table(), 11, 12); _, err := take(d, 12, 1); return err },
		"restore": func(d *Dir) error {
			stream, err := os.ReadFile(os.Getenv("ONCED_TEST_STREAM"))
			if err != nil {
				return err
			}
			return d.Restore(bytes.NewReader(stream))
		},
	}
}

func childSyncs(t *testing.T, path string) {
	d, err := Open(path, Options{CacheBytes: 1 << 20, Usage: smallDisk, Fatal: func(err error) {
		fmt.Println("fatal:", err)
		os.Exit(endedByFatal)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := failSyncs(); err != nil {
		fmt.Println(err)
		os.Exit(noFilter)
	}
	err = syncedCalls(t)[os.Getenv("ONCED_TEST_CALL")](d)
	fmt.Println("returned", err)
	switch {
	case err == nil:
		os.Exit(0) // at once: closing would find out
	case d.Err() == nil:
		os.Exit(refused)
	}
	select {} // Fatal ends the process from another goroutine
}

// TestSyncErrorEndsTheProcess makes each sync err whose write went well. The process ends at the first of them, and says which disk has
// erred; nothing was acknowledged; the next process finds what was acknowledged before, whole.
func TestSyncErrorEndsTheProcess(t *testing.T) {
	stream := filepath.Join(t.TempDir(), "stream")
	if err := os.WriteFile(stream, sourceStream(t), 0o600); err != nil {
		t.Fatal(err)
	}
	onEachLog(t, func(t *testing.T, kind LogKind) {
		for name := range syncedCalls(t) {
			t.Run(name, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "data")
				d := mustOpenLog(t, path, kind)
				mustSetTerm(t, d, 1)
				if err := d.Logs().StoreLogs(walEntries(1, 10, 1, 300)); err != nil {
					t.Fatal(err)
				}
				fill(t, d.Table(), 1, 10)
				if _, err := take(d, 10, 1); err != nil {
					t.Fatal(err)
				}
				mustClose(t, d)
				c := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.timeout=60s")
				c.Env = append(os.Environ(), childRole+"=sync", "ONCED_TEST_DIR="+path, "ONCED_TEST_CALL="+name, "ONCED_TEST_STREAM="+stream)
				out, err := c.CombinedOutput()
				switch code := c.ProcessState.ExitCode(); {
				case code == noFilter:
					t.Skipf("SKIPPED: syncs cannot be made to err here: %s", out)
				case name == "restore" && code == refused: // before anything of it was in force
				case code != endedByFatal || !strings.Contains(string(out), "input/output error") || strings.Contains(string(out), "returned <nil>"):
					t.Fatalf("%v: exit code %d, expected %d\n%s", err, code, endedByFatal, out)
				}
				d = mustOpen(t, path)
				got := stateOf(d)
				if got.last != 10 && got.last != 12 || got.first > 6 || got.vote != "" && (got.vote != "n3" || got.voteTerm != 9) || got.term != 1 || got.newest != 10 {
					t.Errorf("afterwards: %+v", got)
				}
				checkFilled(t, d.Table(), 60)
				mustClose(t, d)
			})
		}
	})
}
