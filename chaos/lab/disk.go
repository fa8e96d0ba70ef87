//go:build linux

package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// diskBytes is the size of a node's disk.
const diskBytes = 256 << 20

// mount gives the node a disk of its own.
func (n *Node) mount() error {
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return err
	}
	if n.cluster.net == nil {
		return nil
	}
	if err := unix.Mount("tmpfs", n.dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", diskBytes)); err != nil {
		return fmt.Errorf("mounting a disk at %s: %w", n.dir, err)
	}
	return nil
}

func (n *Node) unmount() {
	if n.cluster.net != nil {
		_ = unix.Unmount(n.dir, unix.MNT_DETACH) // else it goes with the namespace
	}
}

// FillDisk leaves no room.
func (n *Node) FillDisk() error {
	f, err := os.OpenFile(filepath.Join(n.dir, "ballast"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 1<<16); len(block) > 0; {
		if _, err := f.Write(block); errors.Is(err, unix.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			return err
		}
	}
	return nil
}

// EmptyDisk undoes FillDisk.
func (n *Node) EmptyDisk() error { return os.RemoveAll(filepath.Join(n.dir, "ballast")) }

// SetReadOnly makes the disk refuse every write, or take them again. The node must be down: no kernel makes a file system
// read-only while a file is open for writing.
func (n *Node) SetReadOnly(on bool) error {
	var flags uintptr = unix.MS_REMOUNT
	if on {
		flags |= unix.MS_RDONLY
	}
	return unix.Mount("tmpfs", n.dir, "tmpfs", flags, "")
}

// Wipe removes everything that the node has on its disk.
func (n *Node) Wipe() error { return os.RemoveAll(n.data) }

// Damage is what may happen to a file behind a node's back.
type Damage struct {
	What     string // log, table or snapshot
	Truncate bool   // else bits are flipped
}

// Apply damages one file of the node's directory, chosen by chance, while the node is down, and says which.
func (d Damage) Apply(n *Node, chance *rand.Rand) (string, error) {
	patterns := map[string][]string{
		"log":      {"raft/log.db", "raft/wal/*"},
		"table":    {"table-*/*.sst", "table-*/MANIFEST*", "CURRENT"},
		"snapshot": {"snapshots/*/meta.json", "snapshots/*/state"},
	}[d.What]
	var files []string
	for _, p := range patterns {
		found, err := filepath.Glob(filepath.Join(n.data, p))
		if err != nil {
			return "", err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return "nothing there to be damaged", nil
	}
	path := files[chance.IntN(len(files))]
	n.mu.Lock()
	n.damaged = true
	n.mu.Unlock()
	name, _ := filepath.Rel(n.data, path)
	info, err := os.Stat(path)
	if err != nil || info.Size() == 0 {
		return name + " is empty", err
	}
	if d.Truncate {
		size := chance.Int64N(info.Size())
		return fmt.Sprintf("%s cut to %d of %d bytes", name, size, info.Size()), os.Truncate(path, size)
	}
	return flip(path, name, chance)
}

// flip turns bits in places that hold something: most of a log's file is empty.
func flip(path, name string, chance *rand.Rand) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	flipped, most := 0, 1+chance.IntN(200)
	for tries := 0; flipped < most && tries < 100_000; tries++ {
		if i := chance.IntN(len(raw)); raw[i] != 0 {
			raw[i] ^= 1 << chance.IntN(8)
			flipped++
		}
	}
	return fmt.Sprintf("%d bits flipped in %s", flipped, name), os.WriteFile(path, raw, 0o600)
}
