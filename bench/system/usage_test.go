package system

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestProcessorCountsChildren holds the count to a child's work, running and ended.
func TestProcessorCountsChildren(t *testing.T) {
	self := []int{os.Getpid()}
	before, err := Processor(self)
	if err != nil {
		t.Fatal(err)
	}
	busy := exec.Command("sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exec cat")
	in, err := busy.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	if all := family(self); !slices.Contains(all, busy.Process.Pid) {
		t.Errorf("%v lacks the child %d", all, busy.Process.Pid)
	}
	in.Close()
	if err := busy.Wait(); err != nil {
		t.Fatal(err)
	}
	after, err := Processor(self)
	if err != nil {
		t.Fatal(err)
	}
	if after-before < 20*time.Millisecond {
		t.Errorf("a busy child has used %s", after-before)
	}
}

func TestMemoryAndDisk(t *testing.T) {
	if got, err := Memory([]int{os.Getpid()}); err != nil || got < 1<<20 {
		t.Errorf("this process has %d bytes, %v", got, err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), make([]byte, 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	hole, err := os.Create(filepath.Join(dir, "b"))
	if err == nil {
		err = hole.Truncate(1 << 30)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	if got, err := Disk(dir); err != nil || got < 100_000 || got > 1<<20 {
		t.Errorf("a file of 100,000 bytes and a hole take %d, %v", got, err)
	}
	if n, err := labelled("Rss: 10 kB\nPss:      7 kB\nPss_Anon: 3 kB\n", "Pss:"); n != 7 || err != nil {
		t.Errorf("the set is %d KiB, %v", n, err)
	}
}

// TestWritten holds the count to bytes that a child wrote, running and ended.
func TestWritten(t *testing.T) {
	if n, err := labelled("read_bytes: 3\nwrite_bytes: 4096\ncancelled_write_bytes: 7\n", "write_bytes:"); n != 4096 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := labelled("read_bytes: 3\n", "write_bytes:"); err == nil {
		t.Error("a count that is not there is none")
	}
	self := []int{os.Getpid()}
	before, err := Written(self)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("dd", "if=/dev/zero", "of="+filepath.Join(t.TempDir(), "file"), "bs=4096", "count=256", "conv=fsync").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	after, err := Written(self)
	if err != nil {
		t.Fatal(err)
	}
	switch got := after - before; {
	case got == 0:
		t.Skip("the directory of tests is not on a disk")
	case got < 1<<20:
		t.Errorf("a child that ended has written %d bytes, expected 1 MiB", got)
	}
}
