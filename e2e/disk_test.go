//go:build linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// tmpfs mounts a file system of its own of so many bytes, which is gone after the test. Without the right to mount
// the test is skipped.
func tmpfs(t *testing.T, dir string, bytes int) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", bytes)); err != nil {
		t.Skipf("SKIPPED: no disk can be filled here, since mounting a tmpfs needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", dir, err)
		}
	})
}

// fillUp writes to dir until nothing fits any more.
func fillUp(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 4096); ; {
		if _, err := f.Write(block); err != nil {
			return
		}
	}
}

// TestRefusedDisk starts a node, a new one and a member, on a disk that is full or read-only.
func TestRefusedDisk(t *testing.T) {
	t.Parallel()
	for _, member := range []bool{false, true} {
		for _, fault := range []string{"full", "read-only"} {
			t.Run(fmt.Sprintf("%s, member %t", fault, member), func(t *testing.T) {
				c := layOut(t, 1, nil)
				n := c.nodes[0]
				tmpfs(t, n.data, 4<<20)
				if member {
					c.start(n)
					c.ready(n)
					if a := n.reserve("k", nil); a.status != 201 {
						t.Fatal(a)
					}
					n.stop()
				}
				want := "no space left on device"
				if fault == "full" {
					fillUp(t, n.data)
				} else {
					want = "read-only file system"
					remount(t, n.data, unix.MS_RDONLY)
				}
				n.refused("", n.data, "not writable", want)
				if fault == "full" {
					if err := os.Remove(filepath.Join(n.data, "ballast")); err != nil {
						t.Fatal(err)
					}
				} else {
					remount(t, n.data, 0)
				}
				c.start(n)
				c.ready(n)
				if a := n.look("k"); member && a.status != 200 {
					t.Errorf("after the repair the record is gone: %s", a)
				}
			})
		}
	}
}

func remount(t *testing.T, dir string, flags uintptr) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|flags, ""); err != nil {
		t.Fatal(err)
	}
}

// TestDiskFillsUp lets the leader's disk fill up under load: it ends with exit code 1 and says why, the others
// go on, and nothing that was acknowledged is missing. With room again it comes back.
func TestDiskFillsUp(t *testing.T) {
	t.Parallel()
	c := layOut(t, 3, func(i int, n *node) {
		if i == 0 { // it is quicker to stand for election, so it leads
			return
		}
		n.settings = append(n.settings, "election_timeout: 2s")
	})
	n := c.nodes[0]
	tmpfs(t, n.data, 24<<20)
	c.start(c.nodes...)
	c.ready(c.nodes...)
	if leader := c.leader(); leader != n {
		t.Logf("%s leads", leader.id)
	}
	from := n.size()
	records := c.fillDisk(n)
	if code := n.exit(); code != 1 {
		t.Errorf("exit code %d, expected 1", code)
	}
	lines := n.logged(from, "no space left on device")
	if len(lines) == 0 {
		t.Error("it does not say why")
	} else {
		t.Log(lines[len(lines)-1])
	}
	if len(n.logged(from, "panic:"))+len(n.logged(from, "goroutine ")) > 0 {
		t.Error("it ends in a panic")
	}
	left := c.others(n)
	key, s := "after", kind(2, 1)
	a := c.insist(1, func(n *node) answer { return n.reserve(key, object{"owner": "o"}) })
	token := a.record().Token
	if a = c.insist(2, func(n *node) answer { return n.complete(key, token, s.object()) }); a.status != 200 {
		t.Errorf("the others do not go on: %s", a)
	}
	records = append(records, kept{key, token, &s, &s})
	c.nodes = left
	c.equalTables()
	c.verifyAll(records)
	c.nodes = append([]*node{n}, left...)
	if err := unix.Mount("tmpfs", n.data, "tmpfs", unix.MS_REMOUNT, fmt.Sprintf("size=%d", 512<<20)); err != nil {
		t.Fatal(err)
	}
	c.start(n)
	c.ready(n)
	c.equalTables()
	c.verifyAll(records)
}

// fillDisk completes records of 256 KiB until node n has ended.
func (c *cluster) fillDisk(n *node) (records []kept) {
	c.t.Helper()
	chance := rand.NewChaCha8([32]byte{1})
	for i := range 1000 {
		select {
		case <-n.running().Done():
			return records
		default:
		}
		key, s := fmt.Sprintf("fill-%d", i), stored{status: 200, headers: [][2]string{{"X-Serial", fmt.Sprint(i)}}, body: make([]byte, 256<<10)}
		chance.Read(s.body)
		a := c.insist(i, func(n *node) answer { return n.reserve(key, object{"owner": "o"}) })
		token := a.record().Token
		if a = c.insist(i+1, func(n *node) answer { return n.complete(key, token, s.object()) }); a.status != 200 {
			c.t.Fatalf("completing %s: %s", key, a)
		}
		records = append(records, kept{key, token, &s, &s})
	}
	c.t.Fatal("its disk does not fill up")
	return nil
}

// TestLeaderDiskStalls: the disk of the leader hangs and does not come back. Its process ends, since it would go on
// sending heartbeats that keep the others from electing (raft#503), and the others go on.
func TestLeaderDiskStalls(t *testing.T) {
	t.Parallel()
	c := begin(t, func(_ int, n *node) { n.env = append(n.env, "ONCED_FAULT_STALL="+n.data+".stall") })
	n := c.leader()
	from := n.size()
	if err := os.WriteFile(n.data+".stall", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stalled := make(chan answer, 1)
	go func() { stalled <- n.reserve("stalled", object{"owner": "o"}) }()
	if code := n.exit(); code != 1 {
		t.Errorf("exit code %d, expected 1", code)
	}
	if a := <-stalled; !a.undecided() {
		t.Errorf("the reserve that it could not write: %s", a)
	}
	if len(n.logged(from, "stalled for more than")) == 0 {
		t.Error("it does not say why it ends")
	}
	if a := c.insist(1, func(n *node) answer { return n.reserve("after", object{"owner": "o"}) }); a.status != 201 {
		t.Errorf("the others do not go on: %s", a)
	}
}
