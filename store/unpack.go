package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// readLabel reads the front of a stream.
func readLabel(r io.Reader) (label, error) {
	b := make([]byte, labelSize)
	if _, err := io.ReadFull(r, b); err != nil {
		return label{}, cut(err)
	}
	return parseLabel(b)
}

// unpack writes the files of a body into a new folder, durably but for the folder's own name, and checks that the
// body is whole. After an error the folder is worthless.
func (f files) unpack(r io.Reader, dir string) error {
	if err := f.RemoveAll(dir); err != nil {
		return fmt.Errorf("clearing %s: %w", dir, err)
	}
	if err := f.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making %s: %w", dir, err)
	}
	sum := xxhash.New()
	body := io.TeeReader(r, sum)
	list, err := readFileList(body)
	if err != nil {
		return err
	}
	var total int64
	for _, file := range list {
		total += file.size
	}
	if err := f.room(total); err != nil {
		return err
	}
	for _, file := range list {
		if err := f.unpackFile(body, f.PathJoin(dir, file.name), file.size); err != nil {
			return err
		}
	}
	if err := checkTrailer(r, sum.Sum64()); err != nil {
		return err
	}
	return f.syncDir(dir)
}

func readFileList(r io.Reader) ([]streamFile, error) {
	var b [8]byte
	if _, err := io.ReadFull(r, b[:4]); err != nil {
		return nil, cut(err)
	}
	n := binary.BigEndian.Uint32(b[:4])
	if n == 0 || n > maxFiles {
		return nil, fmt.Errorf("reading a snapshot: %w: it has %d files", ErrDamaged, n)
	}
	var list []streamFile // grown as names come in: the number is not to be trusted yet
	for range n {
		if _, err := io.ReadFull(r, b[:2]); err != nil {
			return nil, cut(err)
		}
		name := make([]byte, binary.BigEndian.Uint16(b[:2]))
		if _, err := io.ReadFull(r, name); err != nil {
			return nil, cut(err)
		}
		if _, err := io.ReadFull(r, b[:8]); err != nil {
			return nil, cut(err)
		}
		file := streamFile{string(name), int64(binary.BigEndian.Uint64(b[:8]))}
		if !plainName(file.name) || file.size < 0 {
			return nil, fmt.Errorf("reading a snapshot: %w: it has a file %.80q of %d bytes", ErrDamaged, file.name, file.size)
		}
		list = append(list, file)
	}
	return list, nil
}

// plainName keeps a stream from writing outside of its folder.
func plainName(name string) bool {
	return name != "" && len(name) <= maxFileName && name[0] != '.' && name != "LOCK" && !strings.ContainsAny(name, "/\\\x00")
}

func (f files) unpackFile(r io.Reader, path string, size int64) error {
	file, err := f.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("creating %s: %w", path, err)
	}
	// A vfs.File may change what it writes, and the checksum is taken before.
	_, err = io.CopyN(struct{ io.Writer }{file}, r, size)
	if err == nil {
		err = file.Sync()
	} else {
		err = cut(err)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// cut turns the end of a stream into an error that says so.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("reading a snapshot: %w: it is cut short", ErrDamaged)
	}
	return fmt.Errorf("reading a snapshot: %w", err)
}
