package store

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"
)

// BackupInfo is what a backup says of itself.
type BackupInfo struct {
	Index uint64 // of the last log entry that is surely in it
	Bytes int64  // of the whole backup
}

// VerifyBackup reads a backup to its end and checks that it is whole. What is cut short, changed, or no
// backup at all is ErrDamaged; so is anything after its end.
func VerifyBackup(r io.Reader) (BackupInfo, error) {
	l, err := readLabel(r)
	if err != nil {
		return BackupInfo{}, err
	}
	if l.kind != labelBackup {
		return BackupInfo{}, fmt.Errorf("reading a backup: %w: it is of kind %d, expected %d", ErrDamaged, l.kind, labelBackup)
	}
	sum := xxhash.New()
	body := &counted{r: io.TeeReader(r, sum)}
	list, err := readFileList(body)
	if err != nil {
		return BackupInfo{}, err
	}
	for _, file := range list {
		if _, err := io.CopyN(io.Discard, body, file.size); err != nil {
			return BackupInfo{}, cut(err)
		}
	}
	if err := checkTrailer(r, sum.Sum64()); err != nil {
		return BackupInfo{}, err
	}
	if n, err := io.CopyN(io.Discard, r, 1); n > 0 || err != io.EOF {
		return BackupInfo{}, fmt.Errorf("reading a backup: %w: something comes after its end", ErrDamaged)
	}
	return BackupInfo{Index: l.index, Bytes: int64(labelSize) + body.n + sumSize}, nil
}

// checkTrailer reads the checksum at the end of a body and compares.
func checkTrailer(r io.Reader, want uint64) error {
	var trailer [sumSize]byte
	if _, err := io.ReadFull(r, trailer[:]); err != nil {
		return cut(err)
	}
	if got := binary.BigEndian.Uint64(trailer[:]); got != want {
		return fmt.Errorf("reading a snapshot: %w: its checksum is %x, expected %x", ErrDamaged, got, want)
	}
	return nil
}

// counted counts what is read through it.
type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
