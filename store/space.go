package store

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// floorShare and floorMost bound how much of the disk is to stay free: a twentieth, and no more than
	// so many bytes.
	floorShare = 20
	floorMost  = 256 << 20
)

// ErrNoRoom: what was to be written would leave too little of the disk free.
var ErrNoRoom = errors.New("too little of the disk is free")

// Space is how much room the disk of a data directory has, in bytes.
type Space struct {
	Free  uint64 // that this process may use
	Total uint64
	Floor uint64 // below it a node should stop taking on work
}

// Low tells whether less is free than should be.
func (s Space) Low() bool { return s.Free < s.Floor }

// Roomy tells whether there is clearly more than the floor, so that a node does not come and go at it.
func (s Space) Roomy() bool { return s.Free >= s.Floor+s.Floor/4 }

// Space asks the file system.
func (d *Dir) Space() (Space, error) { return d.files.space() }

// space is unlimited where the file system does not tell, as one in memory.
func (f files) space() (Space, error) {
	use, err := f.usage()
	if errors.Is(err, vfs.ErrUnsupported) {
		return Space{Free: 1 << 62, Total: 1 << 62, Floor: floorMost}, nil
	}
	if err != nil {
		return Space{}, fmt.Errorf("asking how much of the disk of %s is free: %w", f.root, err)
	}
	return Space{Free: use.AvailBytes, Total: use.TotalBytes, Floor: min(use.TotalBytes/floorShare, floorMost)}, nil
}

// usage is what the file system, or Options.Usage, says.
func (f files) usage() (vfs.DiskUsage, error) {
	if f.guard.usage != nil {
		free, total := f.guard.usage()
		return vfs.DiskUsage{AvailBytes: free, TotalBytes: total}, nil
	}
	return f.GetDiskUsage(f.root)
}

// room refuses what takes so many bytes and would leave less than the floor.
func (f files) room(bytes int64) error {
	s, err := f.space()
	if err != nil {
		return err
	}
	if need := s.Floor + uint64(max(bytes, 0)); s.Free < need {
		return fmt.Errorf("%w: %d bytes of the disk of %s, and %d are needed, of which %d stay free", ErrNoRoom, s.Free, f.root, need, s.Floor)
	}
	return nil
}
